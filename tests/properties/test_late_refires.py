"""A coarser log of late firings has fewer panes, and the same newest firing of every window, in every run."""

from bisect import bisect_right
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import CONTINUOUS, COUNTED, FIXED, SESSIONS, cuts_between, replays
from tests.properties.test_split_and_parallelism import TICK, left

SELECT = {"n": agg.count(), "total": agg.sum("x")}


def newest(panes):
    """(run, window) → the row that is published of it: what the newest firing of the run left."""
    found = {}
    for pane in panes:
        identity = (pane["run"], pane["key"], pane["window_start"], pane["window_end"])
        if identity not in found or pane["firing"] > found[identity]["firing"]:
            found[identity] = pane
    return {identity: repr(pane) for identity, pane in found.items()}


def with_runs(replayed, bounds):
    """The panes, each with the slice in which it fired: by its tick end, or by the arrival that fired it."""
    for pane in replayed.panes:
        at = pane["cause_arrival"] if pane["tick_end"] is None else pane["tick_end"] - 1
        pane["run"] = bisect_right(bounds, at)
    return replayed.panes


@pytest.mark.slow
@pytest.mark.parametrize("late_refires", ["tick", "run"])
@given(replays(FIXED | SESSIONS), st.data())
@searched(4, long=16)
def test_a_coarser_log_publishes_the_same(late_refires, replay, data):
    rules, events = replay
    cuts = data.draw(cuts_between(rules), label="cuts")
    is_session = isinstance(rules.assigner, model.Session)
    trigger = None if is_session else data.draw(st.none() | COUNTED | CONTINUOUS, label="trigger")
    pipeline = replace(pipeline_of(rules, False), select=SELECT, trigger=trigger)
    fine = replay_pipeline(pipeline, events, rules, cuts, [2])
    engines = [data.draw(st.sampled_from([ColumnarEngine(), OperatorEngine()]), label="engine")]
    coarse = replay_pipeline(
        replace(pipeline, late_refires=late_refires), events, rules, cuts, [2], engines=engines
    )
    theirs, ours = with_runs(fine, cuts), with_runs(coarse, cuts)
    assert newest(ours) == newest(theirs)
    assert not Counter(map(repr, ours)) - Counter(map(repr, theirs))
    late = [pane for pane in ours if pane["kind"] == "late"]
    per = [
        (
            pane["run"],
            pane["key"],
            pane["window_start"],
            pane["window_end"],
            pane["cause_arrival"] // TICK if late_refires == "tick" else 0,
        )
        for pane in late
    ]
    assert len(set(per)) == len(per)
    kept = [pane for pane in theirs if pane["kind"] != "late"]
    assert Counter(map(repr, kept)) == Counter(repr(pane) for pane in ours if pane["kind"] != "late")
    assert {**left(coarse), "panes": None} == {**left(fine), "panes": None}
