"""Copies the last checkpoint of a log in an object store to a temporary folder, where delta-rs opens it, and
where it writes the next one:

    store      …09.checkpoint.parquet             …10.json …      …19.checkpoint.parquet   _last_checkpoint
                        |                             |                     ^
    folder     …09.checkpoint.parquet  --->  10.json … 19.json  --->  …19.checkpoint.parquet

In the store delta-rs asks for a checkpoint by ten requests, and for each commit since by two. A log whose
last checkpoint is not one file is left to it.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable

from slackwater.tables.delta.log_files import (
    HINT,
    LOG,
    NO_VERSION,
    checkpoint_path,
    commit_path,
    content_of,
    last_checkpoint,
)
from slackwater.tables.stores import filesystem


def open_at_checkpoint(uri: str) -> DeltaTable | None:
    """The table at `uri` as of its last checkpoint; None where that can't be copied. Raises OSError,
    DeltaError: storage failed, or it can't be read.
    """
    version = last_checkpoint(filesystem(uri)).version
    with _copy(uri, version) as folder:
        return None if folder is None else _open(folder, version)


def put_checkpoint(uri: str, commits: Mapping[int, bytes]) -> DeltaTable | None:
    """Put a checkpoint of the newest of `commits` (version → content) into the store; returns the table as of
    then. None where the last checkpoint can't be copied, or not all commits since are given. Raises OSError,
    DeltaError: that failed. Readers read the commits all the same.
    """
    store = filesystem(uri)
    last, newest = last_checkpoint(store).version, max(commits)
    if not commits.keys() >= set(range(last + 1, newest + 1)):
        return None
    with _copy(uri, last) as folder:
        if folder is None:
            return None
        for version in range(last + 1, newest + 1):
            (folder / commit_path(version)).write_bytes(commits[version])
        DeltaTable(str(folder), version=newest).create_checkpoint()
        for path in (checkpoint_path(newest), HINT):
            with store.open_output_stream(path) as stream:
                stream.write((folder / path).read_bytes())
        return _open(folder, newest)


@contextmanager
def _copy(uri: str, version: int) -> Iterator[Path | None]:
    """A folder with a copy of the checkpoint of `version`, which is removed where the block fails; None where
    there is no such file.
    """
    path = checkpoint_path(version)
    content = None if version == NO_VERSION else content_of(filesystem(uri), path)
    if content is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="slackwater-log-"))
    try:
        (folder / LOG).mkdir()
        (folder / path).write_bytes(content)
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _open(folder: Path, version: int) -> DeltaTable:
    """The table as of `version`; the folder is removed with it."""
    table = DeltaTable(str(folder), version=version)
    weakref.finalize(table, shutil.rmtree, folder, ignore_errors=True)
    return table
