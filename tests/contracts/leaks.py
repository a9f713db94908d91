"""What Flink 2.3.0 leaves behind when a window is over, and so do we: the whole list, each with its reason
and its source.

Data for the tests and the documentation. Whatever else is left behind is a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    WindowAssigner,
)
from slackwater.windowing.windows import Window

_RUNTIME = "flink-runtime/src/main/java/org/apache/flink/streaming"
_TRIGGERS = "flink-streaming-java/src/main/java/org/apache/flink/streaming/api/windowing/triggers"


@dataclass(frozen=True)
class LeftOver:
    """Something that stays although its window is over.

    Attributes:
        kind: "event timer", "processing timer", or the name of a state.
        time: of the timer; None for state.
        window: whose it is; None for state without a window.
        is_absorbed: whether the window is gone by a merge; otherwise it was collected.
    """

    kind: str
    time: int | None
    window: Window
    is_absorbed: bool


class Declarations(Protocol):
    """The declarations that a window operator was made from; lateness in milliseconds."""

    @property
    def assigner(self) -> WindowAssigner: ...

    @property
    def trigger(self) -> Trigger | None: ...

    @property
    def lateness(self) -> int: ...


@dataclass(frozen=True)
class Leak:
    """One way to leave something behind.

    Attributes:
        what: stays.
        why: the rule in Flink that lets it stay.
        until: when it goes.
        source: Flink's file and method.
        explains: (declarations, what is left over) → whether this leak is the reason. None for leaks of
            windows that are never over, and of state that the operator does not remove: a window that is over
            leaves none of those.
    """

    what: str
    why: str
    until: str
    source: str
    explains: Callable[[Declarations, LeftOver], bool] | None


def innermost(trigger: Trigger | None) -> type[Trigger] | None:
    """Class of the trigger inside purging triggers and timeouts; None for the default trigger."""
    while isinstance(trigger, PurgingTrigger | ProcessingTimeoutTrigger):
        trigger = trigger.trigger
    return None if trigger is None else type(trigger)


_KIND = {ContinuousEventTimeTrigger: "event timer", ContinuousProcessingTimeTrigger: "processing timer"}


def _fire_time_of_absorbed(declarations: Declarations, left_over: LeftOver) -> bool:
    is_kind = left_over.kind == _KIND.get(innermost(declarations.trigger))  # type: ignore[arg-type]
    return left_over.is_absorbed and is_kind and left_over.time != left_over.window.max_timestamp()


def _last_instant_of_absorbed(declarations: Declarations, left_over: LeftOver) -> bool:
    is_kind = left_over.kind == _KIND.get(innermost(declarations.trigger))  # type: ignore[arg-type]
    is_event_timer = left_over.kind == "event timer"
    cleans_up = is_event_timer == declarations.assigner.is_event_time and (
        declarations.lateness == 0 or not is_event_timer
    )
    return (
        left_over.is_absorbed
        and is_kind
        and left_over.time == left_over.window.max_timestamp()
        and not cleans_up
    )


def _last_instant_of_collected(declarations: Declarations, left_over: LeftOver) -> bool:
    is_such = (
        innermost(declarations.trigger) is ContinuousEventTimeTrigger
        and not declarations.assigner.is_event_time
    )
    return (
        is_such
        and not left_over.is_absorbed
        and left_over.kind == "event timer"
        and left_over.time == left_over.window.max_timestamp()
    )


def may_lose_its_cleanup(declarations: Declarations) -> bool:
    """Whether a timeout of the clock may delete the cleanup timer, because it is a timer of the trigger
    too.
    """
    trigger, clears = declarations.trigger, False
    while isinstance(trigger, PurgingTrigger | ProcessingTimeoutTrigger):
        clears = clears or (isinstance(trigger, ProcessingTimeoutTrigger) and trigger.clears_on_timeout)
        trigger = trigger.trigger
    return clears and (declarations.lateness == 0 or not declarations.assigner.is_event_time)


FIRE_TIME_OF_ABSORBED_SESSIONS = Leak(
    what="the timer of a continuous trigger's next firing, of a session that a merge has absorbed",
    why="onMerge moves the fire time to the merged window before clear looks for it in the absorbed one, so "
    "the timer is not deleted",
    until="the watermark, or the clock, reaches it; it is ignored then",
    source=f"{_TRIGGERS}/ContinuousEventTimeTrigger.java and ContinuousProcessingTimeTrigger.java, onMerge "
    "and clear",
    explains=_fire_time_of_absorbed,
)
LAST_INSTANT_OF_ABSORBED_SESSIONS = Leak(
    what="the timer of a continuous trigger at the last instant of a session that a merge has absorbed",
    why="clear deletes the timer of the fire time alone; the operator deletes the cleanup timer, another one "
    "unless lateness is 0",
    until="the watermark, or the clock, reaches it; it is ignored then",
    source=f"{_TRIGGERS}/ContinuousEventTimeTrigger.java, clear",
    explains=_last_instant_of_absorbed,
)
EVENT_TIMER_OF_CLOCK_WINDOWS = Leak(
    what="the event timer of a continuous event-time trigger at the last instant of a collected window of "
    "processing time",
    why="clear deletes the timer of the fire time alone, and the watermark need not have come as far as the "
    "clock",
    until="the watermark reaches it; the trigger is asked once more, about a window without contents",
    source=f"{_TRIGGERS}/ContinuousEventTimeTrigger.java, clear",
    explains=_last_instant_of_collected,
)
GLOBAL_WINDOW = Leak(
    what="contents, trigger state and timers of the global window",
    why="its last instant is the greatest timestamp, and a cleanup time there means no cleanup timer, so it "
    "is never over",
    until="a purging trigger removes the contents; nothing removes the rest",
    source=f"{_RUNTIME}/runtime/operators/windowing/WindowOperator.java, registerCleanupTimer",
    explains=None,
)
CLEANUP_BEYOND_THE_END_OF_TIME = Leak(
    what="contents, trigger state and session of a window whose last instant + allowed lateness exceeds the "
    "greatest timestamp",
    why="the sum is cut to the greatest timestamp, which means no cleanup timer; even the final watermark "
    "collects nothing",
    until="never",
    source=f"{_RUNTIME}/runtime/operators/windowing/WindowOperator.java, cleanupTime and "
    "registerCleanupTimer",
    explains=None,
)
CLEANUP_TIMER_OF_TIMED_OUT_WINDOWS = Leak(
    what="a window whose ProcessingTimeoutTrigger has timed out and cleared an inner trigger that waits for "
    "the window's last instant",
    why="where the cleanup is due at the last instant too, both are one timer, and the inner trigger's clear "
    "deletes it",
    until="another element comes to the window and registers the cleanup again",
    source=f"{_TRIGGERS}/ProcessingTimeoutTrigger.java, onProcessingTime and clear; EventTimeTrigger.java, "
    "clear",
    explains=None,
)
EQUAL_WINDOW = Leak(
    what="contents of a merged session whose bounds an element's own window equals (with flink_exact alone)",
    why="the mapping to the state window is overwritten by the element's own window, so that nobody finds "
    "the old contents again",
    until="never",
    source=f"{_RUNTIME}/runtime/operators/windowing/MergingWindowSet.java, addWindow",
    explains=None,
)
UNCLEARED_WINDOW_STATE = Leak(
    what="per-window state of a window function whose clear does not remove it",
    why="the operator does not know the function's states; the older WindowFunction has no clear at all, and "
    "no per-window state either",
    until="never",
    source=f"{_RUNTIME}/api/functions/windowing/ProcessWindowFunction.java, clear",
    explains=None,
)
GLOBAL_STATE = Leak(
    what="state of a key that a function keeps without a window",
    why="no window's end is the end of a key",
    until="the function removes it",
    source=f"{_RUNTIME}/api/functions/windowing/ProcessWindowFunction.java, Context.globalState",
    explains=None,
)

LEAKS = (
    FIRE_TIME_OF_ABSORBED_SESSIONS,
    LAST_INSTANT_OF_ABSORBED_SESSIONS,
    EVENT_TIMER_OF_CLOCK_WINDOWS,
    GLOBAL_WINDOW,
    CLEANUP_BEYOND_THE_END_OF_TIME,
    CLEANUP_TIMER_OF_TIMED_OUT_WINDOWS,
    EQUAL_WINDOW,
    UNCLEARED_WINDOW_STATE,
    GLOBAL_STATE,
)
