"""Replays one range of key groups through one slice: sorted elements, a watermark timeline and a virtual clock drive the window operator.

No I/O and no engine. What was parked goes in, what is to be parked comes out, both as plain records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

from windowing.assigners import MergingWindowAssigner
from windowing.java import LONG_MAX
from windowing.key_groups import KeyGroupRange
from windowing.order_modes import OrderMode
from windowing.processing_time_service import ReplayProcessingTimeService
from windowing.runtime.key_group_index import KeyGroupIndex
from windowing.runtime.window_log import LateElement, Pane, WindowLife, WindowLog
from windowing.runtime.window_operator import MERGING_WINDOW_SET, TIMER_SERVICE, window_operator
from windowing.runtime.window_operator_config import WindowOperatorConfig
from windowing.state.backend import StateEntry
from windowing.windows import Window


class Timeline(Protocol):
    """The slice's watermarks: `watermarks[i]` is emitted at the tick end `tick_ends[i]`; `initial` is in force before the first."""

    @property
    def initial(self) -> int: ...

    @property
    def tick_ends(self) -> Any: ...

    @property
    def watermarks(self) -> Any: ...


class ParkedWindow(NamedTuple):
    """One open window between two runs; times in milliseconds, None where there is none yet.

    Attributes:
        key, key_group, window: whose it is.
        elements, firings, last_fired_at, first_arrival, last_arrival: its life, see `WindowLife`.
        contents: the accumulator; None when it was purged and has had no element since.
        next_firing: time of its next timer that may fire it. Not restored: the timers are.
        cleanup_time: when it is collected; None for never. Not restored.
    """

    key: Any
    key_group: int
    window: Window
    elements: int
    firings: int
    last_fired_at: int | None
    first_arrival: int | None
    last_arrival: int | None
    contents: Any
    next_firing: int | None = None
    cleanup_time: int | None = None


