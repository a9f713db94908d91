"""The recorded output of operators, in order, as values that compare with plain tuples."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

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
