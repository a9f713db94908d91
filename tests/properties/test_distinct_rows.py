"""Of the rows of a key with equal values only the first counts while it is remembered: as the brute-force
model says, in both engines, however a range is cut and divided.
"""

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar.engine import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.model import brute_force
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import AGGREGATES, Replayed, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of, left, multiset, replays

COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()


def everything(replayed: Replayed) -> dict:
    return {**left(replayed), "keyed": multiset(replayed.keyed)}


def check_remembered_rows(ours: Replayed, events, rules, changes=None) -> None:
    theirs = brute_force.replay(
        [event._replace(source=event.source or "") for event in events], rules, changes
    )
    newest_rules = {**vars(rules), **(changes[max(changes)] if changes else {})}
    kept = newest_rules["bound"] + newest_rules["allowed_lateness"]
    assert Counter(
        (row["key"], row["map_key"], row["namespace_start"], row["namespace_end"]) for row in ours.keyed
    ) == Counter(
        (row.key, f"[{row.values[0]}]", row.event_time, row.event_time + kept) for row in theirs.first_rows
    )
    assert ours.counts["rows_duplicate"] == theirs.counts.duplicate


def check(replay, data) -> None:
    rules, events = replay
    rules = dataclasses.replace(rules, distinct_by=("x",), max_ahead=100_000)
    pipeline = dataclasses.replace(pipeline_of(rules, False), distinct_by="x")
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 1000]), label="file_rows")
    engines = data.draw(
        st.sampled_from([(COLUMNAR,), (OPERATOR,), (COLUMNAR, OPERATOR), (OPERATOR, COLUMNAR)]),
        label="engines",
    )
    once = replay_pipeline(pipeline, events, rules, [], [2], engines=(OPERATOR,))
    check_against_model(once, events, rules)
    check_remembered_rows(once, events, rules)
    assert everything(replay_pipeline(pipeline, events, rules, [], [1], engines=(COLUMNAR,))) == everything(
        once
    )
    in_slices = replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, engines=engines)
    assert everything(in_slices) == everything(once)


@pytest.mark.slow
@given(replays(), st.data())
@searched(4, long=20)
def test_engines_cuts_and_the_model_agree_on_which_rows_count(replay, data):
    check(replay, data)


@pytest.mark.slow
@given(replays(), st.data())
@searched(8, long=20)
def test_another_lateness_counts_from_its_cut_on_and_brings_no_forgotten_row_back(replay, data):
    rules, events = replay
    rules = dataclasses.replace(rules, distinct_by=("x",))
    cuts = data.draw(cuts_of(rules), label="cuts")
    latenesses = data.draw(
        st.lists(st.sampled_from([0, 1, 30, 200]), min_size=len(cuts) + 1, max_size=len(cuts) + 1),
        label="latenesses",
    )
    rules = dataclasses.replace(rules, allowed_lateness=latenesses[0])
    pipeline = dataclasses.replace(pipeline_of(rules, False), distinct_by=("x",))
    ours = replay_pipeline(pipeline, events, rules, cuts, [1, 3], latenesses=latenesses)
    changes = {
        cut: {"allowed_lateness": lateness} for cut, lateness in zip(cuts, latenesses[1:], strict=True)
    }
    check_against_model(ours, events, rules, changes)
    check_remembered_rows(ours, events, rules, changes)


def event(
    arrival: int, event_time: int, x: int | None, key: str = "a", row: int | None = None
) -> model.Event:
    return model.Event(event_time, arrival, "s", arrival if row is None else row, key, {"x": x, "y": 0.0})


@pytest.mark.slow
@pytest.mark.parametrize("engine", [COLUMNAR, OPERATOR], ids=["columnar", "operator"])
def test_a_row_is_forgotten_when_the_watermark_is_past_its_time_by_bound_and_lateness(engine):
    """Bound 20, lateness 30: the row of 100 is remembered below watermark 150. The event of 170 makes it 149
    at the end of its tick of 10.
    """
    rules = model.Replay(0, 100, 10, 20, model.Tumbling(1000), 30, None, aggregates=AGGREGATES)
    events = [
        event(1, 100, 7),
        event(2, 100, 7),  # a duplicate
        event(3, 100, 7, key="b"),  # of another key
        event(4, 100, None),
        event(5, 100, None),  # without identity both count
        event(11, 170, 1),
        event(20, 400, 7),  # a duplicate that moves no window, but the watermark: 400 - 21 = 379 at 30
        event(30, 100, 7),  # forgotten: counts again, and is not remembered
        event(31, 100, 7),
    ]
    rules = dataclasses.replace(rules, distinct_by=("x",))
    pipeline = dataclasses.replace(pipeline_of(rules, False), distinct_by=("x",))
    for cuts in ([], [2, 20, 21, 30, 31]):
        ours = replay_pipeline(pipeline, events, rules, cuts, [1], engines=(engine,))
        assert ours.counts["rows_duplicate"] == 2
        assert ours.counts["rows_accepted"] == 7
        assert ours.progress[0]["watermark"] == 379
        assert ours.keyed == []
        assert {row["key"]: row["elements"] for row in ours.windows} == {"a": 6, "b": 1}


@pytest.mark.parametrize("engine", [COLUMNAR, OPERATOR], ids=["columnar", "operator"])
def test_a_duplicate_that_is_late_is_a_duplicate_and_a_late_row_is_remembered(engine):
    """Bound 20, lateness 0, windows of 10: at watermark 30 rows of 15 are late, and remembered below 35."""
    rules = model.Replay(0, 100, 10, 20, model.Tumbling(10), 0, None, aggregates=AGGREGATES)
    events = [event(1, 51, 1), event(11, 15, 2), event(12, 15, 2)]
    pipeline = dataclasses.replace(pipeline_of(rules, False), distinct_by=("x",))
    for cuts in ([], [12]):
        ours = replay_pipeline(pipeline, events, rules, cuts, [1], engines=(engine,))
        assert (ours.counts["rows_late"], ours.counts["rows_duplicate"]) == (1, 1)
        assert [(row["map_key"], row["namespace_end"]) for row in ours.keyed] == [("[1]", 71), ("[2]", 35)]


@pytest.mark.parametrize("engine", [COLUMNAR, OPERATOR], ids=["columnar", "operator"])
def test_a_close_forgets_every_row(engine):
    rules = model.Replay(0, 100, 10, 20, model.Tumbling(10), 0, None, aggregates=AGGREGATES)
    pipeline = dataclasses.replace(pipeline_of(rules, False), distinct_by=("x",))
    ours = replay_pipeline(pipeline, [event(1, 51, 1)], rules, [], [1], engines=(engine,), closes=True)
    assert ours.keyed == []
