"""A Delta table at one version: as delta-rs opened it, and the plain commits since, which this process has
made itself or read one by one.

    opened by delta-rs      tail
    version 7           +   8.json   9.json     = version 9

Reading the next commit by its name is one request, and takes a millisecond for a table of any size. delta-rs
lists the log, reads the commit twice and all files again: 15 ms for 1,000 files, 180 ms for 10,000. A commit
is plain if it only adds and removes files and records an application transaction; any other one (new columns,
another protocol, deletion vectors) is left to delta-rs, which opens the table anew.

The last checkpoint of a log in an object store is copied to a temporary folder, where delta-rs opens it, and
where it writes the next one. In the store it asks for a checkpoint by ten requests, and for each commit since
by two. A log whose last checkpoint is not one file is left to it.

    store      …09.checkpoint.parquet             …10.json …      …19.checkpoint.parquet   _last_checkpoint
                        |                             |                     ^
    folder     …09.checkpoint.parquet  --->  10.json … 19.json  --->  …19.checkpoint.parquet
"""

import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from slackwater.tables.delta.log_files import (
    HINT,
    LOG,
    NO_VERSION,
    checkpoint_path,
    commit_path,
    content_of,
    last_checkpoint,
)
from slackwater.tables.stores import filesystem, is_local


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


# A tail is applied again to each list of files, and a log without a checkpoint takes long to open.
_MOST_COMMITS = 100
# Writers quote other characters, and not all of them alike.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_=:./-]+")
_PLAIN_ACTIONS = {"commitInfo", "txn", "add", "remove"}
# Writers of this version know nothing but plain commits and columns that may not be null.
_PLAIN_WRITER = 2
_UNPLAIN_PROPERTIES = {"delta.appendOnly", "delta.enableChangeDataFeed"}


class PlainCommit(NamedTuple):
    """What a plain commit changes: the add actions and the paths as the log has them, and the version of each
    application; `content` is that of its file.
    """

    new_files: tuple[dict[str, Any], ...]
    removed_paths: frozenset[str]
    transactions: Mapping[str, int]
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> "PlainCommit | None":
        """The commit with this file content; None where it is not plain."""
        new_files, removed_paths, transactions = [], set(), {}
        for line in content.splitlines():
            action = json.loads(line, parse_float=str) if line.strip() else {}
            if not action.keys() <= _PLAIN_ACTIONS:
                return None
            if "add" in action:
                new_files.append(action["add"])
            if "remove" in action:
                removed_paths.add(action["remove"]["path"])
            if "txn" in action:
                transactions[action["txn"]["appId"]] = action["txn"]["version"]
        if any(file.get("deletionVector") for file in new_files):
            return None
        if not all(map(_PLAIN_PATH.fullmatch, (*removed_paths, *(file["path"] for file in new_files)))):
            return None
        return cls(tuple(new_files), frozenset(removed_paths), transactions, content)


