"""Operators that never change, and what they remember: `python -m
tests.windowing.snapshot.fixed_operators` keeps it on file.

Run once for each version of the format; files of earlier versions are test data and are never written again.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.windowing import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import key_type
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot, take_snapshot
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import (
    FORMAT_VERSION,
    ContentsColumns,
    KeyColumns,
    SnapshotCodec,
    SnapshotLayout,
    SnapshotTables,
    write_tables,
)
from slackwater.windowing.windows import TimeWindow

FOLDER = Path(__file__).parent
ALL = KeyGroupRange(0, 127)
SECOND = timedelta(seconds=1)
KEYS = ["a", "b", "ключ"]


class _Unread:
    """An output that nobody reads."""

    def collect(self, *row: Any) -> None: ...

    def late(self, *row: Any) -> None: ...

    def side(self, *row: Any) -> None: ...


class _Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0], a[1] + b[1])


class _AverageColumns(ContentsColumns):
    columns = (("mean__sum", pa.decimal128(38, 0)), ("mean__count", pa.int64()))
    is_commutative = True

    def arrays(self, contents: Sequence[tuple[int, int] | None]) -> list[pa.Array]:
        sums = [None if parts is None else Decimal(parts[0]) for parts in contents]
        return [
            pa.array(sums, pa.decimal128(38, 0)),
            pa.array([None if parts is None else parts[1] for parts in contents], pa.int64()),
        ]

    def texts(self, contents: Sequence[tuple[int, int] | None]) -> list[str | None]:
        return [None] * len(contents)

    def values(self, rows: pa.Table) -> list[tuple[int, int]]:
        return [
            (int(total), count)
            for total, count in zip(*(rows.column(name).to_pylist() for name, _ in self.columns), strict=True)
        ]


class _Remembering(ProcessWindowFunction):
    """Leaves state of the key behind, and of windows that are gone."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> None:
        context.global_state().get_list_state(ListStateDescriptor("seen")).add_all(elements)
        context.window_state().get_map_state(MapStateDescriptor("by-kind")).put(
            ("n", 1), {"at": date(2013, 1, 1), "share": float("nan")}
        )


