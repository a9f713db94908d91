"""Recognises Parquet folders that belong to a table, whose files also hold deleted or replaced rows."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pyarrow.fs as pafs

from slackwater.errors import UsageError
from slackwater.tables.stores import filesystem


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
    for table, kind in (*_tables_within(uri, paths), *_tables_around(uri)):
        raise FolderIsTable(
            f"{uri} belongs to a table of {kind.name} ({table}), whose files also hold rows that were "
            f"deleted or replaced. {_way(table, kind)}",
            uri=uri,
            table=table,
        )


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
