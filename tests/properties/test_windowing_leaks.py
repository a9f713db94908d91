"""When a window is over, nothing of it is left, but for what the list of Flink's leaks explains; and nothing
outlives the end of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    OrderMode,
)
from slackwater.windowing.runtime.operator_output import FiredBy, SkipReason
from slackwater.windowing.windows import Window
from tests.contracts.leaks import LEAKS, LeftOver, may_lose_its_cleanup
from tests.properties.search import searched
from tests.properties.windowing_choices import Choice, choices
from tests.properties.windowing_replays import Play, Step, elements, scripts, windows_of

LONG_MAX = 2**63 - 1


class InFlight:
    """Which windows of which keys are open, by what a listener hears; what is over by a merge, and what by
    its cleanup.
    """

    def __init__(self) -> None:
        self.open: set[tuple[Any, Window]] = set()
        self.absorbed: set[tuple[Any, Window]] = set()

    def element_added(self, key: Any, window: Window, value: Any, timestamp: int | None) -> None:
        self.open.add((key, window))
        self.absorbed.discard((key, window))

    def windows_merged(self, key: Any, result: Window, absorbed: Sequence[Window]) -> None:
        for window in absorbed:
            self.open.remove((key, window))
            self.absorbed.add((key, window))
        self.open.add((key, result))
        self.absorbed.discard((key, result))

    def window_cleared(self, key: Any, window: Window) -> None:
        self.open.discard((key, window))
        self.absorbed.discard((key, window))

    def element_skipped(
        self, key: Any, value: Any, timestamp: int | None, reason: SkipReason, missed: Sequence[Window]
    ) -> None: ...

    def windows_missed(
        self, key: Any, value: Any, timestamp: int | None, missed: Sequence[Window]
    ) -> None: ...

    def window_fired(self, key: Any, window: Window, by: FiredBy | None, has_contents: bool) -> None: ...

    def firing_ended(self, key: Any, window: Window) -> None: ...

    def window_purged(self, key: Any, window: Window) -> None: ...


def left_over(playing: Play, in_flight: InFlight) -> list[LeftOver]:
    """Everything that stands under a window which is not open, and every entry of contents or session that no
    open window explains.
    """
    [operator] = playing.operators
    entries = list(operator.backend.entries())
    sessions = {
        (entry.key, window): state
        for entry in entries
        if entry.state_name == "merging-window-set"
        for window, state in entry.value
    }
    if isinstance(operator.config.assigner, MergingWindowAssigner):
        assert sessions.keys() == in_flight.open
    homes = {(key, sessions.get((key, window), window)) for key, window in in_flight.open}
    found: list[LeftOver] = []
    for entry in entries:
        if entry.namespace is None:
            continue
        expected = homes if entry.state_name == "window-contents" else in_flight.open
        if (entry.key, entry.namespace) not in expected:
            found.append(
                LeftOver(
                    entry.state_name,
                    None,
                    entry.namespace,
                    (entry.key, entry.namespace) in in_flight.absorbed,
                )
            )
    for kind, queue in (
        ("event timer", operator.timer_service.event_timers),
        ("processing timer", operator.timer_service.processing_timers),
    ):
        for time, key, window in queue:
            if (key, window) not in in_flight.open:
                found.append(LeftOver(kind, time, window, (key, window) in in_flight.absorbed))
    return found


def unexplained(choice: Choice, found: list[LeftOver]) -> list[LeftOver]:
    return [
        left
        for left in found
        if not any(leak.explains is not None and leak.explains(choice, left) for leak in LEAKS)
    ]


@pytest.mark.slow
@searched(120, long=600)
@given(
    choice=choices().filter(lambda choice: not isinstance(choice.assigner, GlobalWindows)),
    script=scripts(elements(st.integers(-5, 60))),
)
def test_nothing_of_a_window_that_is_over_is_left_but_what_the_list_explains(
    choice: Choice, script: list[Step]
) -> None:
    in_flight = InFlight()
    playing = Play(windows_of(choice.config(), OrderMode.ROCKSDB, listener=in_flight))
    for step in [*script, ("watermark", LONG_MAX), ("clock", 10_000)]:
        if playing.step(step).error is not None:
            return
        found = left_over(playing, in_flight)
        lost = [left for left in found if left.kind == "window-contents"]
        if not (
            choice.is_flink_exact
            and isinstance(choice.assigner, DynamicEventTimeSessionWindows | MergingWindowAssigner)
        ):
            assert lost == []
        assert unexplained(choice, [left for left in found if left not in lost]) == []
    if may_lose_its_cleanup(choice):
        return
    assert in_flight.open == set()
    assert playing.held().keys() - {"event timers", "processing timers"} <= {"chain"} | (
        {"window-contents"} if lost else set()
    )
    assert [left for left in found if left not in lost] == []
    playing.close()


def test_the_search_finds_a_leak_where_there_is_one() -> None:
    choice = Choice(
        EventTimeSessionWindows(gap_ms=10),
        ContinuousEventTimeTrigger(interval_ms=4),
        None,
        "reduce",
        lateness=5,
    )
    in_flight = InFlight()
    playing = Play(windows_of(choice.config(), OrderMode.ROCKSDB, listener=in_flight))
    for time in (1, 9):
        playing.step(("element", "a", 1, time))
    found = left_over(playing, in_flight)
    assert {(left.kind, left.time, left.is_absorbed) for left in found} == {
        ("event timer", 4, True),
        ("event timer", 10, True),
    }
    assert unexplained(choice, found) == []
    without_trigger = Choice(choice.assigner, None, None, "reduce", lateness=5)
    assert unexplained(without_trigger, found) == found
