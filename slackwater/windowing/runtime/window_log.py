"""The history of each window, which Flink forgets and the table of panes needs. As the operator's listener
and output the log sees each step and the runner's clock, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.keyed_operator import KeyedOperator
from slackwater.windowing.runtime.operator_output import FiredBy, SkipReason
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

EARLY, ON_TIME, LATE, COUNT, WITHDRAWN = "early", "on_time", "late", "count", "withdrawn"


class LoggedPane(NamedTuple):
    """One row of a firing, or a withdrawal of the rows of earlier firings, whose `result` is None. Rows are
    withdrawn when another session absorbs theirs, and when a later firing of their window emits nothing.

    Attributes:
        firing: 1, 2, …: number of the window's firing.
        ordinal: 0, 1, …: position among the rows of the firing.
        kind: early, on_time, late, count or withdrawn.
        elements: number of elements that the window has accepted.
        tick_end: end of the tick whose watermark fired it; None when an element did.
        cause_arrival: arrival of the element that fired or absorbed it; None when a timer did.
        clock: the operator's clock.
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
    clock: int

    @property
    def is_withdrawal(self) -> bool:
        return self.kind == WITHDRAWN

    def withdrawal(self) -> LoggedPane:
        """The row that withdraws the rows of the firing before, where this one is empty."""
        return self._replace(ordinal=0, kind=WITHDRAWN, result=None)


class LoggedLateElement(NamedTuple):
    """An element that no window took and whose own timestamp is late, as in Flink's late side output:
    `position` elements were processed before it, `windows` are the ones that it missed, if any.
    """

    position: int
    value: Any
    key: Any
    timestamp: int
    windows: tuple[Window, ...]
    watermark: int


class SideRow(NamedTuple):
    """One row of the side output `tag`; `timestamp` in milliseconds.

    Attributes:
        firing: 1, 2, …: the window's firing that wrote it; None when the window was being cleared.
        ordinal: 0, 1, …: position among the rows of that firing, or clearing, and tag.
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
    """The history of one open window; times in milliseconds, None before the first. `elements` were accepted
    so far, over all firings and purges; `unfired_elements` of them have not been in a firing yet;
    `last_fired_at` is the clock at the newest firing.
    """

    elements: int = 0
    firings: int = 0
    unfired_elements: int = 0
    last_fired_at: int | None = None
    first_arrival: int | None = None
    last_arrival: int | None = None


class _Firing(NamedTuple):
    """What all rows of the firing in progress share; fields as in LoggedPane."""

    life: WindowLife
    kind: str
    tick_end: int | None
    cause_arrival: int | None
    clock: int


@dataclass(slots=True)
class Tally:
    """Counts of a run, under the names of the ledger's columns.

    They must not depend on the order in which elements extend a session that has not fired yet. So a window
    that is absorbed before it fires is subtracted from `windows_opened` (a run that only joins such sessions
    has a negative count), and `windows_merged` counts absorbed windows that had fired. The number of open
    windows grows by opened - merged - cleaned.
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


class OperatorLog:
    """Records the side rows of an operator, as its output. The runner sets `clock`, `watermark` and
    `calls_timers`, whether it moves time and not an element.
    """

    def __init__(self) -> None:
        self.clock = 0
        self.watermark = 0
        self.calls_timers = False
        self.side_rows: list[SideRow] = []

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        raise NotImplementedError

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        raise NotImplementedError

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        raise NotImplementedError


