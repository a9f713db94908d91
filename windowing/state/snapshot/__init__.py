"""Snapshots as open tables: what operators remember, as typed Arrow rows and back, the same for every engine
and state back end.
"""

from slackwater.windowing.state.snapshot.codec import SnapshotCodec
from slackwater.windowing.state.snapshot.content_hash import ContentHash, row_digests
from slackwater.windowing.state.snapshot.errors import (
    PickleRefusedError,
    SnapshotError,
    SnapshotFormatError,
    SnapshotTimeError,
    SnapshotValueError,
    SnapshotVersionError,
)
from slackwater.windowing.state.snapshot.files import read_rows, read_tables, write_rows, write_tables
from slackwater.windowing.state.snapshot.json_values import JsonValues
from slackwater.windowing.state.snapshot.key_columns import KeyColumns
from slackwater.windowing.state.snapshot.layout import ContentsColumns, SnapshotLayout, WindowLayout
from slackwater.windowing.state.snapshot.times import bounds, times
from slackwater.windowing.state.snapshot.versions import FORMAT_VERSION, SnapshotTables, migrate

__all__ = [
    "FORMAT_VERSION",
    "ContentHash",
    "ContentsColumns",
    "JsonValues",
    "KeyColumns",
    "PickleRefusedError",
    "SnapshotCodec",
    "SnapshotError",
    "SnapshotFormatError",
    "SnapshotLayout",
    "SnapshotTables",
    "SnapshotTimeError",
    "SnapshotValueError",
    "SnapshotVersionError",
    "WindowLayout",
    "bounds",
    "migrate",
    "read_rows",
    "read_tables",
    "row_digests",
    "times",
    "write_rows",
    "write_tables",
]
