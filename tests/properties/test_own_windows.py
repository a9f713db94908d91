"""Windows of a user's own class are parked, restored and told apart by their declared columns: cuts,
parallelism and where state lives do not show, and the rows are those of the brute-force model with the
column in the key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.pipelines import Pipeline
from slackwater.windowing import EventTimeTrigger, PurgingTrigger, TimeWindow, merge_touching_windows
from slackwater.windowing.windows import merge_time_windows
from tests.model import records as model
from tests.properties import window_pipelines
from tests.properties.own_windows import Climbs, as_of_lanes, keyed_by_lane, level_of, own_window
from tests.properties.search import searched
from tests.properties.slices import APPROXIMATE, SELECT, declared, pipeline_of, replay_pipeline
from tests.properties.test_late_refires import newest, with_runs
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of, left, replays
from tests.properties.test_window_pipelines import everything, outcome_of, spilling_soon


def pipeline_with_lanes(rules: model.Replay, has_bounds: bool, purging: bool = False) -> Pipeline:
    plain = pipeline_of(rules, False).windows
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else None
    window = own_window(rules.assigner, plain, has_bounds)
    return declared(rules, window=window, trigger=trigger, select={**SELECT, **APPROXIMATE})


@pytest.mark.slow
@given(replays(), st.booleans())
@searched(14, long=72)
def test_one_run_is_what_the_model_says_of_windows_keyed_by_lane(replay: Any, has_bounds: bool) -> None:
    rules, events = replay
    ours = replay_pipeline(pipeline_with_lanes(rules, has_bounds), events, rules, [], [2])
    check_against_model(as_of_lanes(ours), keyed_by_lane(events), rules)


@pytest.mark.slow
@given(replays(), st.data())
@searched(4, long=30)
def test_cuts_parallelism_and_where_state_lives_do_not_show(replay: Any, data: st.DataObject) -> None:
    rules, events = replay
    pipeline = pipeline_with_lanes(
        rules, data.draw(st.booleans(), label="bounds"), data.draw(st.booleans(), label="purging")
    )
    once = left(replay_pipeline(pipeline, events, rules, [], [1]))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3), label="ranges")
    memory = data.draw(st.lists(st.sampled_from([0, 2, 1024]), min_size=1, max_size=3), label="memory")
    file_rows = data.draw(st.sampled_from([1, 1000]), label="file_rows")
    with spilling_soon():
        cut = replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, state_memory=memory)
    assert left(cut) == once


@pytest.mark.slow
@given(replays(), st.booleans(), st.data())
@settings(max_examples=30)
def test_another_lateness_counts_for_open_windows_too(
    replay: Any, has_bounds: bool, data: st.DataObject
) -> None:
    rules, events = replay
    cuts = data.draw(cuts_of(rules), label="cuts")
    size = len(cuts) + 1
    latenesses = data.draw(st.lists(st.sampled_from([0, 1, 30, 200]), min_size=size, max_size=size))
    rules = dataclasses.replace(rules, allowed_lateness=latenesses[0])
    pipeline = pipeline_with_lanes(rules, has_bounds)
    ours = replay_pipeline(pipeline, events, rules, cuts, [1, 3], latenesses=latenesses)
    changes = {cut: {"allowed_lateness": late} for cut, late in zip(cuts, latenesses[1:], strict=True)}
    check_against_model(as_of_lanes(ours), keyed_by_lane(events), rules, changes)


@pytest.mark.slow
@pytest.mark.parametrize("late_refires", ["tick", "run"])
@given(replays(), st.booleans(), st.data())
@searched(3, long=25)
def test_a_coarser_log_publishes_the_same(
    late_refires: Any, replay: Any, has_bounds: bool, data: st.DataObject
) -> None:
    rules, events = replay
    cuts = data.draw(cuts_of(rules), label="cuts")
    fine_pipeline = pipeline_with_lanes(rules, has_bounds)
    fine, coarse = (
        as_of_lanes(replay_pipeline(pipeline, events, rules, cuts, [2]))
        for pipeline in (fine_pipeline, dataclasses.replace(fine_pipeline, late_refires=late_refires))
    )
    assert newest(with_runs(coarse, cuts)) == newest(with_runs(fine, cuts))
    assert len(coarse.panes) <= len(fine.panes)


@given(st.data())
@searched(6, long=50)
def test_a_session_that_carries_what_it_has_seen_is_cut_and_merged_like_any(data: st.DataObject) -> None:
    """Nothing fires before the close, so sessions are the groups of elements that touch, by hand."""
    rules = model.Replay(
        start=1_000_000,
        to=1_000_400,
        tick=50,
        bound=100_000,
        assigner=model.Session(20),
        allowed_lateness=0,
        idle_timeout=None,
    )
    row = st.tuples(st.integers(0, 390), st.integers(-60, 9), st.sampled_from("aab"), st.integers(0, 9))
    rows = data.draw(st.lists(row, min_size=1, max_size=30), label="rows")
    events = [
        model.Event(1_000_000 + arrival + ahead, 1_000_000 + arrival, "s", number, key, {"x": x, "y": None})
        for number, (arrival, ahead, key, x) in enumerate(rows)
    ]
    cuts = data.draw(cuts_of(rules), label="cuts")
    pipeline = declared(rules, window=Climbs(20), select={"n": SELECT["n"]})
    ours = replay_pipeline(pipeline, events, rules, cuts, [1, 3], closes=True)
    assert sorted(
        (row["key"], row["window_start"], row["window_end"], row["level"], row["n"]) for row in ours.panes
    ) == sorted(climbs_by_hand(events, 20))


def climbs_by_hand(events: Sequence[model.Event], gap: int) -> Iterator[tuple[Any, ...]]:
    """Key, start, end, level and elements of each session."""
    for key in {event.key for event in events}:
        group: list[model.Event] = []
        for event in sorted((event for event in events if event.key == key), key=attrgetter("event_time")):
            if group and event.event_time > group[-1].event_time + gap:
                yield _climb(group, gap)
                group = []
            group.append(event)
        yield _climb(group, gap)


def _climb(group: Sequence[model.Event], gap: int) -> tuple[Any, ...]:
    level = max(level_of(event.values["x"]) for event in group)
    return group[0].key, group[0].event_time, group[-1].event_time + gap, level, len(group)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=9))
def test_windows_that_touch_merge_as_time_windows_do(spans: list[tuple[int, int]]) -> None:
    windows = [TimeWindow(start, start + length) for start, length in spans]
    merges: list[list[Any]] = [[], []]
    merge_time_windows(windows, lambda *merge: merges[0].append(merge))
    merge_touching_windows(windows, lambda *merge: merges[1].append(merge))
    assert merges[0] == merges[1]


@pytest.mark.slow
@given(window_pipelines.replays(), st.data())
@searched(10, long=60)
def test_a_class_that_mimics_time_windows_gives_their_results(replay: Any, data: st.DataObject) -> None:
    """Any assigner, trigger, evictor and function."""
    rules, events = replay
    plain, mimic = data.draw(window_pipelines.pipelines_and_mimics(rules), label="pipelines")
    cuts = data.draw(cuts_of(rules), label="cuts")
    outcomes = [
        outcome_of(lambda one=one: everything(replay_pipeline(one, events, rules, cuts, [2])))
        for one in (plain, mimic)
    ]
    assert outcomes[0] == outcomes[1]
