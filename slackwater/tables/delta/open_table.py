"""A Delta table as of one version: as delta-rs opened it, and the plain commits since, which this process has
made itself or read one by one.

    opened by delta-rs      tail
    version 7           +   8.json   9.json     = version 9

To read the next commit by its name is one request, where delta-rs lists the log, reads what is new twice and
lists all files again. A commit is plain if it only adds and removes files and says how far a writer is; any
other commit (new columns, another protocol, deletion vectors) is for delta-rs, which opens the table anew.

`table_handles` reads commits.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from slackwater.tables.delta.carried_log import CARRIED_COMMITS, CarriedLog, without_facts
from slackwater.tables.delta.log_mirror import LogMirror
from slackwater.tables.delta.opening_errors import error_of_opening

# A tail is applied again to each list of files, and a log without a checkpoint takes long to open.
_MOST_COMMITS = 100
# Writers quote other characters, and not all of them alike.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_=:./-]+")
_PLAIN_ACTIONS = {"commitInfo", "txn", "add", "remove"}
# Writers of this version know nothing but plain commits and columns that may not be null.
_PLAIN_WRITER = 2
_UNPLAIN_PROPERTIES = {"delta.appendOnly", "delta.enableChangeDataFeed"}


class PlainCommit(NamedTuple):
    """What a plain commit changes.

    Attributes:
        new_files: the add actions, as in the log.
        removed_paths: of files, quoted as in the log.
        transactions: application → its version.
        content: of its file.
    """

    new_files: tuple[dict[str, Any], ...]
    removed_paths: frozenset[str]
    transactions: Mapping[str, int]
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> "PlainCommit | None":
        """The commit whose file has this content; None where it is not a plain one."""
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


@dataclass(frozen=True)
class OpenTable:
    """A table as of one version. A value: whoever has it sees that version, whatever others commit.

    Attributes:
        uri: the table's folder.
        base_version: its version as delta-rs opened it.
        mirror: the copy of the log from which it was opened; None where it was opened at `uri`.
        tail: the commits since.
        carried_log: of the commit by which it was opened; None where delta-rs had to open it. Then `base`
            is opened only for what that commit does not say.
    """

    uri: str
    base_version: int
    mirror: LogMirror | None = None
    tail: tuple[PlainCommit, ...] = ()
    carried_log: CarriedLog | None = None
    _delta_rs_table: list[DeltaTable] = field(default_factory=list, repr=False, compare=False)
    _listing: "list[tuple[int, pa.Table]]" = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, uri: str, table: DeltaTable) -> "OpenTable":
        """The table as delta-rs has just opened it at `uri`."""
        return cls(uri, table.version(), _delta_rs_table=[table])

    @classmethod
    def of_mirror(cls, mirror: LogMirror) -> "OpenTable":
        """The table whose log `mirror` has a copy of."""
        return cls(mirror.uri, mirror.version, mirror, _delta_rs_table=[mirror.open_table()])

    @classmethod
    def of_carried_log(cls, uri: str, log: CarriedLog) -> "OpenTable":
        """The table whose log a commit has carried. Who writes a commit that carries many puts a checkpoint
        of that version beside it.
        """
        if len(log.commits) >= CARRIED_COMMITS:
            log = log.with_checkpoint()
        commits = list(map(PlainCommit.of, log.commits))
        count = 1 + max((number for number, commit in enumerate(commits) if commit is None), default=-1)
        mirror = LogMirror(uri, log.checkpoint_version, log.commits[:count])
        tail = tuple(commit for commit in commits[count:] if commit is not None)
        return cls(uri, mirror.version, mirror, tail, log)

    def version(self) -> int:
        return self.base_version + len(self.tail)

    @property
    def has_long_tail(self) -> bool:
        """Whether the table had better be opened anew. When a carried log was followed by as many commits as
        one carries, the checkpoint that it begins with, which is read late, is the last but one.
        """
        return len(self.tail) > (_MOST_COMMITS if self.carried_log is None else CARRIED_COMMITS)

    @property
    def base(self) -> DeltaTable:
        """The table as delta-rs opens it, without the commits of `tail`.

        Raises:
            NotADeltaTable, LogDamaged: it can't be opened.
        """
        if not self._delta_rs_table:
            self._delta_rs_table.append(self._open_base())
        return self._delta_rs_table[0]

    def _open_base(self) -> DeltaTable:
        assert self.mirror is not None and self.carried_log is not None
        with suppress(OSError, DeltaError):
            return self.mirror.open_table()
        # The checkpoint is gone: a later one has taken its place. Commits that are applied once more change
        # nothing.
        try:
            return DeltaTable(self.uri, version=self.carried_log.version)
        except (OSError, DeltaError) as error:
            raise error_of_opening(self.uri, error) from error

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema(self.base.schema()) if self.carried_log is None else self.carried_log.schema

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        if self.carried_log is not None:
            return self.carried_log.partition_columns
        return tuple(self.base.metadata().partition_columns)

    def log_to_carry(self) -> CarriedLog | None:
        """What the next commit can carry; None for a table of which there is no mirror."""
        if self.mirror is None:
            return None
        delta_schema = (
            self.base.schema().to_json() if self.carried_log is None else self.carried_log.delta_schema
        )
        commits = (*self.mirror.commits, *(commit.content for commit in self.tail))
        return CarriedLog(
            self.mirror.checkpoint_version,
            tuple(map(without_facts, commits)),
            delta_schema,
            self.partition_columns,
        )

    @property
    def contents_of_commits(self) -> dict[int, bytes]:
        """Version → content of its commit, for those that were read when the table was opened."""
        mirrored_contents = (
            {}
            if self.mirror is None
            else dict(enumerate(self.mirror.commits, self.mirror.checkpoint_version + 1))
        )
        tail_contents = enumerate((commit.content for commit in self.tail), self.base_version + 1)
        return {**mirrored_contents, **dict(tail_contents)}

    def has_added(self, paths: Collection[str]) -> bool:
        """Whether the commits of `tail` show that the table has these files. Plain commits name files as a
        file system does.
        """
        missing_paths = set(paths)
        for commit in reversed(self.tail):
            if missing_paths & commit.removed_paths:
                return False
            missing_paths.difference_update(file["path"] for file in commit.new_files)
        return not missing_paths

    @cached_property
    def table_id(self) -> str:
        """The id that the table was given when it was made."""
        return str(self.base.metadata().id)

    def transaction_version(self, application: str) -> int | None:
        """How far a writer is, by its own transactions; None where it has made none."""
        for commit in reversed(self.tail):
            if application in commit.transactions:
                return commit.transactions[application]
        with suppress(DeltaError):
            return self.base.transaction_version(application)
        # delta-rs reads the log once more, and the checkpoint from which it opened the table is superseded.
        return DeltaTable(self.uri, version=self.base_version).transaction_version(application)

    def actions_of(self, paths: Collection[str]) -> pa.Table:
        """As `actions`, of files that `has_added`, and without columns of which no file has statistics."""
        files = {file["path"]: file for commit in self.tail for file in commit.new_files}
        new_files = [files[path] for path in paths]
        return _listed_files(new_files, _listing_schema(new_files, self.schema, self.partition_columns))

    @cached_property
    def takes_plain_commits(self) -> bool:
        """Whether a commit may be written without asking delta-rs: the table has no feature by which a
        commit would need more than it says. Else no commit carries the log.
        """
        if self.carried_log is not None:
            return True
        protocol, configuration = self.base.protocol(), self.base.metadata().configuration
        return (
            protocol.min_reader_version == 1
            and protocol.min_writer_version <= _PLAIN_WRITER
            and not any(configuration.get(name) == "true" for name in _UNPLAIN_PROPERTIES)
        )

    def after(self, commit: PlainCommit) -> "OpenTable":
        """The table as of the next version, which `commit` has made."""
        return replace(self, tail=(*self.tail, commit), _listing=self._listing[-1:])

    @property
    def actions(self) -> pa.Table:
        """The table's files, one a row (delta-rs calls them add actions): path, size_bytes, num_records,
        partition values as ``partition.<column>``, statistics as ``min.<column>``, ``max.<column>``,
        ``null_count.<column>``.
        """
        if self._listing:
            count, actions = self._listing[-1]
        else:
            count, actions = 0, pa.table(self.base.get_add_actions(flatten=True))
        for commit in self.tail[count:]:
            actions = _after(actions, commit)
        self._listing[:] = [(len(self.tail), actions)]
        return actions

    def as_delta_rs(self) -> DeltaTable:
        """The same version as delta-rs opens it, for what only it can do."""
        if self.mirror is None and not self.tail:
            return self.base
        return DeltaTable(self.uri, version=self.version())

    def with_checkpoint(self) -> "OpenTable":
        """Put the log's state into one file; returns the same version, opened from there.

        Raises:
            OSError, DeltaError: that failed. Readers read the commits all the same.
        """
        if self.mirror is not None:
            mirror = self.mirror.after([commit.content for commit in self.tail])
            # The last checkpoint may be gone, or may never have been written.
            with suppress(OSError, DeltaError):
                return OpenTable.of_mirror(mirror.with_checkpoint())
        table = self.as_delta_rs()
        table.create_checkpoint()
        return OpenTable.of(self.uri, table)


def _after(actions: pa.Table, commit: PlainCommit) -> pa.Table:
    """The files of a table after a commit."""
    # A file that is added once more is the same file, with more said about it.
    gone_paths = commit.removed_paths | {file["path"] for file in commit.new_files}
    if actions.num_rows and gone_paths:
        is_gone = pc.is_in(actions.column("path"), value_set=pa.array(gone_paths, pa.string()))
        if pc.any(is_gone).as_py():
            actions = actions.filter(pc.invert(is_gone))
    if not commit.new_files:
        return actions
    return pa.concat_tables([actions, _listed_files(commit.new_files, actions.schema)])


def _listed_files(new_files: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Added files in the columns in which delta-rs lists them."""
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
            values = [file[_OF_A_FILE[column.name]] for file in new_files]
        columns.append(_column(values, column.type))
    return pa.table(columns, schema=schema)