@dataclass(frozen=True, eq=False)
class OpenTable:
    """A table at one version, which stays the same whatever others commit.

    Attributes:
        uri: the table's folder.
        base: the table as delta-rs opened it, at `uri` or from a copy of its last checkpoint. Commits by
            delta-rs move it on; `base_version` stays.
        tail: the plain commits since.
    """

    uri: str
    base: DeltaTable
    base_version: int
    tail: tuple[PlainCommit, ...] = ()
    _listing: "list[tuple[int, pa.Table]]" = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, uri: str, table: DeltaTable) -> "OpenTable":
        return cls(uri, table, table.version())

    def version(self) -> int:
        return self.base_version + len(self.tail)

    @property
    def has_long_tail(self) -> bool:
        """Whether opening the table anew is cheaper."""
        return len(self.tail) > _MOST_COMMITS

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(self.base.schema())

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.base.metadata().partition_columns)

    @property
    def contents_of_commits(self) -> dict[int, bytes]:
        return {version: commit.content for version, commit in enumerate(self.tail, self.base_version + 1)}

    @cached_property
    def table_id(self) -> str:
        return str(self.base.metadata().id)

    def transaction_version(self, application: str) -> int | None:
        """The version of an application's last transaction; None where it has made none."""
        for commit in reversed(self.tail):
            if application in commit.transactions:
                return commit.transactions[application]
        with suppress(DeltaError):
            return self.base.transaction_version(application)
        # delta-rs reads the log once more, and the checkpoint from which it opened the table is superseded.
        return DeltaTable(self.uri, version=self.base_version).transaction_version(application)

    @cached_property
    def takes_plain_commits(self) -> bool:
        """Whether we may write a commit ourselves: no feature of the table asks for more than a plain one."""
        protocol, configuration = self.base.protocol(), self.base.metadata().configuration
        return (
            protocol.min_reader_version == 1
            and protocol.min_writer_version <= _PLAIN_WRITER
            and not any(configuration.get(name) == "true" for name in _UNPLAIN_PROPERTIES)
        )

    def after(self, commit: PlainCommit) -> "OpenTable":
        """The table at the next version, which `commit` has made."""
        return replace(self, tail=(*self.tail, commit), _listing=self._listing[-1:])

    @property
    def actions(self) -> pa.Table:
        """The files as `actions_of` lists them."""
        if self._listing:
            count, actions = self._listing[-1]
        else:
            count, actions = 0, pa.table(self.base.get_add_actions(flatten=True))
        if count < len(self.tail):
            actions = _after(actions, self.tail[count:])
        self._listing[:] = [(len(self.tail), actions)]
        return actions

    def as_delta_rs(self) -> DeltaTable:
        """The same version as delta-rs opens it at `uri`."""
        if self.tail or not is_local(self.uri):
            return DeltaTable(self.uri, version=self.version())
        return self.base

    def with_checkpoint(self) -> "OpenTable":
        """Write a checkpoint of this version, whose commit must be in `tail`; returns the version as opened
        from it. Raises OSError or DeltaError: that failed, and readers go on with the commits.
        """
        table = None if is_local(self.uri) else put_checkpoint(self.uri, self.contents_of_commits)
        if table is None:
            table = self.as_delta_rs()
            table.create_checkpoint()
        return OpenTable.of(self.uri, table)


def _after(actions: pa.Table, commits: Sequence[PlainCommit]) -> pa.Table:
    new_files: dict[str, dict[str, Any]] = {}
    # A file that is added once more is the same file, with more said about it.
    gone_paths: set[str] = set()
    for commit in commits:
        gone_paths |= commit.removed_paths | {file["path"] for file in commit.new_files}
        for path in commit.removed_paths:
            new_files.pop(path, None)
        new_files.update((file["path"], file) for file in commit.new_files)
    if actions.num_rows and gone_paths:
        is_gone = pc.is_in(actions.column("path"), value_set=pa.array(gone_paths, pa.string()))
        if pc.any(is_gone).as_py():
            actions = actions.filter(pc.invert(is_gone))
    if not new_files:
        return actions
    return pa.concat_tables([actions, _listed_files(list(new_files.values()), actions.schema)])


def _listed_files(new_files: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    statistics = [json.loads(file.get("stats") or "{}", parse_float=str) for file in new_files]
    columns = []
    for column in schema:
        kind, _, name = column.name.partition(".")
        if kind == "partition":
            values = [file["partitionValues"].get(name) for file in new_files]
        elif name:
            values = [_value(one.get(_STATISTICS[kind]) or {}, name) for one in statistics]
        elif column.name == "num_records":
            values = [one.get("numRecords") for one in statistics]
        else:
            values = [file[_NAMES_IN_LOG[column.name]] for file in new_files]
        columns.append(_column(values, column.type))
    return pa.table(columns, schema=schema)


_NAMES_IN_LOG = {"path": "path", "size_bytes": "size", "modification_time": "modificationTime"}
_STATISTICS = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}


def _value(statistics: Mapping[str, Any], name: str) -> Any:
    """A statistic by column, or by ``column.field``."""
    if name in statistics:
        return statistics[name]
    column, _, field_name = name.partition(".")
    fields = statistics.get(column)
    return _value(fields, field_name) if field_name and isinstance(fields, dict) else None


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if any(isinstance(value, str) for value in values) and not pa.types.is_string(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    return pa.array(values, kind)
