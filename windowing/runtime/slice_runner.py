"""Drives an operator through one slice: sorted elements, a watermark timeline and a virtual clock. It knows no window.

No I/O and no engine. What was parked goes in, what is to be parked comes out, both as a snapshot in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from windowing.errors import UserCodeError, WindowingError
from windowing.java import LONG_MIN
from windowing.key_groups import KeyGroupRange
from windowing.processing_time_service import ReplayProcessingTimeService
from windowing.runtime.internal_time_service_manager import InternalTimeServiceManager
from windowing.runtime.operator_snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from windowing.runtime.window_log import SideRow
from windowing.state.backend import StateBackend

_NO_RISE: Final = (2**63, LONG_MIN)  # a tick end after every moment


class Timeline(Protocol):
    """The slice's watermarks: `watermarks[i]` is emitted at the tick end `tick_ends[i]`; `initial` is in force before the first."""

    @property
    def initial(self) -> int: ...

    @property
    def tick_ends(self) -> Any: ...

    @property
    def watermarks(self) -> Any: ...


class SliceOperator(Protocol):
    """What can be driven: an operator on keyed elements, new and unopened."""

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


class SliceLog(Protocol):
    """What keeps account of the operator's doings and is told the time."""

    clock: int
    watermark: int
    processed: int
    side_rows: list[SideRow]


class FailedElement(NamedTuple):
    """An element on which a user's function raised, and of which nothing is left.

    Attributes:
        position: how many elements had been processed before it.
        reason: what the function raised, where.
    """

    position: int
    reason: str


class SliceRunner:
    """An operator of one range of key groups, driven through one slice [from_ms, …).

    Call `restore` once, `process_element` for each element in order of arrival, `finish` once, read the results, and `close`.

    Args:
        operator: new and unopened, on `clock`.
        add_element: the operator's process_element; called for every element.
        log: what the operator reports to.
        clock: processing time; it reads the slice's start.
        key_groups: the range; elements of other key groups are refused.
        timeline: the slice's watermarks.

    Attributes:
        failed: elements taken back because a function raised on them, in order; only of an operator that takes them back.
    """

    def __init__(
        self,
        operator: SliceOperator,
        add_element: Callable[[Any, Any, int], None],
        log: SliceLog,
        clock: ReplayProcessingTimeService,
        key_groups: KeyGroupRange,
        timeline: Timeline,
    ) -> None:
        self.failed: list[FailedElement] = []
        self._operator, self._add_element, self._clock = operator, add_element, clock
        self._slice_log = log
        self._key_groups = key_groups
        self._rises: Iterator[tuple[int, int]] = iter(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True))
        self._next_tick_end, self._next_watermark = next(self._rises, _NO_RISE)
        log.clock, log.watermark = clock.current_processing_time, timeline.initial
        operator.open()
        operator.initialize_watermark(timeline.initial)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Take back what earlier runs parked; what is of other key groups is left alone."""
        restore_snapshots(self._operator, [snapshot], self._key_groups)

    def process_element(self, key: Any, value: Any, timestamp: int, arrival: int) -> None:
        """One element; the clock and the watermark move to its arrival first. `value` is whatever the function takes.

        Raises:
            WindowingError: the element can't be processed, and was not taken back for a fault of its own.
        """
        if self._next_tick_end <= arrival:
            self._rise_until(arrival)
        if arrival != self._slice_log.clock:
            self._move_clock(arrival)
        try:
            self._add_element(key, value, timestamp)
        except WindowingError as error:
            if not error.undone or not (isinstance(error, UserCodeError) or error.fault == "data"):
                raise
            self.failed.append(FailedElement(self._slice_log.processed, str(error)))
        self._slice_log.processed += 1

    def finish(self, to_ms: int) -> None:
        """Finish the ticks that end by `to_ms`, and leave the clock there."""
        self._rise_until(to_ms)
        self._move_clock(to_ms)

    def close(self) -> None:
        """Close the user's function and the state back end; also after a failure."""
        self._operator.close()

    def snapshot(self) -> OperatorSnapshot:
        """What is to be parked. Taken when the run is over: values are shared with the operator."""
        return take_snapshot(self._operator, self._key_groups)

    @property
    def processed(self) -> int:
        """Elements processed so far."""
        return self._slice_log.processed

    @property
    def side_rows(self) -> list[SideRow]:
        """Rows of all side outputs, in order."""
        return self._slice_log.side_rows

    def counts(self) -> dict[str, int]:
        """What the run did, under the names of the ledger's columns."""
        services = (service for _, service in self._operator.time_services.services())
        timers = sum(len(service.event_timers) + len(service.processing_timers) for service in services)
        failed = len(self.failed)
        return {"rows_accepted": self._slice_log.processed - failed, "rows_quarantined": failed, "timers_pending": timers}

    def _rise_until(self, moment: int) -> None:
        """Emit the watermarks of the ticks that end at or before `moment`; at each the clock stands at the tick's end."""
        while self._next_tick_end <= moment:
            self._move_clock(self._next_tick_end)
            self._slice_log.watermark = watermark = self._next_watermark
            self._next_tick_end, self._next_watermark = next(self._rises, _NO_RISE)
            self._operator.process_watermark(watermark)

    def _move_clock(self, moment: int) -> None:
        if moment != self._slice_log.clock:
            self._slice_log.clock = moment
            self._clock.advance_to(moment)
