"""An element on which a user's function raises might never have come, but that it counts for the watermark:
all its window updates are undone and its row is in quarantine. What raises at a firing fails the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import ProcessWindowFunction, TriggerResult
from slackwater.windowing.errors import UserCodeError, WindowingError
from tests.model import brute_force
from tests.model import records as model
from tests.properties.keyed_model import Expected, expected
from tests.properties.slices import replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of
from tests.properties.test_window_pipelines import pane_of, side_of, spilling_soon
from tests.properties.window_pipelines import ByValue, Concat, Odd, pipelines, replays

UNWANTED = 7


def refuse(element: Any) -> None:
    if element.x == UNWANTED:
        raise LookupError(f"{UNWANTED} is not wanted")


@dataclass(frozen=True)
class RefusingAssigner(ByValue):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        refuse(element)
        return super().assign_windows(element, timestamp, context)


@dataclass(frozen=True)
class RefusingTrigger(Odd):
    """Raises after the trigger has changed its state and set its timers."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        result = super().on_element(element, timestamp, window, context)
        refuse(element)
        return result


class RefusingAggregate(Concat):
    def add(self, value: Any, accumulator: str) -> str:
        refuse(value)
        return super().add(value, accumulator)


CULPRITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "assigner": ({"window": RefusingAssigner(12)}, {"window": ByValue(12)}),
    "trigger": ({"trigger": RefusingTrigger()}, {"trigger": Odd()}),
    "aggregate": (
        {"aggregate": RefusingAggregate(), "output": "trail string"},
        {"aggregate": Concat(), "output": "trail string"},
    ),
}
NO_FUNCTION: dict[str, Any] = {
    **dict.fromkeys(("process", "reduce", "aggregate", "output", "evictor", "columns"), None),
    "select": {},
    "side_outputs": {},
}


@pytest.mark.slow
@given(replays(), st.data(), st.sampled_from(sorted(CULPRITS)))
@settings(max_examples=40)
def test_it_leaves_nothing_behind(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject, culprit: str
) -> None:
    rules, events = replay
    drawn = data.draw(pipelines(rules), label="pipeline")
    raising, harmless = CULPRITS[culprit]
    if culprit == "aggregate":
        raising, harmless = {**NO_FUNCTION, **raising}, {**NO_FUNCTION, **harmless}
    elif drawn.columns is not None:
        raising, harmless = {**raising, "columns": None}, {**harmless, "columns": None}
    pipeline = _declared(drawn, on_error="quarantine", **raising)
    kept = [event for event in events if event.values["x"] != UNWANTED]
    timeline = brute_force.replay(events, rules).timeline
    theirs = _outcome(lambda: expected(_declared(drawn, **harmless), kept, rules, timeline))
    cuts = data.draw(cuts_of(rules), label="cuts")
    memory = data.draw(st.sampled_from([[1024], [1], [0]]), label="kilobytes of state in memory")
    with spilling_soon():
        ours = _outcome(lambda: replay_pipeline(pipeline, events, rules, cuts, [1, 3], state_memory=memory))
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours == theirs
        return
    assert isinstance(theirs, Expected)
    assert Counter(pane_of(row, pipeline) for row in ours.panes) == theirs.panes
    assert (
        Counter(side_of(tag, row, pipeline) for tag, rows in ours.sides.items() for row in rows)
        == theirs.sides
    )
    told = [row for row in ours.quarantined if row["reason_code"] == "user_code"]
    assert all(
        f"LookupError while processing an element: {UNWANTED} is not wanted" in row["reason"] for row in told
    )
    assert all(f'"x": {UNWANTED}' in row["row_json"] for row in told)
    # One that is late for all of its windows is late: of the culprits only an assigner has seen it.
    late = [row for row in ours.late if row["x"] == UNWANTED]
    assert Counter(row["row"] for row in ours.late if row["x"] != UNWANTED) == theirs.late
    read = [
        event
        for event in events
        if event.values["x"] == UNWANTED and rules.start <= (event.arrival or 0) < rules.to
    ]
    usable = [event for event in read if brute_force.quarantine_reason(event, rules) is None]
    assert len(told) + len(late) <= len(usable) and (culprit != "assigner" or len(told) == len(usable))
    counts = ours.counts
    assert counts["rows_quarantined"] == len(
        [row for row in ours.quarantined if row["reason_code"] != "null_arrival"]
    )
    assert counts["rows_read"] == sum(
        counts[f"rows_{part}"] for part in ("accepted", "late", "unassigned", "quarantined", "filtered")
    )
    assert counts["windows_opened"] == sum(
        counts[f"windows_{part}"] for part in ("merged", "cleaned", "open")
    )


def _declared(pipeline: Any, **changes: Any) -> Any:
    return replace(pipeline, **changes)


def _outcome(replay: Any) -> Any:
    try:
        return replay()
    except WindowingError as error:
        return type(error)


class Refusing(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        for element in elements:
            refuse(element)
        return [(key,)]


RULES = model.Replay(start=1000, to=1100, tick=10, bound=0, assigner=model.Tumbling(10))
EVENTS = [
    model.Event(event, arrival, "s", number, "a", {"x": x, "y": None})
    for number, (event, arrival, x) in enumerate([(1001, 1001, 1), (1002, 1003, UNWANTED), (1050, 1050, 2)])
]


def test_raising_at_a_firing_fails_the_run_and_names_key_and_window() -> None:
    from slackwater.windowing import TumblingEventTimeWindows
    from tests.properties.process_pipelines import pipeline_of

    hour = TumblingEventTimeWindows(size_ms=10)
    pipeline = pipeline_of(
        RULES, window=hour, process=Refusing(), output="who string", side_outputs={}, on_error="quarantine"
    )
    with pytest.raises(
        UserCodeError, match=r"firing a window: 7 is not wanted \[key 'a', window .*1000.*1010"
    ):
        replay_pipeline(pipeline, EVENTS, RULES, [], [1])


def test_without_quarantine_it_fails_the_run_and_names_key_window_and_row() -> None:
    from slackwater.windowing import TumblingEventTimeWindows
    from tests.properties.process_pipelines import pipeline_of

    hour = TumblingEventTimeWindows(size_ms=10)
    declared = {
        "process": None,
        "aggregate": RefusingAggregate(),
        "output": "trail string",
        "side_outputs": {},
    }
    with pytest.raises(
        Exception, match=r"7 is not wanted \[key 'a', window .*1000.*1010.*\"row\": 1.*on_error"
    ) as raised:
        replay_pipeline(pipeline_of(RULES, window=hour, **declared), EVENTS, RULES, [], [1])
    assert raised.value.exit_code == 1
