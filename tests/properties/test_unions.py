"""Several sources are one stream: what a pipeline makes of them is what the brute-force model makes of their
rows together, however the range is cut, divided and run.
"""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import events_of_union, pipeline_of, replay_pipeline, union_of
from tests.properties.test_carried_watermarks import carrying
from tests.properties.test_split_and_parallelism import START, check_against_model, cuts_of, left, replays

COUNTS = st.sampled_from([2, 3])


@given(replays(), COUNTS)
@searched(8, long=60)
def test_one_run_over_several_sources_is_what_the_model_says(replay, count):
    rules, events = replay
    ours = replay_pipeline(union_of(pipeline_of(rules, False), count), events, rules, [], [2])
    check_against_model(ours, events_of_union(events, count), rules)


@pytest.mark.slow
@given(replays(), COUNTS, st.data())
@searched(4, long=40)
def test_cuts_parallelism_and_engines_do_not_show_over_several_sources(replay, count, data):
    rules, events = replay
    purging = data.draw(st.booleans(), label="purging")
    pipeline = union_of(pipeline_of(rules, purging), count)
    once = left(replay_pipeline(pipeline, events, rules, [], [1]))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5, 32]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    engines = data.draw(
        st.sampled_from(
            [(ColumnarEngine(),), (OperatorEngine(), ColumnarEngine()), (ColumnarEngine(), OperatorEngine())]
        ),
        label="engines",
    )
    assert left(replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, engines=engines)) == once


@pytest.mark.slow
@given(replays(), COUNTS, st.data())
@settings(max_examples=40)
def test_rows_that_appear_later_in_any_of_the_sources_are_folded_in_at_the_start_of_a_slice(
    replay, count, data
):
    rules, events = replay
    # Both rules look at the true arrival, which the model is not told.
    rules = dataclasses.replace(rules, max_ahead=100_000, max_behind=None)
    bounds = [rules.start, *data.draw(cuts_of(rules), label="cuts")]
    appears = data.draw(
        st.lists(st.integers(0, len(bounds) - 1), min_size=len(events), max_size=len(events)), label="appears"
    )
    pipeline = union_of(pipeline_of(rules, False), count)
    engines = data.draw(st.sampled_from([(OperatorEngine(),), (ColumnarEngine(),)]), label="engines")
    ours = replay_pipeline(pipeline, events, rules, bounds[1:], [1, 3], appears=appears, engines=engines)
    moved = [
        event._replace(arrival=bounds[first])
        if event.arrival is not None and rules.start <= event.arrival < bounds[first]
        else event
        for event, first in zip(events_of_union(events, count), appears, strict=True)
    ]
    check_against_model(ours, moved, rules)


@given(replays(), COUNTS)
@searched(4, long=20)
def test_late_and_unusable_rows_name_their_source(replay, count):
    rules, events = replay
    ours = replay_pipeline(union_of(pipeline_of(rules, False), count), events, rules, [], [2])
    title = {event.order: f"events_{number % count}" for number, event in enumerate(events)}
    assert all(row["source"] == title[row["row"]] for row in ours.late)
    for row in ours.quarantined:
        number = row["source_version"]  # each source of these tests is pinned at its position
        assert row["source_file"].startswith(f"events_{number}/since-0-")
        assert (
            f'"source": "events_{number}"' in row["row_json"]
            or f'"source":"events_{number}"' in row["row_json"]
        )


@pytest.mark.parametrize("engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"])
def test_of_equal_arrivals_the_source_that_stands_first_in_the_list_comes_first(engine):
    rules = model.Replay(start=START, to=START + 100, tick=50, bound=0, assigner=model.Tumbling(200))
    # The order columns say the opposite: they only order the rows of their own source.
    events = [
        model.Event(START, START + 10, "p", 9 - number, "a", {"x": number - 9, "y": float(number)})
        for number in range(3)
    ]
    pipeline = union_of(pipeline_of(rules, False), 3)
    [window] = replay_pipeline(pipeline, events, rules, [], [1], engines=[engine]).windows
    assert (window["earliest__value"], window["newest__value"]) == (0.0, -7)
    assert (window["opening__value"], window["closing__value"]) == (-9, 2.0)
    assert window["newest__order"] == "0002:000007"


@pytest.mark.slow
@pytest.mark.parametrize("engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"])
@given(carrying(replays()), COUNTS, st.data())
@settings(max_examples=25)
def test_watermarks_that_rows_carry_are_those_of_all_sources(engine, replay, count, data):
    rules, events = replay
    pipeline = union_of(pipeline_of(rules, False), count)
    once = replay_pipeline(pipeline, events, rules, [], [2], engines=[engine])
    check_against_model(once, events_of_union(events, count), rules)
    cuts = data.draw(cuts_of(rules), label="cuts")
    assert left(replay_pipeline(pipeline, events, rules, cuts, [1, 3], engines=[engine])) == left(once)
