"""The list of a folder's Parquet files as a run finds it: which of them count, and what is recorded of each.

A file counts when its name ends in ``.parquet`` and no part of its path begins with ``_`` or ``.``, as files
do that are still being written. It is known by its path and its SHA-256; a file of the same size and time as
at the last look is not read again. A folder whose files belong to a table is refused: they also hold rows
that were deleted or replaced.
"""

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import Schema

from slackwater.errors import RetryableError, UsageError
from slackwater.tables.delta.parquet import damaged_file
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem, map_concurrently

SUFFIX = ".parquet"
_PIECE_BYTES = 1 << 20
# A file that can't be read and is younger than this may still be written.
_MAY_BE_UNFINISHED_S = 600
TIME = pa.timestamp("us", tz="UTC")
_TO_MICROSECONDS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_TO_MICROSECONDS["day"] = (86_400_000_000, 1)


class NoFolder(UsageError):
    """There is no folder where a source should be."""


class FileUnfinished(RetryableError):
    """A file of the folder is being written. Facts: uri, path."""


class ListedFile(NamedTuple):
    """One file of a folder; `schema` is as `columns_of` writes it.

    Attributes:
        bounds: JSON: time or integer column → [least, greatest, nulls]; times in µs, None if not known.
    """

    path: str
    digest: str
    bytes: int
    modified_ns: int
    rows: int
    bounds: str
    schema: str


def list_files(uri: str, files_before: Mapping[str, ListedFile]) -> dict[str, ListedFile]:
    """Path → each file of the folder at `uri`; `files_before` with equal size and time stay as they are.
    Raises NoFolder, FolderIsTable, FileUnfinished, DamagedFile.
    """
    folder = filesystem(uri)
    try:
        with reads(uri):
            infos = [
                info for info in folder.get_file_info(pafs.FileSelector("", recursive=True)) if info.is_file
            ]
    except FileNotFoundError as error:
        raise NoFolder(
            f"there is no folder at {uri}. Write Parquet files into it first, or mend ParquetSource(...).",
            uri=uri,
        ) from error

    refuse_files_of_table(uri, [info.path for info in infos])
    infos = [info for info in infos if _counts(info.path)]

    def look_at(info: pafs.FileInfo) -> ListedFile:
        before = files_before.get(info.path)
        if before is not None and (before.bytes, before.modified_ns) == (info.size, info.mtime_ns):
            return before
        return _read_file(uri, folder, info)

    return {file.path: file for file in map_concurrently(look_at, sorted(infos, key=lambda info: info.path))}


