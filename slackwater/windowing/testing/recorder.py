"""What a run leaves: the recorded output of operators, in order, as values that compare with plain tuples,
and the snapshot.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot
from slackwater.windowing.windows import Window


class Pane(NamedTuple):
    """A row of a fired window, stamped with its last instant. Equals `(key, (start, end), value)`."""

    key: Any
    window: Window
    value: Any


class Row(NamedTuple):
    """A row of a KeyedProcessFunction; `timestamp` is None where Flink gives it none."""

    key: Any
    value: Any
    timestamp: int | None


class LateElement(NamedTuple):
    """An element in the late side output, with its own timestamp."""

    key: Any
    value: Any
    timestamp: int | None


class SideOutput(NamedTuple):
    tag: str
    key: Any
    value: Any
    timestamp: int | None


class Watermark(NamedTuple):
    """A watermark that went downstream, after all rows that it caused."""

    timestamp: int


Record: TypeAlias = Pane | Row | LateElement | SideOutput | Watermark


class ReadableOutput:
    """`output` of a subclass, filtered by kind."""

    @property
    def output(self) -> list[Record]:
        """All rows, late elements, side outputs and watermarks, in order."""
        raise NotImplementedError

    @property
    def panes(self) -> list[Pane]:
        return [record for record in self.output if isinstance(record, Pane)]

    @property
    def rows(self) -> list[Row]:
        return [record for record in self.output if isinstance(record, Row)]

    @property
    def late_elements(self) -> list[LateElement]:
        """The late side output, in order. Without `side_output_late_data` late elements are only counted."""
        return [record for record in self.output if isinstance(record, LateElement)]

    def side_output(self, tag: str) -> list[Any]:
        return [
            record.value for record in self.output if isinstance(record, SideOutput) and record.tag == tag
        ]


class Recorder:
    """An OperatorOutput that keeps everything, in `records`."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        self.records.append(Row(key, value, timestamp) if window is None else Pane(key, window, value))

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        self.records.append(LateElement(key, value, timestamp))

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        self.records.append(SideOutput(tag, key, value, timestamp))

    def watermark(self, timestamp: int) -> None:
        self.records.append(Watermark(timestamp))


@dataclass(frozen=True)
class HarnessSnapshot:
    """The snapshot that a run leaves to the next: state, timers, watermark and clock, as bytes, so that a
    test notices values that cannot leave the process, and two runs never share an object.

    Taken without flushing: nothing fires for it, open windows stay open. `watermark` is the minimum over all
    subtasks, `clock` processing time in milliseconds; the state is bound to `max_parallelism`.
    """

    watermark: int
    clock: int
    max_parallelism: int
    _pickled: bytes

    @classmethod
    def of(cls, parts: Iterable[OperatorSnapshot], clock: int, max_parallelism: int) -> HarnessSnapshot:
        """From one part per subtask. Raises pickle's error when a value of the state cannot be pickled."""
        parts = list(parts)
        return cls(min(part.watermark for part in parts), clock, max_parallelism, pickle.dumps(parts))

    def parts(self) -> list[OperatorSnapshot]:
        """New objects at each call."""
        parts: list[OperatorSnapshot] = pickle.loads(self._pickled)
        return parts

    def state(self) -> list[tuple[str, Any, Any, Any]]:
        """Every entry as (state name, key, window or None, value), in no particular order."""
        return [
            (entry.state_name, entry.key, entry.namespace, entry.value)
            for part in self.parts()
            for entry in part.entries
        ]

    def event_timers(self) -> list[tuple[int, Any, Any]]:
        """Every event timer as (timestamp, key, window or None), by key group."""
        return [timer for part in self.parts() for timers in part.timers for timer in timers.event]

    def processing_timers(self) -> list[tuple[int, Any, Any]]:
        """Every processing timer as (timestamp, key, window or None), by key group."""
        return [timer for part in self.parts() for timers in part.timers for timer in timers.processing]