class ParkedTimer(NamedTuple):
    """One pending timer between two runs.

    Attributes:
        service: name of the timer service.
        domain: event or processing.
        time: when it is due, in milliseconds.
        purpose: fire (the window's end), cleanup, fire+cleanup, or trigger (any other).
    """

    key: Any
    key_group: int
    window: Window
    service: str
    domain: str
    time: int
    purpose: str


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
        self._log = WindowLog(accumulates=not config.trigger.purges, is_event_time=config.assigner.is_event_time)
        self._clock = ReplayProcessingTimeService(from_ms)
        self._operator = window_operator(
            config,
            self._log,
            self._clock,
            key_groups=key_groups,
            max_parallelism=max_parallelism,
            order_mode=order_mode,
            listener=self._log,
        )
        self._config = config
        self._key_groups = key_groups
        self._group_of = KeyGroupIndex(config.key_type, key_groups, max_parallelism)
        self._contents = config.contents.name
        self._timers = self._operator.time_services.get_internal_timer_service(TIMER_SERVICE, self._operator)
        self._rises: Iterator[tuple[int, int]] = iter(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True))
        self._next_rise = next(self._rises, None)
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

    def restore(self, windows: Iterable[ParkedWindow], timers: Iterable[ParkedTimer]) -> None:
        """Take back what an earlier run parked of this range, both sorted by key group."""
        entries: list[StateEntry] = []
        sessions: dict[Any, list[tuple[Window, Window]]] = {}
        for parked in windows:
            key, window = parked.key, parked.window
            self._log.lives[key, window] = WindowLife(
                elements=parked.elements,
                firings=parked.firings,
                unfired=0 if parked.firings else parked.elements,
                last_fired_at=parked.last_fired_at,
                first_arrival=parked.first_arrival,
                last_arrival=parked.last_arrival,
            )
            if parked.contents is not None:
                entries.append(StateEntry(self._contents, self._config.contents.kind, parked.key_group, key, window, parked.contents))
            sessions.setdefault(key, []).append((window, window))
        if isinstance(self._config.assigner, MergingWindowAssigner):
            name = MERGING_WINDOW_SET.name
            entries += [StateEntry(name, MERGING_WINDOW_SET.kind, self._group_of[key], key, None, pairs) for key, pairs in sessions.items()]
        self._operator.backend.restore(entries)
        known = list(timers)
        self._timers.restore(
            [(timer.time, timer.key, timer.window) for timer in known if timer.domain == "event"],
            [(timer.time, timer.key, timer.window) for timer in known if timer.domain == "processing"],
        )

    def process_element(self, key: Any, value: Any, timestamp: int, arrival: int) -> None:
        """One element; the clock and the watermark move to its arrival first. `value` is whatever the aggregate function takes."""
        if self._next_rise is not None and self._next_rise[0] <= arrival:
            self._rise_until(arrival)
        self._move_clock(arrival)
        self._operator.process_element(key, value, timestamp)
        self._log.processed += 1

    def finish(self, to_ms: int) -> None:
        """Finish the ticks that end by `to_ms`, and leave the clock there."""
        self._rise_until(to_ms)
        self._move_clock(to_ms)

    def counts(self) -> dict[str, int]:
        """What the run did, under the names of the ledger's columns."""
        timers = len(self._timers.event_timers) + len(self._timers.processing_timers)
        accepted = self._log.processed - self._log.tally.rows_late - self._log.tally.rows_unassigned
        return {**asdict(self._log.tally), "rows_accepted": accepted, "windows_open": len(self._log.lives), "timers_pending": timers}

    def parked_windows(self) -> list[ParkedWindow]:
        """Every open window, contents under its own bounds also where sessions have merged."""
        state_windows: dict[tuple[Any, Window], Window] = {}
        contents: dict[tuple[Any, Window], Any] = {}
        for entry in self._operator.backend.entries():
            if entry.state_name == self._contents:
                contents[entry.key, entry.namespace] = entry.value
            elif entry.state_name == MERGING_WINDOW_SET.name:
                state_windows.update({(entry.key, window): state_window for window, state_window in entry.value})
        next_firing: dict[tuple[Any, Window], int] = {}
        for timer in self.parked_timers():
            if timer.purpose != "cleanup":
                whose = (timer.key, timer.window)
                next_firing[whose] = min(timer.time, next_firing.get(whose, timer.time))
        return [
            ParkedWindow(
                key=key,
                key_group=self._group_of[key],
                window=window,
                elements=life.elements,
                firings=life.firings,
                last_fired_at=life.last_fired_at,
                first_arrival=life.first_arrival,
                last_arrival=life.last_arrival,
                contents=contents.get((key, state_windows.get((key, window), window))),
                next_firing=next_firing.get((key, window)),
                cleanup_time=self._cleanup_time(window),
            )
            for (key, window), life in self._log.lives.items()
        ]

    def parked_timers(self) -> list[ParkedTimer]:
        """Every pending timer, by key group."""
        queues = (("event", self._timers.event_timers), ("processing", self._timers.processing_timers))
        return [
            ParkedTimer(key, group, window, TIMER_SERVICE, domain, time, self._purpose(time, window))
            for group in self._key_groups
            for domain, queue in queues
            for time, key, window in queue.snapshot(group)
        ]

    def _cleanup_time(self, window: Window) -> int | None:
        cleanup = int(window.max_timestamp()) + self._config.allowed_lateness_ms
        return None if cleanup >= LONG_MAX else cleanup

    def _purpose(self, time: int, window: Window) -> str:
        fires, cleans = time == window.max_timestamp(), time == self._cleanup_time(window)
        return "fire+cleanup" if fires and cleans else "fire" if fires else "cleanup" if cleans else "trigger"

    def _rise_until(self, moment: int) -> None:
        """Emit the watermarks of the ticks that end at or before `moment`; at each the clock stands at the tick's end."""
        while self._next_rise is not None and self._next_rise[0] <= moment:
            tick_end, watermark = self._next_rise
            self._next_rise = next(self._rises, None)
            self._move_clock(tick_end)
            self._log.watermark = watermark
            self._operator.process_watermark(watermark)

    def _move_clock(self, moment: int) -> None:
        if moment != self._log.clock:
            self._log.clock = moment
            self._clock.advance_to(moment)
