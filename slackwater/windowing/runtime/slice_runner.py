"""Drives an operator through a slice: elements, watermarks, virtual clock. No I/O, no engine, no windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from sys import getsizeof
from typing import Any, Final, NamedTuple, Protocol

from slackwater.windowing.errors import UserCodeError, WindowingError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_operator import KeyedOperator
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_log import OperatorLog, SideRow
from slackwater.windowing.state.backend import StateBackend

_NO_RISE: Final = (2**63, LONG_MIN)  # a tick end after every moment
# One entry in so many is measured. A prime: large entries at regular distances would be missed otherwise.
_SAMPLING_STEP: Final = 13
_MEASURED_ITEMS: Final = 8  # of each collection
# An entry's key, and its slots in the dictionaries of namespaces and keys, with a dictionary for each window.
_ENTRY_BYTES: Final = 300
_TIMER_BYTES: Final = 260  # a timer's tuple, its slot in the queue, and in the set that holds it once


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


MakeOperator = Callable[..., KeyedOperator]  # (clock=…, storage=…) → a new, unopened operator


class FailedElement(NamedTuple):
    """An element, after `position` others, on which a user's function raised; its effects were undone."""

    position: int
    reason: str


class SliceRunner:
    """An operator of one range of key groups, driven through one slice [from_ms, …).

    Call `restore` with each part of the snapshot, `process_element` for each element in order of arrival,
    `finish` once, read the results, and `close`.

    Args:
        from_ms: the slice's start, the clock's first reading.
        storage: where state and timers live.

    Attributes:
        failed_elements: elements whose effects were undone because a function raised on them, in order; empty
            unless the operator quarantines.
    """

    def __init__(
        self,
        make_operator: MakeOperator,
        log: OperatorLog,
        *,
        timeline: WatermarkTimeline,
        from_ms: int,
        storage: OperatorStorage,
    ) -> None:
        self.failed_elements: list[FailedElement] = []
        self._make_operator = make_operator
        self._log = log
        self._watermark_rises: Iterator[tuple[int, int]] = iter(
            zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True)
        )
        self._next_tick_end, self._next_watermark = next(self._watermark_rises, _NO_RISE)
        log.clock, log.watermark = from_ms, timeline.initial
        self._start(storage)

    def _start(self, storage: OperatorStorage) -> None:
        self._clock = ReplayProcessingTimeService(self._log.clock)
        self._operator = self._make_operator(clock=self._clock, storage=storage)
        self._operator.open()
        self._operator.initialize_watermark(self._log.watermark)

    @property
    def _key_groups(self) -> KeyGroupRange:
        return self._operator.key_groups.key_groups

    def move_storage(self, storage: OperatorStorage) -> None:
        """Move state and timers to another place between two elements, as if the slice had been cut here."""
        old = self._operator
        self._start(storage)
        self._operator.backend.restore(old.backend.entries())
        queues = old.timer_service.event_timers, old.timer_service.processing_timers
        self._operator.timer_service.restore(
            *(chain.from_iterable(map(queue.snapshot, self._key_groups)) for queue in queues)
        )
        self._operator.elements_processed = old.elements_processed
        old.close()

    def state_size(self) -> StateSize:
        return estimated_size(self._operator.backend, self._operator.timer_service.pending())

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
        operator, elements_left = self._operator, iter(elements)
        while True:
            try:
                return operator.process_all(elements_left, self._move_time)
            except WindowingError as error:
                if not error.undone or not (isinstance(error, UserCodeError) or error.fault == "data"):
                    raise
                self.failed_elements.append(FailedElement(operator.elements_processed, str(error)))
                operator.elements_processed += 1

    def emit_watermark(self, watermark: int, moment: int) -> None:
        """Emit a watermark that an element carried and the timeline lacks, at this moment of the clock."""
        self._move_clock(moment)
        self._process_watermark(watermark)

    def finish(self, to_ms: int) -> None:
        """Finish the ticks that end by `to_ms`, and leave the clock there."""
        self._move_time(to_ms)

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
    def backend(self) -> StateBackend:
        return self._operator.backend

    @property
    def current_key(self) -> Any:
        return self._operator.current_key

    @property
    def elements_processed(self) -> int:
        return self._operator.elements_processed

    @property
    def side_rows(self) -> list[SideRow]:
        return self._log.side_rows

    def counts(self) -> dict[str, int]:
        """What the run did, under the names of the ledger's columns."""
        failed_elements = len(self.failed_elements)
        return {
            "rows_accepted": self.elements_processed - failed_elements,
            "rows_quarantined": failed_elements,
            "timers_pending": self._operator.timer_service.pending(),
            "side_rows": len(self.side_rows),
        }

    def assignments(self) -> dict[str, int]:
        """Counts of (element, window) assignments by outcome; empty without windows."""
        return {}

    def _move_time(self, moment: int) -> None:
        if self._next_tick_end <= moment:
            self._emit_watermarks_until(moment)
        if moment != self._log.clock:
            self._move_clock(moment)

    def _emit_watermarks_until(self, moment: int) -> None:
        """Emit the watermarks of ticks that end by `moment`, each with the clock at the tick's end."""
        while self._next_tick_end <= moment:
            self._move_clock(self._next_tick_end)
            watermark = self._next_watermark
            self._next_tick_end, self._next_watermark = next(self._watermark_rises, _NO_RISE)
            self._process_watermark(watermark)

    def _process_watermark(self, watermark: int) -> None:
        self._log.watermark, self._log.calls_timers = watermark, True
        self._operator.process_watermark(watermark)
        self._log.calls_timers = False

    def _move_clock(self, moment: int) -> None:
        if moment != self._log.clock:
            self._log.clock, self._log.calls_timers = moment, True
            self._clock.advance_to(moment)
            self._log.calls_timers = False


class StateSize(NamedTuple):
    """Approximate bytes of state and timers in memory, their number, and how many items their lists have."""

    bytes: int
    entries: int
    items: int


def estimated_size(backend: StateBackend, timers: int) -> StateSize:
    """The size of all state and so many timers, estimated from a sample; looks at every entry. Sizes are
    `getsizeof`'s; the share of dictionaries and queues was measured once.
    """
    entries = unlisted_entries = sample_bytes = list_bytes = items = 0
    for entry in backend.entries():
        entries += 1
        if entry.kind == "list":  # measured one by one: some are very long
            list_bytes += deep_size(entry.value)
            items += len(entry.value)
            continue
        unlisted_entries += 1
        if unlisted_entries % _SAMPLING_STEP == 1:
            sample_bytes += deep_size(entry.value)
    value_bytes = list_bytes + sample_bytes * min(_SAMPLING_STEP, unlisted_entries)
    return StateSize(entries * _ENTRY_BYTES + value_bytes + timers * _TIMER_BYTES, entries + timers, items)


def deep_size(value: Any) -> int:
    """The size of a value and its contents; of a large collection from its first items."""
    size = getsizeof(value)
    if isinstance(value, dict):
        return size + _items_size(iter(value.items()), len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return size + _items_size(iter(value), len(value))
    return size


def _items_size(items: Iterator[Any], number: int) -> int:
    sizes = [deep_size(item) for item in islice(items, _MEASURED_ITEMS)]
    return number * sum(sizes) // len(sizes) if sizes else 0