class WindowLog(OperatorLog):
    """Records the history of every open window and the rows of every firing.

    Attributes:
        accumulates: whether a firing replaces the one before it.
        lives: window → key → life, from the first element to the cleanup, purged windows included; no inner
            dict is empty.
        panes, late_elements: in the order in which the operator emitted them.
        operator, processing_time: the operator, and its clock, which stops at timers on its way to `clock`;
            set by the runner.
        assignments_added: how often a window has taken an element since the log was created.
        assignments_cleaned: elements of windows that were collected since then.
    """

    def __init__(self, *, accumulates: bool, is_event_time: bool) -> None:
        super().__init__()
        self.lives: dict[Window, dict[Any, WindowLife]] = {}
        self.panes: list[LoggedPane] = []
        self.late_elements: list[LoggedLateElement] = []
        self.operator: KeyedOperator
        self.processing_time: ProcessingTimeService
        self.tally = Tally()
        self.assignments_added = 0
        self.assignments_cleaned = 0
        self._accumulates = accumulates
        self._is_event_time = is_event_time
        self._firing: _Firing | None = None  # the one in progress
        self._ordinal = 0
        self._side_ordinals: dict[str, int] = {}

    def open_window(self, key: Any, window: Window, life: WindowLife) -> None:
        """Record a restored window as open, with its history."""
        self.lives.setdefault(window, {})[key] = life

    def element_added(self, key: Any, window: Window, value: Any, timestamp: int | None) -> None:
        self.assignments_added += 1
        lives, clock = self.lives.get(window), self.clock
        life = None if lives is None else lives.get(key)
        if life is None:
            self.tally.windows_opened += 1
            life = WindowLife(elements=1, unfired_elements=1, first_arrival=clock, last_arrival=clock)
            self.open_window(key, window, life)
            return
        life.elements += 1
        life.unfired_elements += 1
        if life.last_arrival is None or life.last_arrival < clock:
            life.last_arrival = clock
        if life.first_arrival is None:
            life.first_arrival = clock

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
                    position=self.operator.elements_processed,
                    value=value,
                    key=key,
                    timestamp=timestamp,
                    windows=tuple(missed_windows),
                    watermark=self.watermark,
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
        clock = life.last_fired_at = self.processing_time.current_processing_time
        kind = self._kind_of_firing(window, by)
        if kind == LATE:
            self.tally.windows_refired += 1
        else:
            self.tally.windows_fired += 1
        tick_end = self.clock if by is not None and by.domain == "event" else None
        self._firing = _Firing(life, kind, tick_end, self.clock if by is None else None, clock)
        self._ordinal = 0

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        assert self._firing is not None
        life, kind, tick_end, cause_arrival, clock = self._firing
        # By position: keywords would add a twentieth to the time of a firing.
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
                cause_arrival,
                clock,
            )
        )
        self._ordinal += 1

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        """Nothing: `element_skipped` has recorded the element and the windows that it missed."""

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        ordinal = self._side_ordinals.get(tag, 0)
        self._side_ordinals[tag] = ordinal + 1
        self.side_rows.append(
            SideRow(
                tag=tag,
                key=key,
                window=window,
                firing=None if self._firing is None else self._firing.life.firings,
                ordinal=ordinal,
                timestamp=timestamp,
                value=value,
            )
        )

    def firing_ended(self, key: Any, window: Window) -> None:
        if self._firing is not None and not self._ordinal and self._accumulates and window != GLOBAL_WINDOW:
            life, _, tick_end, cause_arrival, _ = self._firing
            if life.firings > 1:
                # An empty firing withdraws the rows of the previous firing.
                self._withdraw(key, window, life.firings, life.elements, (tick_end, cause_arrival))
        self._firing = None
        self._side_ordinals.clear()

    def _withdraw(
        self, key: Any, window: Window, firing: int, elements: int, cause: tuple[int | None, int | None]
    ) -> None:
        tick_end, cause_arrival = cause
        self.panes.append(
            LoggedPane(
                key=key,
                window=window,
                firing=firing,
                ordinal=0,
                kind=WITHDRAWN,
                result=None,
                elements=elements,
                watermark=self.watermark,
                tick_end=tick_end,
                cause_arrival=cause_arrival,
                clock=self.clock,
            )
        )

    def window_purged(self, key: Any, window: Window) -> None:
        """Nothing: a purged window stays open."""

    def windows_merged(self, key: Any, result: Window, absorbed_windows: Sequence[Window]) -> None:
        """`result` opens with the elements of the absorbed windows, and counts its firings from 1. The rows
        of an absorbed window that has fired are withdrawn.
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
            merged_life.first_arrival = _earlier(merged_life.first_arrival, life.first_arrival)
            merged_life.last_arrival = (
                life.last_arrival
                if merged_life.last_arrival is None
                else max(merged_life.last_arrival, life.last_arrival or 0)
            )
            if life.firings and self._accumulates:
                self._withdraw(key, window, life.firings + 1, 0, (None, self.clock))
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

    def _kind_of_firing(self, window: Window, by: FiredBy | None) -> str:
        if window is GLOBAL_WINDOW:
            return COUNT
        last = window.max_timestamp()
        if by is not None:
            return EARLY if by.timestamp < last else ON_TIME if by.timestamp == last else LATE
        return EARLY if (self.watermark if self._is_event_time else self.clock) < last else LATE


def _earlier(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
