"""Plain Delta tables through delta-rs: open, create, append, and commit files that somebody else has written.

The only file that calls deltalake's writers. It knows no table by name.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from slackwater.jobs.errors import SlackwaterError
from slackwater.jobs.tables.delta.commits import Owner, PendingCommit
from slackwater.jobs.tables.delta.log_files import LOG, check_commits, commit_path, damage
from slackwater.jobs.tables.delta.partitions import by_partition, folder_of
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within, actions_of, files_within
from slackwater.jobs.tables.delta.written_files import WrittenFile, filesystem, hardly_repeats, write_file
from slackwater.jobs.tables.errors import CommitConflict, CommitUnknown, NotADeltaTable
from slackwater.jobs.tables.storage_errors import not_readable, not_writable, reads, reason

Item = TypeVar("Item")
Made = TypeVar("Made")

# Most of the time that small commits take is spent outside of Python, or waiting for storage.
_AT_ONCE = 4
# Whenever a table is opened, all commits since its last checkpoint are read.
_CONFIGURATION = {"delta.checkpointInterval": "10"}
_OVERWRITTEN_BYTES = 32 << 20
# A handle takes longer to bring up to date, to list files and to write with each version that it has moved on
# to.
_VERSIONS_OF_A_HANDLE = 10


class StoredLayout(NamedTuple):
    """The columns of a table as they are stored, and those by which it is partitioned."""

    schema: pa.Schema
    partition_by: tuple[str, ...]


def beside(work: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`work` on each of `items`, which concern tables that are not each other's business, several at once;
    results in the items' order.

    An error is raised where its item is due, when all items are done with.
    """
    with ThreadPoolExecutor(_AT_ONCE, "tables") as threads:
        return threads.map(work, items)


