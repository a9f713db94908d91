"""A close leaves what the core leaves at the final watermark: for every pipeline and cut of its range."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from slackwater.pipelines import agg
from slackwater.runs.lineage.moves import NeverEnds, refuse_endless
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from slackwater.windowing.java import LONG_MAX
from tests.model import brute_force
from tests.model import records as model
from tests.properties import process_pipelines
from tests.properties.keyed_model import expected
from tests.properties.search import searched
from tests.properties.slices import replay_pipeline
from tests.properties.test_process_pipelines import check_against_core as check_process
from tests.properties.test_split_and_parallelism import cuts_of
from tests.properties.test_window_pipelines import check_against_core, outcome_of
from tests.properties.window_pipelines import pipelines, replays

EVERY_MINUTE = ContinuousEventTimeTrigger.of(timedelta(minutes=1))


def with_final(events: list[model.Event], rules: model.Replay) -> list[tuple[int, int]]:
    """The watermarks of the range, and the final one at its end."""
    return [*brute_force.replay(events, rules).timeline, (rules.to, LONG_MAX)]


@given(replays(), st.data())
@searched(6, long=30)
def test_windows_fire_as_the_core_fires_them_at_the_final_watermark(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline, cuts = data.draw(pipelines(rules), label="pipeline"), data.draw(cuts_of(rules), label="cuts")
    try:
        refuse_endless(pipeline)
    except NeverEnds:
        assert isinstance(pipeline.window, GlobalWindows)
        reject()
    ours = outcome_of(lambda: replay_pipeline(pipeline, events, rules, cuts, [2], closes=True))
    check_against_core(
        pipeline, ours, outcome_of(lambda: expected(pipeline, events, rules, with_final(events, rules)))
    )


@given(replays(), st.data())
@searched(4, long=20)
def test_timers_of_event_time_fire_and_those_of_the_clock_stay(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    ours = replay_pipeline(
        process_pipelines.pipeline_of(rules),
        events,
        rules,
        data.draw(cuts_of(rules), label="cuts"),
        [2],
        closes=True,
    )
    check_process(
        ours, process_pipelines.expected(process_pipelines.Watch(), events, rules, with_final(events, rules))
    )
    assert {row["domain"] for row in ours.timers} <= {"processing"}


def test_a_trigger_that_would_fire_until_the_end_of_time_is_refused() -> None:
    rules = model.Replay(start=0, to=10, tick=10, bound=0, assigner=model.Tumbling(10), allowed_lateness=0)
    pipeline = process_pipelines.pipeline_of(rules)
    refuse_endless(pipeline)
    windows = {
        "process": None,
        "output": None,
        "select": {"n": agg.count()},
        "side_outputs": {},
        "trigger": PurgingTrigger.of(EVERY_MINUTE),
    }
    refuse_endless(replace(pipeline, window=TumblingEventTimeWindows.of(timedelta(hours=1)), **windows))
    with pytest.raises(NeverEnds, match="for each of its intervals until the end of time"):
        refuse_endless(replace(pipeline, window=GlobalWindows.create(), **windows))
