"""Plain Delta tables through delta-rs: open, create, append, and commit files that somebody else has written.

The only file that calls deltalake's writers. It knows no table by name. How often a table is really opened is
the business of `table_handles`.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from slackwater.jobs.tables.delta.commits import Owner, PendingCommit
from slackwater.jobs.tables.delta.log_files import commit_path
from slackwater.jobs.tables.delta.partitions import by_partition, folder_of
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within, files_within
from slackwater.jobs.tables.delta.table_handles import TableHandles
from slackwater.jobs.tables.delta.written_files import WrittenFile, filesystem, hardly_repeats, write_file
from slackwater.jobs.tables.errors import CommitConflict, CommitUnknown, NotADeltaTable
from slackwater.jobs.tables.storage_errors import not_writable, reason

# Whenever a table is opened, all commits since its last checkpoint are read.
_CONFIGURATION = {"delta.checkpointInterval": "10"}
_OVERWRITTEN_BYTES = 32 << 20


class StoredLayout(NamedTuple):
    """The columns that a table has in storage, and those by which it is partitioned there."""

    schema: pa.Schema
    partition_by: tuple[str, ...]


class Addition(NamedTuple):
    """A commit of this process that added files.

    Attributes:
        version: the table version that it made.
        paths: the files, relative to the table's folder.
    """

    version: int
    paths: frozenset[str]


@dataclass(frozen=True)
class Folder:
    """One Delta table: where it stands, its schema and its partition columns.

    The handle of one caller is no other's: what a caller read as of one version stays at that version.

    Raises (every method):
        NotADeltaTable: something else is there.

    Raises (every writing method):
        WarehouseNotWritable: the folder can't be written.
        CommitConflict: only where `expected_table` is given: the table has moved since that handle was
            opened. On success that handle is consumed: do not use it afterwards.
        CommitUnknown: storage failed during a commit, and again when it was asked whether the commit stands.
    """

    uri: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    _handles: TableHandles = field(init=False, repr=False, compare=False)
    # The newest commit of `commit_files`; empty before the first.
    _newest_addition: list[Addition] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_handles", TableHandles(self.uri))

    @classmethod
    def existing_at(cls, uri: str, partition_by: tuple[str, ...] = ()) -> "Folder | None":
        """The table that stands at `uri`, with the columns that it has; None where there is none."""
        table = cls(uri, pa.schema([])).find()
        if table is None:
            return None
        folder = cls(uri, pa.schema(table.schema()), partition_by)
        folder._handles.give_back(folder._handles.start_over_with(table))
        return folder

    @property
    def newest_known_version(self) -> int | None:
        """The newest version that this process has opened or committed; None before the first."""
        return self._handles.newest_version

    def version(self) -> int | None:
        """The newest version; None where there is no table."""
        with self.handle() as table:
            return None if table is None else table.version()

    @cached_property
    def name(self) -> str:
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def find(self, version: int | None = None) -> DeltaTable | None:
        """The table, at `version` if given; None when there is none yet."""
        return self._handles.take(version)

    @contextmanager
    def handle(self) -> Iterator[DeltaTable | None]:
        """What `find` returns, lent for the block alone."""
        table = self.find()
        yield table
        self._handles.give_back(table)

    def open(self) -> DeltaTable:
        """The table as of now.

        Raises:
            NotADeltaTable: there is none.
        """
        table = self.find()
        if table is None:
            raise NotADeltaTable(
                f"{self.uri}: there is no Delta table here. Check the path of the warehouse.", uri=self.uri
            )
        return table

    def ensure(self) -> DeltaTable:
        """The table, made empty if it isn't there. Two processes may do this at once."""
        table = self.find()
        if table is not None:
            return table
        try:
            return self._handles.start_over_with(
                DeltaTable.create(
                    self.uri,
                    schema=self.schema,
                    partition_by=list(self.partition_by) or None,
                    configuration=_CONFIGURATION,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            )
        except (OSError, DeltaError) as error:
            # Another process may have been first; a retry of ours would commit a second version.
            table = self.find()
            if table is None:
                raise not_writable(self.uri, error) from error
            return table

    def stored_layout(self) -> StoredLayout:
        """The table's layout in storage; the table is made empty if it isn't there."""
        table = self.ensure()
        self._handles.give_back(table)
        return StoredLayout(pa.schema(table.schema()), tuple(table.metadata().partition_columns))

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns at the end of the table; they are null in its rows so far. Columns that it has already
        stay as they are.
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
        """Add the fields that this folder's schema has inside of struct columns and the stored table lacks;
        they are null in its rows so far. They stand behind the fields of before: readers go by their names.
        """
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

        Give `within`, bounds outside of which no row fulfils `where`, for every table that grows: choosing
        files by it costs the same however many there are.
        """
        names = list(columns) if columns is not None else self.schema.names
        with self.handle() as table:
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
        """As `read`, as of the version of the handle `table`."""
        names = self.schema.names if columns is None else columns
        files = self.files(*([] if within is None else [within]), table=table)
        if within is None and where is not None:
            files = files.among(fragment.path for fragment in table.to_pyarrow_dataset().get_fragments(where))
        return files.read(names, where)

    def append(
        self, rows: pa.Table, expected_table: DeltaTable | None = None, transaction: Transaction | None = None
    ) -> None:
        """Append `rows` in one commit; with `expected_table`, only if the table is still at that handle's
        version.
        """
        if expected_table is None and not self._handles.has_idle_handle:
            self._handles.give_back(self.ensure())
        rows = rows.select(self.schema.names).cast(self.schema)
        files = [self._write(value, part) for value, part in by_partition(rows, self.partition_by)]
        self.commit_files(files, expected_table=expected_table, transaction=transaction)

    def _write(self, value: str | None, rows: pa.Table) -> WrittenFile:
        """A new file with `rows`, which lack the partition column and all have `value` there."""
        path = f"{folder_of(self.partition_by, value)}part-{uuid.uuid4().hex}.parquet"
        as_differences = [name for name in rows.column_names if hardly_repeats(rows.column(name))]
        return write_file(
            self.uri,
            path,
            rows,
            partition=dict.fromkeys(self.partition_by, value),
            as_differences=as_differences,
        )

    def files(self, *bounds: Within, table: DeltaTable | None = None) -> StoredFiles:
        """The files that may hold rows within all `bounds`, as of the version of the handle `table`, by
        default as of now; no files where there is no table.
        """
        if table is None:
            with self.handle() as newest:
                actions = pa.table({}) if newest is None else self._handles.actions(newest)
        else:
            actions = self._handles.actions(table)
        return self._stored_files(actions, bounds)

    def files_as_listed(self, *bounds: Within) -> StoredFiles:
        """As `files`, as of the version that was listed last; storage is asked only where none was."""
        listed_actions = self._handles.listed_actions
        return (
            self.files(*bounds) if listed_actions is None else self._stored_files(listed_actions[1], bounds)
        )

    def _stored_files(self, actions: pa.Table, bounds: Sequence[Within]) -> StoredFiles:
        return StoredFiles(files_within(actions, *bounds), self.uri, filesystem(self.uri), self.schema)

    def commit_files(
        self,
        files: Iterable[WrittenFile],
        removed_files: StoredFiles | None = None,
        expected_table: DeltaTable | None = None,
        transaction: Transaction | None = None,
        *,
        changes_data: bool = True,
    ) -> None:
        """Make files that were written into the folder part of the table and take `removed_files` out of it,
        in one commit; with `expected_table`, only if the table is still at that handle's version. Does
        nothing without files and a transaction. With `changes_data` False the commit says that it has the
        same rows in other files; streams that follow the table pass it by.
        """
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                path=file.path,
                size=file.bytes,
                partition_values=file.partition,
                modification_time=now_ms,
                data_change=changes_data,
                stats=file.statistics,
            )
            for file in files
        ]
        actions += [
            RemoveAction(path, changes_data, now_ms, size, partition)
            for path, size, partition in ([] if removed_files is None else removed_files.descriptions())
        ]
        if not actions and transaction is None:
            return

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            partition_by = list(self.partition_by) or None
            table.create_write_transaction(
                actions, "append", table.schema(), partition_by, commit_properties=properties
            )

        version = self._commit(write, expected_table, transaction)
        self._newest_addition[:] = [
            Addition(version, frozenset(action.path for action in actions if isinstance(action, AddAction)))
        ]

    def has_not_moved_since_adding(self, paths: Iterable[str]) -> bool:
        """Whether the newest commit is one of this process that added all of `paths`: then the table has
        them, and nobody needs to list its files.
        """
        for version, added_paths in self._newest_addition:
            own_commit, next_commit = filesystem(self.uri).get_file_info(
                [commit_path(version), commit_path(version + 1)]
            )
            return bool(own_commit.is_file) and not next_commit.is_file and added_paths.issuperset(paths)
        return False

    def overwrite(self, table: DeltaTable, rows: pa.RecordBatchReader) -> None:
        """Replace all rows of the table by `rows`, partitioned by this folder's columns, in one commit, if it
        is still at the version of the handle `table`.

        delta-rs writes the files, without page checksums: in a commit of files that others wrote it can't
        change the partition columns.
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
        expected_table: DeltaTable | None,
        transaction: Transaction | None,
    ) -> int:
        """Make one commit exactly once, also where the answer to it is lost. Without `expected_table` it is
        tried again behind the commits of others. Returns its version."""
        while True:
            table = expected_table if expected_table is not None else self.ensure()
            pending = PendingCommit(filesystem(self.uri), table.version() + 1)
            try:
                write(table, pending.properties(transaction))
            except (OSError, DeltaError) as error:
                owner = self._owner_of(pending, error)
                if owner is Owner.OURS:
                    break
                if owner is Owner.NOBODY:
                    raise not_writable(self.uri, error) from error
                if expected_table is not None:
                    raise CommitConflict(f"{self.uri}: {error}") from error
            else:
                self._handles.give_back(table)
                break
        self._handles.newest_version = pending.version
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
