"""Snapshots as open tables: operators' state as typed Arrow rows and back, for every engine and back end."""

from slackwater.windowing.errors import (
    PickleRefusedError,
    SnapshotError,
    SnapshotFormatError,
    SnapshotTimeError,
    SnapshotTimerError,
    SnapshotValueError,
    SnapshotVersionError,
)
from slackwater.windowing.snapshot.codec import SnapshotCodec
from slackwater.windowing.snapshot.columns import KeyColumns, WindowColumns
from slackwater.windowing.snapshot.content_hash import ContentHash, row_digests
from slackwater.windowing.snapshot.files import (
    FORMAT_VERSION,
    SnapshotTables,
    migrate,
    read_rows,
    read_tables,
    write_rows,
    write_tables,
)
from slackwater.windowing.snapshot.json_values import JsonValues
from slackwater.windowing.snapshot.layout import ContentsColumns, SnapshotLayout, WindowLayout
from slackwater.windowing.snapshot.list_pieces import PieceOrder
from slackwater.windowing.snapshot.times import times

__all__ = [
    "FORMAT_VERSION",
    "ContentHash",
    "ContentsColumns",
    "JsonValues",
    "KeyColumns",
    "PickleRefusedError",
    "PieceOrder",
    "SnapshotCodec",
    "SnapshotError",
    "SnapshotFormatError",
    "SnapshotLayout",
    "SnapshotTables",
    "SnapshotTimeError",
    "SnapshotTimerError",
    "SnapshotValueError",
    "SnapshotVersionError",
    "WindowColumns",
    "WindowLayout",
    "migrate",
    "read_rows",
    "read_tables",
    "row_digests",
    "times",
    "write_rows",
    "write_tables",
]
