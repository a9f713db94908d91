"""Snapshot rows as Parquet bytes, with the format's version in each file. Sorted rows keep files small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.windowing.errors import SnapshotFormatError, SnapshotVersionError
from slackwater.windowing.snapshot.times import TIME

# A change of the format raises the version, adds its step to STEPS and keeps a snapshot of the version before
# as test data.
FORMAT_VERSION: Final = 1


class SnapshotTables(NamedTuple):
    window_state: pa.Table
    keyed_state: pa.Table
    timers: pa.Table


Step = Callable[[SnapshotTables], SnapshotTables]

# Version → the step from it to the next.
STEPS: Final[Mapping[int, Step]] = {}


def migrate(
    tables: SnapshotTables, version: int, steps: Mapping[int, Step] = STEPS, target: int = FORMAT_VERSION
) -> SnapshotTables:
    """`tables` of format `version` in the format `target`. Raises SnapshotVersionError for a newer version or
    a missing step.
    """
    if version > target:
        raise SnapshotVersionError(
            f"The snapshot is of format {version}, this release reads up to {target}. Install the release "
            "that wrote it, or a newer one.",
            version=version,
            supported=target,
        )
    for step in range(version, target):
        if step not in steps:
            raise SnapshotVersionError(
                f"The snapshot is of format {version}, and no step leads from {step} to {step + 1}. Restore "
                "it with an earlier release.",
                version=version,
                supported=target,
            )
        tables = steps[step](tables)
    return tables


_VERSION: Final = b"slackwater.snapshot.format"
_DIFFERENCE_ENCODINGS: Final = {
    **dict.fromkeys(
        (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), TIME), "DELTA_BINARY_PACKED"
    ),
    pa.string(): "DELTA_BYTE_ARRAY",
}


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Options of `pyarrow.parquet.write_table` for rows of a snapshot: encodings that every Delta reader
    knows.

    Sorted keys and arrivals, whose values hardly repeat, are delta-encoded, other columns dictionary-encoded.
    Row groups are so small that a range of key groups reads few rows of others.
    """
    differences = {
        name: encoding
        for name in _columns_with_differences(schema)
        if (encoding := _DIFFERENCE_ENCODINGS.get(schema.field(name).type))
    }
    return {
        "compression": "snappy",
        "row_group_size": 1 << 17,
        "use_dictionary": [name for name in schema.names if name not in differences],
        "column_encoding": differences,
        "write_page_checksum": True,
    }


def _columns_with_differences(schema: pa.Schema) -> list[str]:
    """The delta-encoded columns: arrivals, and key columns, which precede those of the state or window."""
    names = schema.names
    first_owned_column = names.index("state_name" if "state_name" in names else "window_start")
    return [
        *names[names.index("key_group") + 1 : first_owned_column],
        *(name for name in ("first_arrival", "last_arrival") if name in names),
    ]


def write_rows(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    rows_with_version = rows.replace_schema_metadata({_VERSION: str(FORMAT_VERSION).encode()})
    pq.write_table(rows_with_version, sink, **parquet_options(rows.schema))
    return sink.getvalue()


def read_rows(data: Any) -> tuple[pa.Table, int]:
    """The rows of `write_rows` and their format version; SnapshotFormatError if the file has none."""
    rows = pq.read_table(pa.BufferReader(data), use_threads=False, page_checksum_verification=True)
    metadata = rows.schema.metadata or {}
    if _VERSION not in metadata:
        raise SnapshotFormatError("The file does not say which format of snapshots it has; it is not one.")
    return rows.replace_schema_metadata(None), int(metadata[_VERSION])


def write_tables(tables: SnapshotTables) -> tuple[pa.Buffer, ...]:
    return tuple(write_rows(rows) for rows in tables)


def read_tables(files: tuple[Any, ...]) -> tuple[SnapshotTables, int]:
    """The inverse of `write_tables`, with the version. SnapshotFormatError for files of several versions."""
    tables_and_versions = [read_rows(data) for data in files]
    versions = {version for _, version in tables_and_versions}
    if len(versions) > 1:
        raise SnapshotFormatError(
            f"The files of one snapshot have the formats {', '.join(map(str, sorted(versions)))}."
        )
    return SnapshotTables(*(rows for rows, _ in tables_and_versions)), versions.pop()