class _Departures(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(_STATES[0])
        self.seats = runtime_context.get_map_state(_STATES[1])
        self.delays = runtime_context.get_list_state(_STATES[2])
        self.total = runtime_context.get_reducing_state(_STATES[3])
        self.note = runtime_context.get_state(ValueStateDescriptor("note"))

    def process_element(self, value: int, context: Any) -> None:
        self.last.update(datetime(2013, 1, 1, tzinfo=UTC) + value * SECOND)
        self.seats.put(f"row {value}", value / 4)
        self.delays.add(value)
        self.total.add(Decimal(value).scaleb(-2))
        self.note.update((value, b"\0", -(2**70), float("inf")))
        context.timer_service.register_event_time_timer(value * 1000)
        context.timer_service.register_processing_time_timer(2**63 - 1)


_STATES = (
    ValueStateDescriptor("last", sql_type="timestamp"),
    MapStateDescriptor("seats", sql_type="double"),
    ListStateDescriptor("delays", sql_type="int"),
    ReducingStateDescriptor("total", operator.add, sql_type="decimal(10,2)"),
)


def _windows(config: WindowOperatorConfig, watermark: int) -> OperatorSnapshot:
    windows = WindowOperator(config, _Unread(), HarnessProcessingTimeService())
    windows.open()
    for value in range(12):
        windows.process_element(KEYS[value % 3], value, 700 * value - value % 2 * 900)
    windows.process_watermark(watermark)
    return take_snapshot(windows, ALL)


def _with_lives(snapshot: OperatorSnapshot) -> OperatorSnapshot:
    """As a run keeps account of them; the figures are made up."""
    contents = [entry for entry in snapshot.entries if entry.state_name == "window-contents"]
    open_windows = [
        OpenWindow(
            entry.key_group,
            entry.key,
            entry.namespace,
            WindowLife(number + 2, number % 3, 1, 9_000, 100 * number, 9_500),
        )
        for number, entry in enumerate(contents)
    ]
    purged_window = OpenWindow(
        contents[0].key_group, contents[0].key, TimeWindow(90_000, 91_000), WindowLife(3, 0, 3, None, 5, 6)
    )
    return OperatorSnapshot(
        snapshot.entries, snapshot.timers, snapshot.watermark, (*open_windows, purged_window)
    )


def _tumbling() -> tuple[SnapshotCodec, OperatorSnapshot]:
    builder = WindowOperatorBuilder(key_type("string"), TumblingEventTimeWindows.of(SECOND)).allowed_lateness(
        5 * SECOND
    )
    config = builder.trigger(CountTrigger.of(2)).aggregate(_Average())
    keys = KeyColumns.of([("origin", pa.string())])
    return SnapshotCodec(
        SnapshotLayout.for_windows(config, keys=keys, contents=_AverageColumns())
    ), _with_lives(_windows(config, 6_000))


def _sessions() -> tuple[SnapshotCodec, OperatorSnapshot]:
    builder = WindowOperatorBuilder(key_type("string"), EventTimeSessionWindows.with_gap(2 * SECOND))
    config = builder.trigger(ContinuousEventTimeTrigger.of(SECOND)).reduce(lambda a, b: (a, b))
    return SnapshotCodec(SnapshotLayout.for_windows(config)), _windows(config, 3_000)


def _remembering() -> tuple[SnapshotCodec, OperatorSnapshot]:
    config = WindowOperatorBuilder(key_type("string"), TumblingEventTimeWindows.of(SECOND)).process(
        _Remembering()
    )
    snapshot = _windows(config, 4_000)
    contents = [entry for entry in snapshot.entries if entry.state_name == "window-contents"]
    lives = tuple(
        OpenWindow(entry.key_group, entry.key, entry.namespace, WindowLife(1, 0, 1, None, 1, 2))
        for entry in contents
    )
    return SnapshotCodec(SnapshotLayout.for_windows(config)), OperatorSnapshot(
        snapshot.entries, snapshot.timers, 4_000, lives
    )


def _evicting() -> tuple[SnapshotCodec, OperatorSnapshot]:
    builder = WindowOperatorBuilder(key_type("string"), GlobalWindows.create()).trigger(CountTrigger.of(3))
    config = builder.evictor(CountEvictor.of(4)).reduce(max)
    return SnapshotCodec(SnapshotLayout.for_windows(config)), _windows(config, 0)


def _process() -> tuple[SnapshotCodec, OperatorSnapshot]:
    keys = key_type("tuple(string,date)")
    process = KeyedProcessOperator(_Departures(), keys, _Unread(), HarnessProcessingTimeService())
    process.open()
    for value in range(6):
        process.process_element((KEYS[value % 3], date(2013, 1, 1 + value % 2)), value, None)
    return SnapshotCodec(SnapshotLayout.for_process(keys, states=_STATES)), take_snapshot(process, ALL)


OPERATORS: dict[str, Callable[[], tuple[SnapshotCodec, OperatorSnapshot]]] = {
    "tumbling": _tumbling,
    "sessions": _sessions,
    "remembering": _remembering,
    "evicting": _evicting,
    "process": _process,
}


def content_of(snapshot: OperatorSnapshot) -> list[str]:
    """A line for each entry, timer and open window, in an order of their own; maps and the sessions of a key
    have none.
    """
    lines = []
    for entry in snapshot.entries:
        value = sorted(entry.value.items(), key=repr) if entry.kind == "map" else entry.value
        value = sorted(value) if entry.state_name == "merging-window-set" else value
        lines.append(
            f"{entry.kind} {entry.state_name} of {entry.key!r} {entry.namespace!r} in {entry.key_group}: "
            f"{value!r}"
        )
    for part in snapshot.timers:
        for domain, timers in (("event", part.event), ("processing", part.processing)):
            lines += [f"{part.service} {domain} {timer!r} in {part.key_group}" for timer in timers]
    lines += [repr(open_window) for open_window in snapshot.windows or ()]
    return sorted(lines)


def main() -> None:
    """Write this version's files. Refuses to replace a version that is there."""
    folder = FOLDER / f"v{FORMAT_VERSION}"
    if folder.exists():
        sys.exit(
            f"{folder.name} is there already, and what is there is test data; raise FORMAT_VERSION when the "
            "format changes"
        )
    for name, make in OPERATORS.items():
        codec, snapshot = make()
        folder_of_operator = folder / name
        folder_of_operator.mkdir(parents=True)
        for table, data in zip(SnapshotTables._fields, write_tables(codec.to_tables(snapshot)), strict=True):
            (folder_of_operator / f"{table}.parquet").write_bytes(data)
        (folder_of_operator / "content.json").write_text(
            json.dumps(content_of(snapshot), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
