"""A KeyedProcessFunction works slice after slice: cuts and ranges do not show but in ordinals, every row is
accounted for, one run over the range is what the core gives key by key, and an element on which it raises
leaves nothing behind but its row in quarantine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.errors import UserCodeError
from tests.model import brute_force
from tests.model import records as model
from tests.properties.process_pipelines import Expected, Watch, expected, pipeline_of
from tests.properties.slices import Replayed, replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of, left
from tests.properties.test_window_pipelines import arriving, short_pieces, spilling_soon
from tests.properties.window_pipelines import replays

RANGES = st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3)


def everything(replayed: Replayed) -> dict[str, Any]:
    """All that must not depend on cuts and parallelism."""
    without = [{name: value for name, value in row.items() if name != "ordinal"} for row in replayed.panes]
    sides = {
        tag: Counter(repr(sorted({**row, "run_id": "", "ordinal": 0}.items())) for row in rows)
        for tag, rows in replayed.sides.items()
    }
    replayed.panes = without
    return {**left(replayed), "keyed": Counter(map(repr, replayed.keyed)), "sides": sides}


def check_against_core(ours: Replayed, theirs: Expected) -> None:
    names = ("what", "before", "total", "watermark_then", "clock")
    panes = Counter(
        (
            row["key"],
            row["timestamp"],
            tuple(row[name] for name in names),
            row["watermark"],
            row["tick_end"],
            row["cause_arrival"],
        )
        for row in ours.panes
    )
    assert panes == theirs.panes
    assert {
        (row["window_start"], row["window_end"], row["firing"], row["kind"], row["elements"])
        for row in ours.panes
    } <= {(None, None, 1, "emitted", None)}
    odd = Counter(("odd", row["key"], row["timestamp"], (row["x"],)) for row in ours.sides["odd"])
    totals = Counter(
        ("totals", row["key"], row["timestamp"], (row["sources"], row["seen_at"]))
        for row in ours.sides["totals"]
    )
    assert odd + totals == theirs.sides
    kept = [row for row in ours.keyed if row["state_name"] in ("total", "recent", "greatest")]
    assert (
        Counter((row["state_name"], row["key"], repr(row[f"{row['state_name']}__value"])) for row in kept)
        == theirs.state
    )
    assert Counter((row["key"], row["domain"], row["time"]) for row in ours.timers) == theirs.timers
    assert {(row["purpose"], row["service"]) for row in ours.timers} <= {("user", "user-timers")}
    counts = ours.counts
    assert counts["rows_accepted"] == theirs.accepted
    assert counts["rows_read"] == sum(
        counts[f"rows_{part}"] for part in ("accepted", "late", "unassigned", "quarantined", "filtered")
    )
    assert counts["rows_quarantined"] == len(
        [row for row in ours.quarantined if row["reason_code"] != "null_arrival"]
    )
    assert counts["timers_pending"] == len(ours.timers)
    assert counts["rows_emitted"] == theirs.panes.total()
    assert counts["side_rows"] == theirs.sides.total()
    assert not ours.windows and not ours.late


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=30)
def test_neither_cuts_nor_parallelism_nor_where_state_lives_shows(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    on_error = data.draw(st.sampled_from(["fail", "quarantine"]), label="on_error")
    pipeline = pipeline_of(
        rules, on_error=on_error, process=Watch(raises_at=None if on_error == "fail" else 7)
    )
    cuts, ranges = data.draw(cuts_of(rules), label="cuts"), data.draw(RANGES, label="ranges")
    file_rows = data.draw(st.sampled_from([1, 1000]), label="file_rows")
    memory = data.draw(
        st.lists(st.sampled_from([0, 1, 2, 1024]), min_size=1, max_size=3),
        label="kilobytes of state in memory",
    )
    with short_pieces():
        once = everything(replay_pipeline(pipeline, events, rules, [], [1]))
        with spilling_soon():
            in_slices = replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, state_memory=memory)
            assert everything(in_slices) == once


@pytest.mark.slow
@given(replays())
@settings(max_examples=20)
def test_one_run_is_what_the_core_gives_key_by_key(replay: tuple[model.Replay, list[model.Event]]) -> None:
    rules, events = replay
    check_against_core(
        replay_pipeline(pipeline_of(rules), events, rules, [], [2]), expected(Watch(), events, rules)
    )


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=14)
def test_stragglers_are_elements_of_the_slice_that_finds_them(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    bounds = [rules.start, *data.draw(cuts_of(rules), label="cuts")]
    appears = data.draw(
        st.lists(st.integers(0, len(bounds) - 1), min_size=len(events), max_size=len(events)), label="appears"
    )
    ours = replay_pipeline(pipeline_of(rules), events, rules, bounds[1:], [1, 3], appears=appears)
    moved = [
        arriving(event, bounds[first], rules.start) for event, first in zip(events, appears, strict=True)
    ]
    check_against_core(ours, expected(Watch(), moved, rules))


@pytest.mark.slow
@given(replays(), st.data(), st.sampled_from([0, 7, 9]))
@settings(max_examples=30)
def test_an_element_on_which_it_raises_might_never_have_come_but_for_progress(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject, unwanted: int
) -> None:
    rules, events = replay
    pipeline = pipeline_of(rules, on_error="quarantine", process=Watch(raises_at=unwanted))
    cuts, memory = (
        data.draw(cuts_of(rules), label="cuts"),
        data.draw(st.sampled_from([[1024], [1], [0]]), label="kilobytes"),
    )
    with spilling_soon():
        ours = replay_pipeline(pipeline, events, rules, cuts, [2, 3], state_memory=memory)
    kept = [event for event in events if (event.values["x"] or 0) != unwanted]
    check_against_core(
        ours, expected(Watch(), kept, rules, timeline=brute_force.replay(events, rules).timeline)
    )
    told = [row for row in ours.quarantined if row["reason_code"] == "user_code"]
    gone = [
        event
        for event in events
        if (event.values["x"] or 0) == unwanted and brute_force.quarantine_reason(event, rules) is None
    ]
    gone = [event for event in gone if rules.start <= event.arrival < rules.to]
    assert Counter(row["arrival_time"] for row in told) == Counter(event.arrival for event in gone)
    assert all(
        f"ValueError while processing an element: {unwanted} is not wanted" in row["reason"] for row in told
    )
    assert all(f'"x": {unwanted}' in row["row_json"] or '"x": null' in row["row_json"] for row in told)
    assert all(row["source_file"].endswith(".parquet") for row in told)


def test_raising_at_a_timer_always_fails_the_run() -> None:
    rules = model.Replay(start=1000, to=1100, tick=10, bound=0, assigner=model.Tumbling(10))
    events = [
        model.Event(1001, 1001, "s", 0, "a", {"x": 0, "y": None}),
        model.Event(1050, 1050, "s", 1, "a", {"x": 1, "y": None}),
    ]
    pipeline = pipeline_of(rules, on_error="quarantine", process=Watch(raises_on_timer=True))
    with pytest.raises(UserCodeError, match=r"handling a timer of .* time: timers are not wanted \[key 'a'"):
        replay_pipeline(pipeline, events, rules, [], [1])