def _listing_schema(
    new_files: Sequence[dict[str, Any]], schema: pa.Schema, partition_columns: Sequence[str]
) -> pa.Schema:
    """The columns in which added files are listed, as far as they have statistics of plain columns."""
    statistics = [json.loads(file.get("stats") or "{}") for file in new_files]
    fields = [("path", pa.string()), ("size_bytes", pa.int64()), ("num_records", pa.int64())]
    fields += [(f"{_PARTITION}.{name}", schema.field(name).type) for name in partition_columns]
    for column in schema:
        for kind, name in _STATISTICS.items():
            if any(_is_plain((one.get(name) or {}).get(column.name)) for one in statistics):
                value_type = pa.int64() if kind == "null_count" else column.type
                fields.append((f"{kind}.{column.name}", value_type))
    return pa.schema(fields)


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, dict)


_PARTITION = "partition"
_OF_A_FILE = {"path": "path", "size_bytes": "size", "modification_time": "modificationTime"}
_STATISTICS = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}


def _value(statistics: Mapping[str, Any], name: str) -> Any:
    """A statistic of a column, or of a field of one, which has the column's name before its own."""
    if name in statistics:
        return statistics[name]
    column, _, field_name = name.partition(".")
    fields = statistics.get(column)
    return _value(fields, field_name) if field_name and isinstance(fields, dict) else None


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as the log has them, as a column."""
    if any(isinstance(value, str) for value in values) and not pa.types.is_string(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    return pa.array(values, kind)
