"""What happened to each window: how many elements it took, how often it fired, and why. Flink forgets this; a
table of panes needs it.

Listener and output of the window operator: it sees the operator's steps and the runner's clock, and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.operator_output import FiredBy, SkipReason
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

EARLY, ON_TIME, LATE, COUNT, WITHDRAWN = "early", "on_time", "late", "count", "withdrawn"


class LoggedPane(NamedTuple):
    """One row of a firing, or a withdrawal, of which `result` is None: of a session that fired and was
    absorbed, or by a firing that emits nothing where an earlier one may have.

    Attributes:
        key, window: whose it is.
        firing: 1, 2, …: Flink's count of the window's firings.
        ordinal: 0, 1, …: position among the rows of the firing.
        kind: early, on_time, late, count or withdrawn.
        result: what the window function emitted.
        elements: elements that the window has accepted.
        watermark: when it fired.
        tick_end: end of the tick whose watermark fired it; None when an element did.
        cause_arrival: arrival of the element that fired or absorbed it; None when a timer did.
    """

    key: Any
    window: Window
    firing: int
    ordinal: int
    kind: str
    result: Any
    elements: int
    watermark: int
    tick_end: int | None
    cause_arrival: int | None


class LoggedLateElement(NamedTuple):
    """An element that no window took, and that is late by its own timestamp.

    Attributes:
        position: how many elements had been processed before it.
        value, key, timestamp: the element.
        windows: the windows that it missed; none when it was assigned none.
        watermark: in force when it came.
    """

    position: int
    value: Any
    key: Any
    timestamp: int
    windows: tuple[Window, ...]
    watermark: int


class SideRow(NamedTuple):
    """One row of a side output.

    Attributes:
        tag: which side output.
        key, window: whose function wrote it.
        firing: 1, 2, …: the window's firing in which it was written; None when the window was being cleared.
        ordinal: 0, 1, …: position among the rows of that firing, or clearing, and tag.
        timestamp: in milliseconds; None for none.
        value: what the function wrote.
    """

    tag: str
    key: Any
    window: Window
    firing: int | None
    ordinal: int
    timestamp: int | None
    value: Any


@dataclass(slots=True)
class WindowLife:
    """What one open window has been through; times in milliseconds, None before the first.

    Attributes:
        elements: accepted so far, over all firings and purges.
        firings: so far.
        unfired_elements: elements that have not been in a firing yet.
        last_fired_at: the clock at the newest firing.
        first_arrival, last_arrival: clock at the first and newest element.
    """

    elements: int = 0
    firings: int = 0
    unfired_elements: int = 0
    last_fired_at: int | None = None
    first_arrival: int | None = None
    last_arrival: int | None = None


@dataclass(slots=True)
class Tally:
    """Counts of a run, under the names of the ledger's columns.

    They depend on which elements there are and on what fired, not on the order in which elements extend a
    session that has not fired: `windows_merged` are windows that had fired and were absorbed, and a window
    that is absorbed before it fires is taken back from `windows_opened`, so that a run that only joins such
    sessions has opened less than none. Opened - merged - cleaned is always what the run has added to the open
    windows.
    """

    rows_late: int = 0
    rows_unassigned: int = 0
    assignments_missed: int = 0
    elements_never_fired: int = 0
    windows_opened: int = 0
    windows_fired: int = 0
    windows_refired: int = 0
    windows_merged: int = 0
    windows_cleaned: int = 0


class WindowLog:
    """Keeps the life of every open window and the panes of every firing. The runner sets `clock` and
    `watermark` before it acts.

    Args:
        accumulates: whether a firing replaces the one before it.
        is_event_time: the domain of the windows.

    Attributes:
        lives: window → key → life, for windows from their first element to their cleanup, purged ones
            included; no inner dict is empty.
        panes, late_elements, side_rows: in the order in which they came about.
        elements_processed: elements processed so far; the runner counts.
        processing_time: the operator's clock, which stops at timers on its way to `clock`; set with the
            operator.
        tally: counts since the log was made.
        assignments_added: how often a window has taken an element since then.
        assignments_cleaned: elements of windows that were collected since then.
    """

    def __init__(self, *, accumulates: bool, is_event_time: bool) -> None:
        self.clock = 0
        self.watermark = 0
        self.lives: dict[Window, dict[Any, WindowLife]] = {}
        self.panes: list[LoggedPane] = []
        self.late_elements: list[LoggedLateElement] = []
        self.side_rows: list[SideRow] = []
        self.elements_processed = 0
        self.processing_time: ProcessingTimeService
        self.tally = Tally()
        self.assignments_added = 0
        self.assignments_cleaned = 0
        self._accumulates = accumulates
        self._is_event_time = is_event_time
        self._firing: tuple[WindowLife, str, int | None, int | None] | None = None
        self._ordinal = 0
        self._side_ordinals: dict[str, int] = {}

    def open_window(self, key: Any, window: Window, life: WindowLife) -> None:
        """A window is open from now on, with what it has been through."""
        self.lives.setdefault(window, {})[key] = life

    def element_added(self, key: Any, window: Window, value: Any, timestamp: int | None) -> None:
        self.elements_added(key, window, 1, self.clock)

    def elements_added(self, key: Any, window: Window, number: int, until: int) -> None:
        self.assignments_added += number
        lives = self.lives.get(window)
        life = None if lives is None else lives.get(key)
        if life is None:
            self.tally.windows_opened += 1
            self.open_window(key, window, WindowLife(number, 0, number, None, self.clock, until))
            return
        life.elements += number
        life.unfired_elements += number
        life.last_arrival = until if life.last_arrival is None else max(until, life.last_arrival)
        if life.first_arrival is None:
            life.first_arrival = self.clock

    def element_skipped(
        self,
        key: Any,
        value: Any,
        timestamp: int | None,
        reason: SkipReason,
        missed_windows: Sequence[Window],
    ) -> None:
        if reason is SkipReason.LATE and timestamp is not None:
            self.tally.rows_late += 1
            self.late_elements.append(
                LoggedLateElement(
                    self.elements_processed, value, key, timestamp, tuple(missed_windows), self.watermark
                )
            )
        else:
            self.tally.rows_unassigned += 1

    def windows_missed(
        self, key: Any, value: Any, timestamp: int | None, missed_windows: Sequence[Window]
    ) -> None:
        self.tally.assignments_missed += len(missed_windows)

    def window_fired(self, key: Any, window: Window, by: FiredBy | None, has_contents: bool) -> None:
        if not has_contents:
            return
        life = self.lives[window][key]
        life.firings += 1
        life.unfired_elements = 0
        life.last_fired_at = self.processing_time.current_processing_time
        kind = self._kind(window, by)
        if kind == LATE:
            self.tally.windows_refired += 1
        else:
            self.tally.windows_fired += 1
        tick_end = self.clock if by is not None and by.domain == "event" else None
        self._firing = (life, kind, tick_end, self.clock if by is None else None)
        self._ordinal = 0

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the firing in progress."""
        assert self._firing is not None
        life, kind, tick_end, cause = self._firing
        self.panes.append(
            LoggedPane(
                key,
                window,
                life.firings,
                self._ordinal,
                kind,
                value,
                life.elements,
                self.watermark,
                tick_end,
                cause,
            )
        )
        self._ordinal += 1

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        """Late elements are heard of as skipped ones, with the windows that they missed."""

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row written by the firing in progress, or by a function that is told of its window's end."""
        ordinal = self._side_ordinals.get(tag, 0)
        self._side_ordinals[tag] = ordinal + 1
        firing = None if self._firing is None else self._firing[0].firings
        self.side_rows.append(SideRow(tag, key, window, firing, ordinal, timestamp, value))

    def firing_ended(self, key: Any, window: Window) -> None:
        if self._firing is not None and not self._ordinal and self._accumulates and window != GLOBAL_WINDOW:
            life, _, tick_end, cause = self._firing
            if life.firings > 1:
                # It replaces the rows of the firing before it by none.
                self.panes.append(
                    LoggedPane(
                        key,
                        window,
                        life.firings,
                        0,
                        WITHDRAWN,
                        None,
                        life.elements,
                        self.watermark,
                        tick_end,
                        cause,
                    )
                )
        self._firing = None
        self._side_ordinals.clear()

    def window_purged(self, key: Any, window: Window) -> None:
        """A purged window stays open."""

    def windows_merged(self, key: Any, result: Window, absorbed_windows: Sequence[Window]) -> None:
        """`result` begins a life of its own, with what was in those absorbed, and counts its firings
        from 1.
        """
        if len(absorbed_windows) == 1 and not self.lives[absorbed_windows[0]][key].firings:
            life = self._close_window(key, absorbed_windows[0])
            assert life is not None
            self.open_window(key, result, life)
            return
        merged_life = WindowLife()
        windows_never_fired = 0
        for window in absorbed_windows:
            life = self._close_window(key, window)
            assert life is not None
            windows_never_fired += not life.firings
            merged_life.elements += life.elements
            merged_life.unfired_elements += life.unfired_elements
            merged_life.first_arrival = _least(merged_life.first_arrival, life.first_arrival)
            merged_life.last_arrival = (
                life.last_arrival
                if merged_life.last_arrival is None
                else max(merged_life.last_arrival, life.last_arrival or 0)
            )
            if life.firings and self._accumulates:
                self.panes.append(
                    LoggedPane(
                        key, window, life.firings + 1, 0, WITHDRAWN, None, 0, self.watermark, None, self.clock
                    )
                )
        self.tally.windows_opened += 1 - windows_never_fired
        self.tally.windows_merged += len(absorbed_windows) - windows_never_fired
        self.open_window(key, result, merged_life)

    def window_cleared(self, key: Any, window: Window) -> None:
        self._side_ordinals.clear()
        life = self._close_window(key, window)
        if life is not None:
            self.tally.windows_cleaned += 1
            self.tally.elements_never_fired += life.unfired_elements
            self.assignments_cleaned += life.elements

    def _close_window(self, key: Any, window: Window) -> WindowLife | None:
        lives = self.lives.get(window)
        if lives is None:
            return None
        life = lives.pop(key, None)
        if not lives:
            del self.lives[window]
        return life

    def _kind(self, window: Window, by: FiredBy | None) -> str:
        if window is GLOBAL_WINDOW:
            return COUNT
        last = window.max_timestamp()
        if by is not None:
            return EARLY if by.timestamp < last else ON_TIME if by.timestamp == last else LATE
        return EARLY if (self.watermark if self._is_event_time else self.clock) < last else LATE


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
