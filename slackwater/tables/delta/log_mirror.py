"""A copy of a Delta log of an object store in a folder of this machine, from which delta-rs opens the table.

To open a table delta-rs lists its log and reads each commit twice, and all of that once more for a
checkpoint. Here a log is read by the names of its files, each once: where the last checkpoint is, the
checkpoint, the commits since. Where somebody has recorded a version of the table, the names follow from it,
and the files are read at once, if that commit does not carry them (`carried_log`). With later commits put
beside them a checkpoint is two puts:

    store   _last_checkpoint   …09.checkpoint.parquet   …10.json   …11.json
                   |                     |                  |          |
    mirror  _last_checkpoint   …09.checkpoint.parquet   …10.json   …11.json   --->  DeltaTable

A log with a checkpoint in several files, or that begins elsewhere, is for delta-rs alone.
"""

import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from slackwater.tables.delta.concurrency import map_concurrently
from slackwater.tables.delta.log_files import (
    HINT,
    LOG,
    NO_VERSION,
    Checkpoint,
    check_commit,
    commit_path,
    content_of,
    hint_behind,
)
from slackwater.tables.stores import filesystem

# A process that opens a table reads the commits since the last checkpoint, one request each where none of
# them carries the others; a checkpoint is two. Processes that make one commit each make the fewest requests
# with few commits between checkpoints.
CHECKPOINT_INTERVAL = 3


class _Folder:
    """A folder for as long as somebody has this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="slackwater-log-"))
        (self.path / LOG).mkdir()
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class LogMirror:
    """The copy of the log of the table at `uri`, up to a version. It is deleted with this object.

    Attributes:
        uri: the table's folder.
        checkpoint_version: of the last checkpoint; NO_VERSION where there is none. It is read when the table
            is opened.
        commits: the contents of the commits since.
    """

    uri: str
    checkpoint_version: int
    commits: tuple[bytes, ...]
    _folder: _Folder = field(default_factory=_Folder, repr=False, compare=False)

    @property
    def version(self) -> int:
        return self.checkpoint_version + len(self.commits)

    @classmethod
    def of(cls, uri: str) -> "LogMirror | None":
        """Read the log of the table at `uri`; None where it can't be read by the names of its files.

        Raises:
            OSError: storage failed.
            LogDamaged: a commit is empty, cut off or changed.
        """
        store, folder, commits = filesystem(uri), _Folder(), list[bytes]()
        version, hint = NO_VERSION, content_of(store, HINT)
        if hint is not None:
            checkpoint = json.loads(hint)
            version = checkpoint["version"]
            content = content_of(store, _checkpoint_path(version))
            if content is None or checkpoint.keys() & {"parts", "v2Checkpoint"}:
                return None
            (folder.path / HINT).write_bytes(hint)
            (folder.path / _checkpoint_path(version)).write_bytes(content)
        while (content := content_of(store, path := commit_path(version + len(commits) + 1))) is not None:
            check_commit(uri, path, content)
            commits.append(content)
        mirror = cls(uri, version, tuple(commits), folder)
        return None if mirror.version == NO_VERSION else mirror

    @classmethod
    def between(cls, uri: str, version: int, newest: bytes) -> "LogMirror | None":
        """Read the log of the table at `uri` up to `version`, whose commit has the content `newest`; None
        where a file is not there, such as a checkpoint that nobody has written.

        Raises:
            OSError, LogDamaged: see `of`.
        """
        checkpoint_version = version - (version + 1) % CHECKPOINT_INTERVAL
        paths = [commit_path(number) for number in range(checkpoint_version + 1, version)]
        if checkpoint_version != NO_VERSION:
            paths.append(_checkpoint_path(checkpoint_version))
        store, folder, commits = filesystem(uri), _Folder(), list[bytes]()
        for path, content in zip(paths, map_concurrently(partial(content_of, store), paths), strict=True):
            if content is None:
                return None
            if path == _checkpoint_path(checkpoint_version):
                (folder.path / path).write_bytes(content)
            else:
                check_commit(uri, path, content)
                commits.append(content)
        if checkpoint_version != version:
            commits.append(newest)
        return cls(uri, checkpoint_version, tuple(commits), folder)

    def open_table(self) -> DeltaTable:
        """The table as of `version`.

        Raises:
            OSError, DeltaError: the checkpoint is not there, or can't be read.
        """
        if self.checkpoint_version != NO_VERSION:
            path = _checkpoint_path(self.checkpoint_version)
            if not (self._folder.path / path).exists():
                with filesystem(self.uri).open_input_stream(path) as stream:
                    (self._folder.path / path).write_bytes(stream.read())
        for number, content in enumerate(self.commits, self.checkpoint_version + 1):
            (self._folder.path / commit_path(number)).write_bytes(content)
        return DeltaTable(str(self._folder.path), version=self.version)

    def up_to(self, count: int) -> "LogMirror":
        """The mirror without all commits behind the first `count`."""
        return replace(self, commits=self.commits[:count])

    def after(self, commits: Sequence[bytes]) -> "LogMirror":
        """The mirror with the contents of the next commits."""
        return replace(self, commits=(*self.commits, *commits))

    def with_checkpoint(self) -> "LogMirror":
        """Write a checkpoint of `version` here, and put it into the store, where the checkpoint that it
        supersedes is deleted; returns the mirror that begins with it.

        Raises:
            OSError, DeltaError: that failed. Readers read the commits all the same.
        """
        store, hint_file = filesystem(self.uri), self._folder.path / HINT
        last = Checkpoint.of(hint_file.read_bytes() if hint_file.exists() else content_of(store, HINT))
        self.open_table().create_checkpoint()
        checkpoint = _compress(self._folder.path / _checkpoint_path(self.version))
        hint = hint_behind(last, hint_file.read_bytes(), len(checkpoint))
        hint_file.write_bytes(hint)
        for path, content in ((_checkpoint_path(self.version), checkpoint), (HINT, hint)):
            with store.open_output_stream(path) as stream:
                stream.write(content)
        if last.earlier_version is not None and last.earlier_version != NO_VERSION:
            with suppress(OSError):
                store.delete_file(_checkpoint_path(last.earlier_version))
        return replace(self, checkpoint_version=self.version, commits=())


def _compress(path: Path) -> bytes:
    """A checkpoint that delta-rs has written, which does not compress, in a fifth of its bytes."""
    content = io.BytesIO()
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(content, file.schema_arrow, compression="zstd") as writer,
    ):
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group))
    return content.getvalue()


def _checkpoint_path(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"