@dataclass(frozen=True)
class Folder:
    """One Delta table: where it stands, its schema and its partition columns.

    A handle that is done with is kept and brought up to date for who asks next, for some versions, which
    takes a fraction of opening the table. Nobody else has it meanwhile, so what a caller got as of one
    version stays at that version. The list of files is kept, too.

    Raises (every method):
        NotADeltaTable: something else is there.

    Raises (every writing method):
        WarehouseNotWritable: the folder can't be written.
        CommitConflict: only where `expected` is given: the table has moved since. If not, `expected` is the
            caller's no more.
        CommitUnknown: storage failed during a commit, and again when it was asked whether the commit stands.
    """

    uri: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    _kept: list[DeltaTable] = field(default_factory=list, init=False, repr=False, compare=False)
    _opened: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    _seen: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    _listed: list[tuple[int, pa.Table]] = field(default_factory=list, init=False, repr=False, compare=False)
    _added: list[tuple[int, frozenset[str]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @classmethod
    def stored(cls, uri: str, partition_by: tuple[str, ...] = ()) -> "Folder | None":
        """The table that stands at `uri`, with the columns that it has; None where there is none."""
        table = cls(uri, pa.schema([])).find()
        if table is None:
            return None
        folder = cls(uri, pa.schema(table.schema()), partition_by)
        folder._keep(folder._at_first(table))
        return folder

    @property
    def newest_seen(self) -> int | None:
        """The newest version that this folder has had a handle to; None before the first."""
        return self._seen[0] if self._seen else None

    def version(self) -> int | None:
        """The newest version; None where there is no table."""
        with self.found() as table:
            return None if table is None else table.version()

    @cached_property
    def name(self) -> str:
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def find(self, version: int | None = None) -> DeltaTable | None:
        """The table, at `version` if given; None when there is none yet."""
        kept = self._refreshed() if version is None else None
        if kept is not None:
            return kept
        try:
            table = DeltaTable(self.uri, version=version)
        except TableNotFoundError:
            if (
                "://" not in self.uri
            ):  # in a local folder that it may not enter delta-rs finds nothing, either
                with reads(self.uri):
                    filesystem(self.uri).get_file_info(LOG)
            return None
        except (OSError, DeltaError) as error:
            raise self._not_opened(error) from error
        with reads(self.uri):
            check_commits(filesystem(self.uri), self.uri, table.version())
        return self._at_first(table) if version is None else table

    def _not_opened(self, error: Exception) -> SlackwaterError:
        refused = not_readable(self.uri, error)
        if refused is not None:
            return refused
        with reads(self.uri):
            lost = damage(filesystem(self.uri), self.uri)
        return lost or NotADeltaTable(
            f"{self.uri}: what is there can't be read as a Delta table ({reason(error)}).", uri=self.uri
        )

    @contextmanager
    def found(self) -> Iterator[DeltaTable | None]:
        """As `find`, for the block alone."""
        table = self.find()
        yield table
        self._keep(table)

    def _at_first(self, table: DeltaTable) -> DeltaTable:
        """A handle that was just opened: what was known of the table may have been of another, which stood
        there before.
        """
        self._opened[:] = self._seen[:] = [table.version()]
        self._listed.clear()
        return table

    def _keep(self, table: DeltaTable | None) -> None:
        if table is not None:
            self._seen[:] = [max([table.version(), *self._seen])]
        if table is not None and all(
            table.version() - first < _VERSIONS_OF_A_HANDLE for first in self._opened
        ):
            self._kept[:] = [table]

    def _refreshed(self) -> DeltaTable | None:
        """The kept handle as of now, which is the caller's alone from here on. None where there is none, or
        its table was removed.
        """
        try:
            table = self._kept.pop()
            version, folder = table.version(), filesystem(self.uri)
            # The newest version has a commit, and none follows it.
            own, following = folder.get_file_info([commit_path(version), commit_path(version + 1)])
            if not own.is_file or not own.size:
                return None  # opened anew, it is said what is wrong
            if following.is_file:
                table.update_incremental()
                check_commits(folder, self.uri, table.version(), since=version)
        except (IndexError, OSError, DeltaError):
            return None
        return table

    def open(self) -> DeltaTable:
        """The table as of now.

        Raises:
            NotADeltaTable: there is none.
        """
        table = self.find()
        if table is None:
            raise NotADeltaTable(f"{self.uri}: there is no Delta table here.", uri=self.uri)
        return table

    def ensure(self) -> DeltaTable:
        """The table, made empty if it isn't there. Two processes may do this at once."""
        table = self.find()
        if table is not None:
            return table
        try:
            return self._at_first(
                DeltaTable.create(
                    self.uri,
                    schema=self.schema,
                    partition_by=list(self.partition_by) or None,
                    configuration=_CONFIGURATION,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            )
        except (OSError, DeltaError) as error:
            made = (
                self.find()
            )  # another process may have been first; a retry of ours would commit a second version
            if made is None:
                raise not_writable(self.uri, error) from error
            return made

    def ensured(self) -> StoredLayout:
        """The table as it is stored, made empty if it isn't there."""
        table = self.ensure()
        self._keep(table)
        return StoredLayout(pa.schema(table.schema()), tuple(table.metadata().partition_columns))

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns at the end of the table; they are null in its rows so far. Those that it has already
        are left alone.
        """
        while fields:
            try:
                self.open().alter.add_columns(list(Schema.from_arrow(pa.schema(fields)).fields))
            except CommitFailedError:
                continue
            except (OSError, DeltaError) as error:
                raise not_writable(self.uri, error) from error
            return

    def add_fields(self) -> None:
        """Add the fields that this folder's schema has inside of columns and the table has not; they are null
        in its rows so far. They stand behind those that are there: readers go by their names."""
        while True:
            try:
                write_deltalake(self.open(), self.schema.empty_table(), mode="append", schema_mode="merge")
            except CommitFailedError:
                continue
            except (OSError, DeltaError) as error:
                raise not_writable(self.uri, error) from error
            return

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        within: Within | None = None,
    ) -> pa.Table:
        """Rows as an Arrow table in this folder's column order; files and row groups that `where` excludes
        are not read.

        Give `within`, bounds of all rows that are wanted, wherever a table grows: finding the files then
        costs the same for many.
        """
        names = list(columns) if columns is not None else self.schema.names
        with self.found() as table:
            if table is None:
                return pa.schema([self.schema.field(name) for name in names]).empty_table()
            return self.read_at(table, names, where, within)

    def read_at(
        self,
        table: DeltaTable,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        within: Within | None = None,
    ) -> pa.Table:
        """As `read`, of the table as it was opened."""
        names = self.schema.names if columns is None else columns
        files = self.files(*([] if within is None else [within]), table=table)
        if within is None and where is not None:
            files = files.among(fragment.path for fragment in table.to_pyarrow_dataset().get_fragments(where))
        return files.read(names, where)

    def append(
        self, rows: pa.Table, expected: DeltaTable | None = None, transaction: Transaction | None = None
    ) -> None:
        """Append `rows` in one commit; with `expected`, only if the table is still at that version."""
        if expected is None and not self._kept:
            self._keep(self.ensure())
        rows = rows.select(self.schema.names).cast(self.schema)
        files = [self._write(value, part) for value, part in by_partition(rows, self.partition_by)]
        self.commit_files(files, expected=expected, transaction=transaction)

    def _write(self, value: str | None, rows: pa.Table) -> WrittenFile:
        """A new file with `rows`, which lack the partition column; `value` is theirs."""
        path = f"{folder_of(self.partition_by, value)}part-{uuid.uuid4().hex}.parquet"
        varied = [name for name in rows.column_names if hardly_repeats(rows.column(name))]
        return write_file(self.uri, path, rows, dict.fromkeys(self.partition_by, value), varied)

    def files(self, *bounds: Within, table: DeltaTable | None = None) -> StoredFiles:
        """The files that may hold rows within all `bounds`, of the table as it was opened, else as of now;
        none where there is none.
        """
        if table is None:
            with self.found() as opened:
                actions = pa.table({}) if opened is None else self._actions(opened)
        else:
            actions = self._actions(table)
        return StoredFiles(files_within(actions, *bounds), self.uri, filesystem(self.uri), self.schema)

    def files_as_listed(self, *bounds: Within) -> StoredFiles:
        """As `files`, of the version that was looked at last; storage is asked only where none was."""
        if not self._listed:
            return self.files(*bounds)
        return StoredFiles(
            files_within(self._listed[0][1], *bounds), self.uri, filesystem(self.uri), self.schema
        )

    def _actions(self, table: DeltaTable) -> pa.Table:
        version = table.version()
        for listed, actions in self._listed:
            if listed == version:
                return actions
        actions = actions_of(table)
        self._listed[:] = [(version, actions)]
        return actions

    def commit_files(
        self,
        files: Iterable[WrittenFile],
        removed: StoredFiles | None = None,
        expected: DeltaTable | None = None,
        transaction: Transaction | None = None,
        *,
        changes_data: bool = True,
    ) -> None:
        """Make files that were written into the folder part of the table and take `removed` out of it, in one
        commit; with `expected`, only if the table is still at that version. Does nothing without files and a
        transaction. A commit of which `changes_data` is False has the same rows in other files; streams pass
        it by."""
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.bytes, file.partition, now_ms, changes_data, file.statistics)
            for file in files
        ]
        gone = [] if removed is None else removed.described()
        actions += [
            RemoveAction(path, changes_data, now_ms, size, partition) for path, size, partition in gone
        ]
        if not actions and transaction is None:
            return

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            partition_by = list(self.partition_by) or None
            table.create_write_transaction(
                actions, "append", table.schema(), partition_by, commit_properties=properties
            )

        version = self._commit(write, expected, transaction)
        self._added[:] = [
            (version, frozenset(action.path for action in actions if isinstance(action, AddAction)))
        ]

    def has_not_moved_since_adding(self, paths: Iterable[str]) -> bool:
        """Whether the newest commit is one of this process that added all of `paths`: the table has them,
        which its list need not say.
        """
        for version, added in self._added:
            own, following = filesystem(self.uri).get_file_info(
                [commit_path(version), commit_path(version + 1)]
            )
            return bool(own.is_file) and not following.is_file and added.issuperset(paths)
        return False

    def overwrite(self, table: DeltaTable, rows: pa.RecordBatchReader) -> None:
        """Make `rows` all that the table holds, with this folder's partition columns, in one commit, if it is
        still as it was opened.

        delta-rs writes the files, without page checksums: it changes partition columns in no commit of files
        that others wrote.
        """

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=list(self.partition_by),
                configuration=_CONFIGURATION,
                target_file_size=_OVERWRITTEN_BYTES,
                commit_properties=properties,
            )

        self._commit(write, table, None)

    def _commit(
        self,
        write: Callable[[DeltaTable, CommitProperties], None],
        expected: DeltaTable | None,
        transaction: Transaction | None,
    ) -> int:
        """Make one commit exactly once, also where the answer to it is lost; without `expected`, behind
        whatever others commit first. Returns its version."""
        while True:
            table = expected if expected is not None else self.ensure()
            pending = PendingCommit(filesystem(self.uri), table.version() + 1)
            try:
                write(table, pending.properties(transaction))
            except (OSError, DeltaError) as error:
                owner = self._owner_of(pending, error)
                if owner is Owner.OURS:
                    break
                if owner is Owner.NOBODY:
                    raise not_writable(self.uri, error) from error
                if expected is not None:
                    raise CommitConflict(f"{self.uri}: {error}") from error
            else:
                self._keep(table)
                break
        self._seen[:] = [pending.version]
        return pending.version

    def _owner_of(self, pending: PendingCommit, failure: Exception) -> Owner:
        try:
            return pending.owner()
        except OSError as error:
            raise CommitUnknown(
                f"{self.uri}: writing version {pending.version} failed ({reason(failure)}), and the log "
                "can't be read to see "
                f"whether it was committed all the same ({reason(error)}). Run the same command again: it "
                "goes on from what stands.",
                uri=self.uri,
                version=pending.version,
            ) from failure
