"""Operators whose snapshots the tests of this folder turn into rows, and what such rows are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from slackwater.windowing import (
    AggregateFunction,
    ProcessWindowFunction,
)
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of
from slackwater.windowing.key_types import STRING, key_type
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, take_snapshot
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import (
    ContentsColumns,
    SnapshotCodec,
    SnapshotTables,
)

ALL = KeyGroupRange(0, 127)
MINUTE = timedelta(minutes=1)
GROUP_A = key_group_of("a", STRING, 128)


def at(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


class Discarding:
    """An output that nobody reads."""

    def collect(self, *row: Any) -> None: ...

    def late(self, *row: Any) -> None: ...

    def side(self, *row: Any) -> None: ...


class SumAndCount(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[0]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0], a[1] + b[1])


class SumAndCountColumns(ContentsColumns):
    columns = (("v__sum", pa.int64()), ("v__count", pa.int64()))
    is_commutative = True

    def arrays(self, contents: Sequence[tuple[int, int] | None]) -> list[pa.Array]:
        return [
            pa.array([None if parts is None else parts[i] for parts in contents], pa.int64())
            for i in range(2)
        ]

    def texts(self, contents: Sequence[tuple[int, int] | None]) -> list[str | None]:
        return [None] * len(contents)

    def values(self, rows: pa.Table) -> list[tuple[int, int]]:
        return list(zip(rows.column("v__sum").to_pylist(), rows.column("v__count").to_pylist(), strict=True))


class Elements(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return [list(elements)]


def builder(assigner: Any, keys: str = "string") -> WindowOperatorBuilder:
    return WindowOperatorBuilder(key_type(keys), assigner)


def snapshot_of(config: WindowOperatorConfig, *steps: Any) -> OperatorSnapshot:
    """Steps are (key, value, timestamp) for an element, or a watermark."""
    windows = WindowOperator(config, Discarding(), HarnessProcessingTimeService())
    windows.open()
    for step in steps:
        if isinstance(step, int):
            windows.process_watermark(step)
        else:
            windows.process_element(*step)
    snapshot = take_snapshot(windows, ALL)
    windows.close()
    return snapshot


class OneTick(NamedTuple):
    """A timeline in which one watermark rises at one moment."""

    initial: int
    tick_ends: Any
    watermarks: Any
    collected_mark: int = LONG_MIN


class Numbers(list[int]):
    tolist = list.copy


def run_of(
    config: WindowOperatorConfig,
    elements: Iterable[tuple[str, Any, int, int]],
    to_ms: int,
    *rises: tuple[int, int],
) -> OperatorSnapshot:
    """A run over [0, to_ms): elements are (key, value, timestamp, arrival), rises (tick end, watermark)."""
    timeline = OneTick(
        -(2**63), Numbers(end for end, _ in rises), Numbers(watermark for _, watermark in rises)
    )
    runner = KeyGroupRunner(
        config,
        key_groups=ALL,
        max_parallelism=128,
        order_mode=OrderMode.ROCKSDB,
        timeline=timeline,
        from_ms=0,
    )
    for element in elements:
        runner.process_element(*element)
    runner.finish(to_ms)
    return runner.snapshot()


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows without the columns that are null."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def entries_of(snapshot: OperatorSnapshot) -> list[str]:
    """Without an order, also of what is in a map."""
    maps = [
        entry._replace(value=sorted(entry.value.items())) if entry.kind == "map" else entry
        for entry in snapshot.entries
    ]
    return sorted(map(repr, maps))


def assert_comes_back(codec: SnapshotCodec, snapshot: OperatorSnapshot) -> None:
    tables = codec.to_tables(snapshot)
    assert [table.schema for table in tables] == [codec.schemas[name] for name in SnapshotTables._fields]
    restored_snapshot = codec.from_tables(tables)
    assert entries_of(restored_snapshot) == entries_of(snapshot)
    assert sorted(restored_snapshot.timers, key=repr) == sorted(snapshot.timers, key=repr)
    assert sorted(restored_snapshot.windows or (), key=repr) == sorted(snapshot.windows or (), key=repr)
    tables_again = codec.to_tables(restored_snapshot)
    assert list(tables_again) == list(tables)