def digest_of(folder: pafs.FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    with folder.open_input_stream(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _counts(path: str) -> bool:
    return path.endswith(SUFFIX) and not any(part.startswith(("_", ".")) for part in path.split("/"))


def _read_file(uri: str, folder: pafs.FileSystem, info: pafs.FileInfo) -> ListedFile:
    path = info.path
    try:
        with reads(f"{uri}/{path}"), folder.open_input_file(path) as data:
            footer = pq.ParquetFile(data).metadata
        digest = digest_of(folder, path)
    except pa.ArrowInvalid as error:
        if time.time() - info.mtime_ns / 1e9 < _MAY_BE_UNFINISHED_S:
            raise _unfinished_file(uri, path) from error
        raise damaged_file(
            uri,
            path,
            f"it is no Parquet file, or not all of it ({error}). Take it out of the folder, or put a "
            "whole one in its place",
        ) from error
    after = folder.get_file_info(path)
    if (after.size, after.mtime_ns) != (info.size, info.mtime_ns):
        raise _unfinished_file(uri, path)
    schema = columns_as_stored(footer.schema.to_arrow_schema())
    return ListedFile(
        path=path,
        digest=digest,
        bytes=info.size,
        modified_ns=info.mtime_ns,
        rows=footer.num_rows,
        bounds=json.dumps(_bounds(footer, schema), sort_keys=True),
        schema=base64.b64encode(schema.serialize().to_pybytes()).decode(),
    )


def _unfinished_file(uri: str, path: str) -> FileUnfinished:
    return FileUnfinished(
        f"{uri}: the file {path} is being written. Repeat the command when it is whole; files that are "
        "written under a name with '_' or '.' in front and renamed at the end are not looked at before.",
        uri=uri,
        path=path,
    )


@lru_cache(maxsize=1024)
def columns_of(schema: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))


def columns_as_stored(schema: pa.Schema) -> pa.Schema:
    """The columns that a table of ours can hold. Times without a zone are UTC."""
    fields = []
    for column in schema:
        field = pa.field(column.name, _plain_type(column.type))
        try:
            Schema.from_arrow(pa.schema([field]))
        except Exception:  # noqa: BLE001 - delta-rs raises errors of any class for types that Delta lacks
            continue
        fields.append(field)
    return pa.schema(fields)


_PLAIN_TYPES = {
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return TIME if pa.types.is_timestamp(kind) else _PLAIN_TYPES.get(kind, kind)


def _bounds(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, list[int | None]]:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    kinds = {column.name: column.type for column in footer.schema.to_arrow_schema()}
    bounds: dict[str, list[int | None]] = {}
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        if name not in schema.names or not _has_bounds(schema.field(name).type):
            continue
        chunks = [group.column(place).statistics for group in groups if group.num_rows]
        bounds[name] = bounds_of_chunks(chunks, kinds[name])
    return bounds


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def bounds_of_chunks(chunks: list[Any], kind: pa.DataType) -> list[int | None]:
    """[least, greatest, nulls] of a column over row groups with rows; times in µs, None: not known."""
    if any(chunk is None or not chunk.has_null_count for chunk in chunks):
        return [None, None, None]
    nulls = sum(chunk.null_count for chunk in chunks)
    full = [chunk for chunk in chunks if chunk.num_values]  # others hold nulls alone
    if not full or any(not chunk.has_min_max or not isinstance(chunk.min_raw, int) for chunk in full):
        return [None, None, nulls]
    least, greatest = min(chunk.min_raw for chunk in full), max(chunk.max_raw for chunk in full)
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        factor, divisor = _TO_MICROSECONDS[kind.unit if pa.types.is_timestamp(kind) else "day"]
        least, greatest = least * factor // divisor, greatest * factor // divisor
    return [least, greatest, nulls]


class FolderIsTable(UsageError):
    """A folder that was declared as one of plain Parquet files belongs to a table. Facts: uri, table."""


class _Format(NamedTuple):
    name: str
    folder: str  # of its metadata, in the table's folder
    suffix: str  # of the metadata's files


_FORMATS = (
    _Format("Delta", "_delta_log", ""),
    _Format("Iceberg", "metadata", ".metadata.json"),
    _Format("Hudi", ".hoodie", ""),
)


def refuse_files_of_table(uri: str, paths: Iterable[str]) -> None:
    """Raise FolderIsTable if the folder with files of these `paths` is a table's, or part of one."""
    for table, kind in _tables_with_files(uri, paths):
        raise FolderIsTable(
            f"{uri} belongs to a table of {kind.name} ({table}), whose files also hold rows that were "
            f"deleted or replaced. {_way(table, kind)}",
            uri=uri,
            table=table,
        )


def tables_with_files(uri: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(the folder, the format) of each table that the folder with files of these `paths` is, is a part of, or
    has within; once for each file of its metadata.
    """
    for table, kind in _tables_with_files(uri, paths):
        yield table, kind.name


def _tables_with_files(uri: str, paths: Iterable[str]) -> Iterator[tuple[str, _Format]]:
    yield from _tables_within(uri, paths)
    yield from _tables_around(uri)


def _way(table: str, kind: _Format) -> str:
    if kind.name == "Delta":
        return f'Declare DeltaSource("{table}", …) instead of ParquetSource(…).'
    return (
        f"Slackwater reads no {kind.name}: write its rows into a Delta table (with Spark: CREATE TABLE … "
        "USING delta AS SELECT …; later rows by INSERT), and declare that by DeltaSource(…)."
    )


def _tables_within(uri: str, paths: Iterable[str]) -> Iterator[tuple[str, _Format]]:
    for path in paths:
        *parents, name = path.split("/")
        for kind in _FORMATS:
            if kind.folder in parents and name.endswith(kind.suffix):
                inner = parents[: parents.index(kind.folder)]
                yield "/".join((uri.rstrip("/"), *inner)), kind


def _tables_around(uri: str) -> Iterator[tuple[str, _Format]]:
    """Tables that have the folder at `uri` for one of their partitions, or for that of their data files."""
    above = uri.rstrip("/")
    while "=" in above.rpartition("/")[2]:
        above = above.rpartition("/")[0]
    folders = [above] if above != uri.rstrip("/") else []
    parent = above.rpartition("/")[0]
    if parent.rpartition("/")[2]:  # else it is the root of a file system or a store
        folders.append(parent)
    for folder in folders:
        for kind in _FORMATS:
            # A folder above may be closed to whoever reads this one.
            with suppress(OSError):
                infos = filesystem(folder).get_file_info(pafs.FileSelector(kind.folder, allow_not_found=True))
                if any(info.is_file and info.path.endswith(kind.suffix) for info in infos):
                    yield folder, kind
