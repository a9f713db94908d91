"""Snapshot rows as Parquet bytes and back. The format's version stands in each file's metadata.

Sorted rows make the encodings small and let a reader skip key groups; where the bytes go is the caller's business.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from windowing.state.snapshot.errors import SnapshotFormatError
from windowing.state.snapshot.versions import FORMAT_VERSION, SnapshotTables

_VERSION: Final = b"slackwater.snapshot.format"


def write_rows(rows: pa.Table) -> pa.Buffer:
    """One table of a snapshot as a Parquet file."""
    sink = pa.BufferOutputStream()
    marked = rows.replace_schema_metadata({_VERSION: str(FORMAT_VERSION).encode()})
    pq.write_table(marked, sink, **PARQUET)
    return sink.getvalue()


def read_rows(data: Any) -> tuple[pa.Table, int]:
    """The rows of `write_rows` and the version of their format. Raises SnapshotFormatError for a file without one."""
    rows = pq.read_table(pa.BufferReader(data), use_threads=False)
    metadata = rows.schema.metadata or {}
    if _VERSION not in metadata:
        raise SnapshotFormatError("The file does not say which format of snapshots it has; it is not one.")
    return rows.replace_schema_metadata(None), int(metadata[_VERSION])


def write_tables(tables: SnapshotTables) -> tuple[pa.Buffer, ...]:
    """A file a table."""
    return tuple(write_rows(rows) for rows in tables)


def read_tables(files: tuple[Any, ...]) -> tuple[SnapshotTables, int]:
    """The inverse of `write_tables`, with the version. Raises SnapshotFormatError when the files are of several versions."""
    read = [read_rows(data) for data in files]
    versions = {version for _, version in read}
    if len(versions) > 1:
        raise SnapshotFormatError(f"The files of one snapshot have the formats {', '.join(map(str, sorted(versions)))}.")
    return SnapshotTables(*(rows for rows, _ in read)), versions.pop()


PARQUET: Final[dict[str, Any]] = {"compression": "zstd", "compression_level": 1}
