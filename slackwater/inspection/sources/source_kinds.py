"""What there is at a place: a table of some format, a folder of files, a single file, or nothing. Of the
files it reads names alone; the columns of a Delta or Iceberg table are in its metadata.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import pyarrow.fs as pafs

from slackwater.engine.source.file_list import tables_with_files
from slackwater.errors import UsageError
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.table_handles import newest_table
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

_METADATA = re.compile(r"(?:v|0*)(\d+).*\.metadata\.json")
_MOST_NAMES = 5


class NothingThere(UsageError):
    """There is nothing at a place, or nothing that is known. Facts: uri."""


class SourceFormat(Enum):
    DELTA = "Delta"
    ICEBERG = "Iceberg"
    HUDI = "Hudi"
    PARQUET = "Parquet"
    JSON = "JSON"
    CSV = "CSV"
    AVRO = "Avro"
    ORC = "ORC"


# Compressed files have one more ending; `.json` may hold lines or one array.
_ENDINGS = {
    **dict.fromkeys(("parquet", "parq", "pq"), SourceFormat.PARQUET),
    **dict.fromkeys(("json", "jsonl", "ndjson"), SourceFormat.JSON),
    **dict.fromkeys(("csv", "tsv"), SourceFormat.CSV),
    "avro": SourceFormat.AVRO,
    "orc": SourceFormat.ORC,
}
_COMPRESSIONS = ("gz", "bz2", "zst")


@dataclass(frozen=True)
class DataFile:
    """A file below the folder, by its path in it; `modified_ms` is when it was written."""

    path: str
    bytes: int
    modified_ms: int


@dataclass(frozen=True, kw_only=True)
class SourcePlace:
    """What is at a place.

    Attributes:
        uri: the folder of the table or files.
        is_file: whether a single file of it was location for.
        files: the data files, oldest first; those of a Delta table are in its log.
        table: the Delta table.
        notes: sentences on what else is there, or was location for.
    """

    uri: str
    format: SourceFormat
    is_file: bool = False
    files: Sequence[DataFile] = ()
    table: OpenTable | None = None
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        if self.format in (SourceFormat.DELTA, SourceFormat.ICEBERG, SourceFormat.HUDI):
            return f"{self.format.value} table"
        if self.is_file:
            return f"{self.format.value} file"
        return f"folder of {self.format.value} files"


def place_at(uri: str) -> SourcePlace:
    """What is at `uri`. Raises NothingThere; LogDamaged and others: see `newest_table`."""
    uri = uri.rstrip("/") or uri
    file = _single_file(uri)
    if file is not None:
        folder = uri.rpartition("/")[0] or "/"
        table = newest_table(folder)
        if table is not None:
            note = f"{uri} is a file of it; this is the whole table."
            return SourcePlace(uri=folder, format=SourceFormat.DELTA, table=table, notes=(note,))
        return _place_of_files(uri, folder, [file], is_file=True)
    table = newest_table(uri)
    if table is not None:
        return SourcePlace(uri=uri, format=SourceFormat.DELTA, table=table)
    try:
        with reads(uri):
            infos = filesystem(uri).get_file_info(pafs.FileSelector("", recursive=True))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NothingThere(
            f"{uri}: there is nothing here. Give the folder of a table or of files, or a file: a path, one "
            "relative to the warehouse, or a URI.",
            uri=uri,
        ) from error
    files = [_data_file(info) for info in infos if info.is_file]
    return _place_of_files(uri, uri, files, is_file=False)


def format_of(path: str) -> SourceFormat | None:
    endings = path.rpartition("/")[2].lower().split(".")[1:]
    if endings and endings[-1] in _COMPRESSIONS:
        endings.pop()
    return _ENDINGS.get(endings[-1]) if endings else None


def _single_file(uri: str) -> DataFile | None:
    folder, _, name = uri.rpartition("/")
    if not folder or folder.endswith(":/"):
        return None
    with suppress(OSError), reads(uri):
        info = filesystem(folder).get_file_info(name)
        if info.is_file:
            return _data_file(info)
    return None


def _data_file(info: pafs.FileInfo) -> DataFile:
    return DataFile(info.path, info.size or 0, (info.mtime_ns or 0) // 1_000_000)


def _place_of_files(location: str, folder: str, files: Sequence[DataFile], *, is_file: bool) -> SourcePlace:
    owners = dict.fromkeys(tables_with_files(folder, [file.path for file in files]))
    for owner, name in owners:
        if folder == owner or folder.startswith(f"{owner}/"):
            note = () if location == owner else (f"{location} is a part of it; this is the whole table.",)
            return _place_of_table(owner, SourceFormat(name), note)
    if owners:
        names = ", ".join(f"{owner} ({name})" for owner, name in [*owners][:_MOST_NAMES])
        raise NothingThere(
            f"{location}: there are tables below this folder: {names}. Look at one of them: "
            f"slackwater sources look {next(iter(owners))[0]}",
            uri=location,
        )
    formats = Counter(
        kind for file in files if not _is_hidden(file.path) and (kind := format_of(file.path)) is not None
    )
    if not formats:
        raise NothingThere(_nothing_known(location, files), uri=location)
    [(chosen, _), *others] = formats.most_common()
    notes = [f"There are also {count:,} {kind.value} files, which are left out." for kind, count in others]
    chosen_files = [file for file in files if format_of(file.path) == chosen and not _is_hidden(file.path)]
    return SourcePlace(
        uri=folder,
        format=chosen,
        is_file=is_file,
        files=sorted(chosen_files, key=lambda file: (file.modified_ms, file.path)),
        notes=tuple(notes),
    )


def _place_of_table(uri: str, kind: SourceFormat, notes: tuple[str, ...]) -> SourcePlace:
    if kind is SourceFormat.DELTA:
        return SourcePlace(uri=uri, format=kind, table=newest_table(uri), notes=notes)
    infos = filesystem(uri).get_file_info(pafs.FileSelector("", recursive=True))
    files = [
        _data_file(info)
        for info in infos
        if info.is_file and format_of(info.path) is SourceFormat.PARQUET and not _is_hidden(info.path)
    ]
    return SourcePlace(
        uri=uri, format=kind, files=sorted(files, key=lambda file: (file.modified_ms, file.path)), notes=notes
    )


def _nothing_known(uri: str, files: Sequence[DataFile]) -> str:
    known_kinds = "Parquet, JSON, CSV, Avro or ORC, or a table of Delta, Iceberg or Hudi"
    if not files:
        return f"{uri}: the folder is empty. Give one that holds files of {known_kinds}."
    names = ", ".join(file.path for file in files[:_MOST_NAMES])
    more = f" and {len(files) - _MOST_NAMES:,} more" if len(files) > _MOST_NAMES else ""
    return f"{uri}: no file here is of a known kind ({names}{more}). Give one of {known_kinds}."


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def iceberg_columns(uri: str) -> list[tuple[str, str]]:
    """(name, type as Iceberg writes it) of each column by the newest metadata; empty: there is none."""
    folder = filesystem(uri)
    infos = folder.get_file_info(pafs.FileSelector("metadata", allow_not_found=True))
    versions = [
        (int(match[1]), info.path)
        for info in infos
        if (match := _METADATA.fullmatch(info.path.rpartition("/")[2])) is not None
    ]
    if not versions:
        return []
    with folder.open_input_stream(max(versions)[1]) as stream:
        metadata = json.loads(stream.read())
    schemas = metadata.get("schemas") or [metadata.get("schema") or {}]
    current = metadata.get("current-schema-id")
    schema = next((one for one in schemas if one.get("schema-id") == current), schemas[-1])
    return [
        (field["name"], field["type"] if isinstance(field["type"], str) else field["type"]["type"])
        for field in schema.get("fields", ())
    ]
