"""Drives an operator through a slice: elements, watermarks, virtual clock. No I/O, no engine, no windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from slackwater.windowing.errors import UserCodeError, WindowingError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.internal_time_service_manager import InternalTimeServiceManager
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from slackwater.windowing.runtime.operator_storage import MakeBackend, MakeTimerQueue
from slackwater.windowing.runtime.state_size import estimated_bytes
from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.state.backend import StateBackend

_NO_RISE: Final = (2**63, LONG_MIN)  # a tick end after every moment


class WatermarkTimeline(Protocol):
    """The slice's watermarks: `watermarks[i]` is emitted at `tick_ends[i]`; `initial` is in force before.
    Windows whose last instant is at or before `collected_mark` were collected before; Long.MIN for none.
    """

    @property
    def initial(self) -> int: ...

    @property
    def tick_ends(self) -> Any: ...

    @property
    def watermarks(self) -> Any: ...

    @property
    def collected_mark(self) -> int: ...


class SliceOperator(Protocol):
    """The operator that SliceRunner drives, new and unopened."""

    @property
    def backend(self) -> StateBackend: ...

    @property
    def time_services(self) -> InternalTimeServiceManager: ...

    @property
    def current_watermark(self) -> int: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def initialize_watermark(self, timestamp: int) -> None: ...

    def process_watermark(self, timestamp: int) -> None: ...

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None: ...


AddElement = Callable[[Any, Any, int], None]  # (key, value, timestamp)
MakeOperator = Callable[[ReplayProcessingTimeService, MakeBackend, MakeTimerQueue], SliceOperator]


def _process_element_of(operator: SliceOperator) -> AddElement:
    return operator.process_element


class SliceLog(Protocol):
    """The log of an operator. The runner sets its clock and watermark, and counts its elements."""

    clock: int
    watermark: int
    elements_processed: int
    side_rows: list[SideRow]


class FailedElement(NamedTuple):
    """An element, after `position` others, on which a user's function raised; its effects were undone."""

    position: int
    reason: str


