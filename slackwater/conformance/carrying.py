"""Ways to carry snapshots through a restore of a case: in memory, or, as engines do between two runs, as rows
of the snapshot tables or files of them, so that the recorded traces test the snapshot codec too.
"""

from __future__ import annotations

from slackwater.conformance.operator_player import CarrySnapshots, in_memory
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot
from slackwater.windowing.snapshot import SnapshotCodec, SnapshotLayout, read_tables, write_tables
from slackwater.windowing.testing import KeyedProcess, Subject


def as_rows(
    subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
) -> list[OperatorSnapshot]:
    codec = _codec(subject, order_mode)
    return [codec.from_tables(codec.to_tables(snapshot)) for snapshot in snapshots]


def as_files(
    subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
) -> list[OperatorSnapshot]:
    """Through the bytes of Parquet files."""
    codec = _codec(subject, order_mode)
    return [
        codec.from_tables(*read_tables(write_tables(codec.to_tables(snapshot)))) for snapshot in snapshots
    ]


def _codec(subject: Subject, order_mode: OrderMode) -> SnapshotCodec:
    if isinstance(subject, KeyedProcess):
        return SnapshotCodec(SnapshotLayout.for_process(subject.key_type, order_mode=order_mode))
    return SnapshotCodec(SnapshotLayout.for_windows(subject, order_mode=order_mode))


CARRIERS: dict[str, CarrySnapshots] = {"memory": in_memory, "rows": as_rows, "files": as_files}
