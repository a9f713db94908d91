"""The rows of a ledger's files. A process reads each file once: a file that a log names never changes, and
one that somebody has changed all the same is told by its size and time.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import NamedTuple

from slackwater.jobs.tables.delta.parquet import open_verified
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
    unread = [identity for identity in identities if identity not in _ROWS]
    if unread:
        while len(_ROWS) > max(0, _MOST_FILES - len(unread)):
            _ROWS.pop(next(iter(_ROWS)), None)
        _ROWS.update(zip(unread, _read(files, [identity.path for identity in unread]), strict=True))
    rows = (row for identity in identities for row in _ROWS.get(identity) or _read_one(files, identity.path))
    return sorted(rows, key=attrgetter("seq"))


def _identities(files: StoredFiles) -> list[_Identity]:
    if not is_local(files.uri):
        return [_Identity(files.uri, path, None, None) for path in files.paths]
    found = files.folder.get_file_info(files.paths)
    return [
        _Identity(files.uri, path, info.size, info.mtime_ns)
        for path, info in zip(files.paths, found, strict=True)
    ]


def _read(files: StoredFiles, paths: Sequence[str]) -> Iterable[tuple[LedgerRow, ...]]:
    if len(paths) == 1:
        return [_read_one(files, paths[0])]
    with ThreadPoolExecutor(os.cpu_count() or 1, "ledger") as threads:
        return list(threads.map(lambda path: _read_one(files, path), paths))


def _read_one(files: StoredFiles, path: str) -> tuple[LedgerRow, ...]:
    try:
        with open_verified(files.uri, files.folder, path) as parquet:
            rows = parquet.read(use_threads=False)
    except FileNotFoundError:
        rows = None
    if rows is None or (rows.schema.names, rows.schema.types) != (files.schema.names, files.schema.types):
        # It is of an earlier format, or missing, which this says as it should be said.
        rows = files.among([path]).read(files.schema.names)
    return tuple(LedgerRow.of_values(values) for values in rows.to_pylist())