class SliceRunner:
    """An operator of one range of key groups, driven through one slice [from_ms, …).

    Call `restore` with each part of the snapshot, `process_element` for each element in order of arrival,
    `finish` once, read the results, and `close`.

    Args:
        key_groups: the range; elements of other key groups are refused.
        from_ms: the slice's start, the clock's first reading.
        make_backend, make_timer_queue: where state and timers live, see OperatorStorage.
        add_element_of: operator → the function to call for every element.

    Attributes:
        failed_elements: elements whose effects were undone because a function raised on them, in order; empty
            unless the operator quarantines.
    """

    def __init__(
        self,
        make_operator: MakeOperator,
        log: SliceLog,
        *,
        key_groups: KeyGroupRange,
        timeline: WatermarkTimeline,
        from_ms: int,
        make_backend: MakeBackend,
        make_timer_queue: MakeTimerQueue,
        add_element_of: Callable[[SliceOperator], AddElement] = _process_element_of,
    ) -> None:
        self.failed_elements: list[FailedElement] = []
        self._add_element_of = add_element_of
        self._make_operator = make_operator
        self._slice_log = log
        self._key_groups = key_groups
        self._watermark_rises: Iterator[tuple[int, int]] = iter(
            zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True)
        )
        self._next_tick_end, self._next_watermark = next(self._watermark_rises, _NO_RISE)
        log.clock, log.watermark = from_ms, timeline.initial
        self._start(make_backend, make_timer_queue)

    def _start(self, make_backend: MakeBackend, make_timer_queue: MakeTimerQueue) -> None:
        self._clock = ReplayProcessingTimeService(self._slice_log.clock)
        self._operator = self._make_operator(self._clock, make_backend, make_timer_queue)
        self._add_element = self._add_element_of(self._operator)
        self._operator.open()
        self._operator.initialize_watermark(self._slice_log.watermark)

    def move_storage(self, make_backend: MakeBackend, make_timer_queue: MakeTimerQueue) -> None:
        """Move state and timers to another place between two elements, as if the slice had been cut here."""
        old = self._operator
        self._start(make_backend, make_timer_queue)
        self._operator.backend.restore(old.backend.entries())
        services = dict(self._operator.time_services.services())
        for name, service in old.time_services.services():
            event, processing = (
                chain.from_iterable(map(queue.snapshot, self._key_groups))
                for queue in (service.event_timers, service.processing_timers)
            )
            services[name].restore(event, processing)
        old.close()

    def state_size(self) -> tuple[int, int]:
        """(approximate bytes of state and timers in memory, number of entries)."""
        return estimated_bytes(self._operator.backend, self._pending_timers())

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Restore what earlier runs parked, ignoring other key groups."""
        restore_snapshots(self._operator, [snapshot], self._key_groups)

    def process_element(self, key: Any, value: Any, timestamp: int, arrival: int) -> None:
        """Process one element; the clock and the watermark move to its arrival first.

        A WindowingError is raised, unless it was undone and a user's function or the data is at fault: then
        the element becomes one of `failed_elements`.
        """
        self.process_all([(key, value, timestamp, arrival)])

    def process_all(self, elements: Iterable[tuple[Any, Any, int, int]]) -> None:
        """`process_element` for each (key, value, timestamp, arrival), in order of arrival."""
        log, add_element = self._slice_log, self._add_element
        for key, value, timestamp, arrival in elements:
            if self._next_tick_end <= arrival:
                self._emit_watermarks_until(arrival)
            if arrival != log.clock:
                self._move_clock(arrival)
            try:
                add_element(key, value, timestamp)
            except WindowingError as error:
                if not error.undone or not (isinstance(error, UserCodeError) or error.fault == "data"):
                    raise
                self.failed_elements.append(FailedElement(log.elements_processed, str(error)))
            log.elements_processed += 1

    def emit_watermark(self, watermark: int, moment: int) -> None:
        """Emit a watermark that an element carried and the timeline lacks, at this moment of the clock."""
        self._move_clock(moment)
        self._slice_log.watermark = watermark
        self._operator.process_watermark(watermark)

    def finish(self, to_ms: int) -> None:
        """Finish the ticks that end by `to_ms`, and leave the clock there."""
        self._emit_watermarks_until(to_ms)
        self._move_clock(to_ms)

    def close(self) -> None:
        """Close the user's function and the state back end; also after a failure."""
        self._operator.close()

    def snapshot(
        self, key_groups: KeyGroupRange | None = None, holds_key: Callable[[Any], bool] | None = None
    ) -> OperatorSnapshot:
        """The snapshot to park, or the part of some key groups or keys (see `take_snapshot`). Taken when the
        run is over: values are shared with the operator.
        """
        return take_snapshot(self._operator, key_groups or self._key_groups, holds_key=holds_key)

    @property
    def elements_processed(self) -> int:
        return self._slice_log.elements_processed

    @property
    def side_rows(self) -> list[SideRow]:
        return self._slice_log.side_rows

    def counts(self) -> dict[str, int]:
        """What the run did, under the names of the ledger's columns."""
        failed_elements = len(self.failed_elements)
        return {
            "rows_accepted": self._slice_log.elements_processed - failed_elements,
            "rows_quarantined": failed_elements,
            "timers_pending": self._pending_timers(),
            "side_rows": len(self.side_rows),
        }

    def assignments(self) -> dict[str, int]:
        """Counts of (element, window) assignments by outcome; empty without windows."""
        return {}

    def _pending_timers(self) -> int:
        services = (service for _, service in self._operator.time_services.services())
        return sum(len(service.event_timers) + len(service.processing_timers) for service in services)

    def _move_time_to(self, arrival: int) -> None:
        if self._next_tick_end <= arrival:
            self._emit_watermarks_until(arrival)
        if arrival != self._slice_log.clock:
            self._move_clock(arrival)

    def _emit_watermarks_until(self, moment: int) -> None:
        """Emit the watermarks of ticks that end by `moment`, each with the clock at the tick's end."""
        while self._next_tick_end <= moment:
            self._move_clock(self._next_tick_end)
            self._slice_log.watermark = watermark = self._next_watermark
            self._next_tick_end, self._next_watermark = next(self._watermark_rises, _NO_RISE)
            self._operator.process_watermark(watermark)

    def _move_clock(self, moment: int) -> None:
        if moment != self._slice_log.clock:
            self._slice_log.clock = moment
            self._clock.advance_to(moment)
