"""The rows of a ledger's files. A process reads each file once: a file that a log names never changes, and
one that somebody has changed all the same is told by its size and time.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

from slackwater.jobs.tables.delta.concurrency import map_concurrently
from slackwater.jobs.tables.delta.parquet import read_small_file
from slackwater.jobs.tables.delta.stored_files import StoredFiles
from slackwater.jobs.tables.file_relations import is_local
from slackwater.jobs.tables.ledger.rows import LedgerRow

# A year of daily runs is 365 files, of one row each.
_MOST_FILES = 20_000


class _Identity(NamedTuple):
    """What tells a file from all others. Of an object store, which gives no other file the name of one, it
    is the name.
    """

    uri: str
    path: str
    size: int | None
    mtime_ns: int | None


_ROWS: dict[_Identity, tuple[LedgerRow, ...]] = {}


def rows_of_files(files: StoredFiles) -> list[LedgerRow]:
    """All rows of the files, in the order of their seqs.

    Raises:
        DamagedFile: a file is not what was written, or is not there.
        NewerFormat: a row was written by a newer version of the product.
    """
    identities = _identities(files)
    rows_by_file = {identity: rows for identity in identities if (rows := _ROWS.get(identity)) is not None}
    new_files = [identity for identity in identities if identity not in rows_by_file]
    if new_files:
        paths = [identity.path for identity in new_files]
        rows_by_file.update(zip(new_files, _read(files, paths), strict=True))
        if len(_ROWS) + len(new_files) > _MOST_FILES:
            _ROWS.clear()
        _ROWS.update({identity: rows_by_file[identity] for identity in new_files})
    return sorted((row for rows in rows_by_file.values() for row in rows), key=attrgetter("seq"))


def _identities(files: StoredFiles) -> list[_Identity]:
    if not is_local(files.uri):
        return [_Identity(files.uri, path, None, None) for path in files.paths]
    infos = files.folder.get_file_info(files.paths)
    return [
        _Identity(files.uri, path, info.size, info.mtime_ns)
        for path, info in zip(files.paths, infos, strict=True)
    ]


def _read(files: StoredFiles, paths: Sequence[str]) -> Iterator[tuple[LedgerRow, ...]]:
    def table_of(path: str) -> pa.Table:
        return _table_of(files, path)

    for rows in map_concurrently(table_of, paths) if len(paths) > 1 else map(table_of, paths):
        yield tuple(LedgerRow.of_values(values) for values in rows.to_pylist())


def _table_of(files: StoredFiles, path: str) -> pa.Table:
    try:
        rows = read_small_file(files.uri, files.folder, path)
    except FileNotFoundError:
        rows = None
    if rows is None or (rows.schema.names, rows.schema.types) != (files.schema.names, files.schema.types):
        # It is of an earlier format, or missing, which this says as it should be said.
        return files.among([path]).read(files.schema.names)
    return rows
