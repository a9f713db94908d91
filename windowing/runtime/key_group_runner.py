"""Replays one range of key groups through one slice: sorted elements, a watermark timeline and a virtual clock drive the window operator.

No I/O and no engine. What was parked goes in, what is to be parked comes out, both as a snapshot in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, Final, Protocol

from windowing.java import LONG_MIN
from windowing.key_groups import KeyGroupRange
from windowing.order_modes import OrderMode
from windowing.processing_time_service import ReplayProcessingTimeService
from windowing.runtime.key_group_index import KeyGroupIndex
from windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot, restore_snapshots, take_snapshot
from windowing.runtime.window_log import LateElement, Pane, WindowLog
from windowing.runtime.window_operator import TIMER_SERVICE, window_operator
from windowing.runtime.window_operator_config import WindowOperatorConfig

_NO_RISE: Final = (2**63, LONG_MIN)  # a tick end after every moment


class Timeline(Protocol):
    """The slice's watermarks: `watermarks[i]` is emitted at the tick end `tick_ends[i]`; `initial` is in force before the first."""

    @property
    def initial(self) -> int: ...

    @property
    def tick_ends(self) -> Any: ...

    @property
    def watermarks(self) -> Any: ...


class KeyGroupRunner:
    """A window operator of one range of key groups, driven through one slice [from_ms, to_ms).

    Call `restore` once, `process_element` for each element in order of arrival, `finish` once, and then read the results.

    Args:
        config: what the operator is to do; its windows must be of event time.
        key_groups: the range; elements of other key groups are refused.
        max_parallelism: number of key groups.
        order_mode: whose order equal timers have.
        timeline: the slice's watermarks.
        from_ms: the slice's start: what the clock reads.
    """

    def __init__(
        self,
        config: WindowOperatorConfig,
        *,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        order_mode: OrderMode,
        timeline: Timeline,
        from_ms: int,
    ) -> None:
        self._clock = ReplayProcessingTimeService(from_ms)
        self._log = WindowLog(
            accumulates=not config.trigger.purges, is_event_time=config.assigner.is_event_time, processing_time=self._clock
        )
        self._operator = window_operator(
            config,
            self._log,
            self._clock,
            key_groups=key_groups,
            max_parallelism=max_parallelism,
            order_mode=order_mode,
            listener=self._log,
        )
        self._key_groups = key_groups
        self._is_event_time, self._lateness_ms = config.assigner.is_event_time, config.allowed_lateness_ms
        self._group_of = KeyGroupIndex(config.key_type, key_groups, max_parallelism)
        self._timers = self._operator.time_services.get_internal_timer_service(TIMER_SERVICE, self._operator)
        self._rises: Iterator[tuple[int, int]] = iter(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True))
        self._next_tick_end, self._next_watermark = next(self._rises, _NO_RISE)
        self._add_element = self._operator.process_element  # bound here, because it is called for every element
        self._processed = 0
        self._log.clock, self._log.watermark = from_ms, timeline.initial
        self._operator.open()
        self._operator.initialize_watermark(timeline.initial)

    @property
    def panes(self) -> list[Pane]:
        """Rows of all firings, in order."""
        return self._log.panes

    @property
    def late_elements(self) -> list[LateElement]:
        """Elements that came too late, in order of arrival."""
        return self._log.late_elements

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Take back what earlier runs parked; what is of other key groups is left alone.

        Windows that a shorter lateness than theirs has expired are collected at once: their timers will not be due before the next
        watermark, and until then a session could merge with them.
        """
        for key_group, key, window, life in snapshot.windows or ():
            if key_group in self._key_groups:
                self._log.open_window(key, window, life)
        restore_snapshots(self._operator, [snapshot], self._key_groups)
        if self._is_event_time:
            for key_group, key, window, _ in snapshot.windows or ():
                if key_group in self._key_groups and window.max_timestamp() + self._lateness_ms <= self._log.watermark:
                    self._operator.collect_expired(key, window)

    def process_element(self, key: Any, value: Any, timestamp: int, arrival: int) -> None:
        """One element; the clock and the watermark move to its arrival first. `value` is whatever the aggregate function takes."""
        if self._next_tick_end <= arrival:
            self._rise_until(arrival)
        if arrival != self._log.clock:
            self._move_clock(arrival)
        self._add_element(key, value, timestamp)
        self._processed += 1

    def finish(self, to_ms: int) -> None:
        """Finish the ticks that end by `to_ms`, and leave the clock there."""
        self._rise_until(to_ms)
        self._move_clock(to_ms)

    def counts(self) -> dict[str, int]:
        """What the run did, under the names of the ledger's columns."""
        timers = len(self._timers.event_timers) + len(self._timers.processing_timers)
        accepted = self._processed - self._log.tally.rows_late - self._log.tally.rows_unassigned
        windows_open = sum(map(len, self._log.lives.values()))
        return {**asdict(self._log.tally), "rows_accepted": accepted, "windows_open": windows_open, "timers_pending": timers}

    def snapshot(self) -> OperatorSnapshot:
        """What is to be parked. Taken when the run is over: values are shared with the operator."""
        taken = take_snapshot(self._operator, self._key_groups)
        windows = [
            OpenWindow(self._group_of[key], key, window, life) for window, lives in self._log.lives.items() for key, life in lives.items()
        ]
        return replace(taken, windows=tuple(windows))

    def _rise_until(self, moment: int) -> None:
        """Emit the watermarks of the ticks that end at or before `moment`; at each the clock stands at the tick's end."""
        while self._next_tick_end <= moment:
            self._move_clock(self._next_tick_end)
            self._log.watermark = watermark = self._next_watermark
            self._next_tick_end, self._next_watermark = next(self._rises, _NO_RISE)
            self._operator.process_watermark(watermark)

    def _move_clock(self, moment: int) -> None:
        if moment != self._log.clock:
            self._log.clock = moment
            self._clock.advance_to(moment)
