"""A pipeline whose results come and go between slices leaves what one leaves that has had all of them always,
but for the values that it can't know: of results that it doesn't have, and of those that were added while the
window was open, until it is purged. In both engines, whichever runs which slice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
)
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import Replayed, pipeline_of, replay_pipeline
from tests.properties.test_evolution import Past, _ms, pasts

Row = Mapping[str, Any]
ENGINES = (OperatorEngine(), ColumnarEngine())
# Of first, last and lists the parts hold a hash of the columns that the pipeline reads, which results decide.
RESULTS_WITH_HASHES = ("opening", "closing", "earliest", "newest", "in_order", "by_arrival")


@st.composite
def pipelines(draw: st.DrawFn, rules: model.Replay) -> Pipeline:
    """Windows of the rules, perhaps purged or firing early, or the global window fired by counts."""
    pipeline = pipeline_of(rules, False)
    is_session = isinstance(rules.assigner, model.Session)
    kinds = ["of the rules", "of the rules", *([] if is_session else ["purged", "continuous"]), "global"]
    match draw(st.sampled_from(kinds), label="windows"):
        case "purged":
            return replace(pipeline, trigger=PurgingTrigger.of(EventTimeTrigger()))
        case "continuous":
            return replace(pipeline, trigger=ContinuousEventTimeTrigger.of(_ms(40)))
        case "global":
            trigger = CountTrigger.of(3)
            return replace(
                pipeline,
                window=GlobalWindows.create(),
                trigger=draw(st.sampled_from([trigger, PurgingTrigger.of(trigger)])),
                allowed_lateness=_ms(0),
            )
    return pipeline


def slot(row: Row) -> tuple:
    return row["key"], row["window_start"], row["window_end"]


def lies_in(inner: Row, outer: Row) -> bool:
    """Whether a window has become, or been merged into, another one of its key."""
    if inner["key"] != outer["key"] or (inner["window_start"] is None) != (outer["window_start"] is None):
        return False
    if inner["window_start"] is None:
        return True
    return inner["window_start"] >= outer["window_start"] and inner["window_end"] <= outer["window_end"]


class Knowledge:
    """Which results are known of a row, by what the twin has left in each slice.

    Args:
        twin: the lineage that has had all results always.
        selects: the results of each slice.
        purges: whether a firing empties its window.
    """

    def __init__(self, twin: Replayed, selects: Sequence[frozenset[str]], purges: bool) -> None:
        self.twin, self.selects, self.purges = twin, selects, purges

    def added_in(self, result: str, number: int) -> int | None:
        """The slice that has added a result which slice `number` has; None where it always was there."""
        first = max((i for i in range(number + 1) if result not in self.selects[i]), default=-1) + 1
        return first or None

    def is_known(self, result: str, row: Row, number: int, place: int | None = None) -> bool:
        """Of a pane at `place` among those of slice `number`, or of a window that is parked after it."""
        if result not in self.selects[number]:
            return False
        first = self.added_in(result, number)
        if first is None:
            return True
        if self.purges and self._was_purged(row, first, number, place):
            return True
        return not any(
            lies_in(window, row) and window["contents"] != "[]"
            for window in self.twin.windows_of_slices[first - 1]
        )

    def _was_purged(self, row: Row, first: int, number: int, place: int | None) -> bool:
        for i in range(first, number + 1):
            for j, pane in enumerate(self.twin.panes_of_slices[i]):
                is_before = i < number or place is None or (pane["firing"] < row["firing"] and j != place)
                if slot(pane) == slot(row) and is_before:
                    return True
        return False


def check(past: Past, data: st.DataObject) -> None:
    pipeline = data.draw(pipelines(past.rules), label="pipeline")
    names = sorted(pipeline.select)
    count = len(past.changes) + 1
    selects = [
        frozenset(data.draw(st.sets(st.sampled_from(names), min_size=1), label=f"results of slice {i}"))
        for i in range(count)
    ]
    engines = data.draw(st.lists(st.sampled_from(ENGINES), min_size=1, max_size=3), label="engines")
    ranges = data.draw(st.sampled_from([[1], [1, 3], [7, 2]]), label="ranges")
    memory = data.draw(st.sampled_from([[1024], [0, 1024], [0]]), label="memory")
    cuts = sorted(past.changes)
    twin = replay_pipeline(pipeline, past.events, past.rules, cuts, [1], settings=[{}] * count)
    ours = replay_pipeline(
        pipeline,
        past.events,
        past.rules,
        cuts,
        ranges,
        engines=engines,
        state_memory=memory,
        settings=[
            {"select": {name: aggregate for name, aggregate in pipeline.select.items() if name in select}}
            for select in selects
        ],
    )
    knowledge = Knowledge(twin, selects, pipeline.purges)
    for number in range(count):
        panes = [
            {**pane, **{name: None for name in names if not knowledge.is_known(name, pane, number, place)}}
            for place, pane in enumerate(twin.panes_of_slices[number])
        ]
        assert _sorted(ours.panes_of_slices[number]) == _sorted(panes)
        windows = [parked(window, knowledge, number) for window in twin.windows_of_slices[number]]
        assert _sorted(map(comparable, ours.windows_of_slices[number])) == _sorted(map(comparable, windows))
    assert _sorted(ours.late) == _sorted(twin.late) and ours.counts == twin.counts


def parked(window: Row, knowledge: Knowledge, number: int) -> Row:
    """A parked window of the twin as ours has it."""
    if window["contents"] == "[]":
        return window
    selected = knowledge.selects[number]
    unknown = [name for name in sorted(selected) if not knowledge.is_known(name, window, number)]
    known_results = selected - set(unknown)
    return {
        name: None if "__" in name and name.rpartition("__")[0] not in known_results else value
        for name, value in {
            **window,
            "contents": json.dumps({"unknown": unknown}) if unknown else None,
        }.items()
    }


def comparable(window: Row) -> Row:
    return {name: value for name, value in window.items() if not name.startswith(RESULTS_WITH_HASHES)}


def _sorted(rows: Any) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.slow
@given(pasts(), st.data())
@searched(3, long=30)
def test_results_that_come_and_go_are_null_where_they_are_not_known_and_else_those_of_all_slices(
    past: Past, data: st.DataObject
) -> None:
    check(past, data)


@pytest.mark.slow
@given(pasts(), st.data())
@settings(max_examples=40)
def test_results_come_and_go_in_many_more_lineages(past: Past, data: st.DataObject) -> None:
    check(past, data)
