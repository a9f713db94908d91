"""Plain Delta tables through delta-rs: open, create, append, and commit files that somebody else has written.

The only file that calls deltalake's writers. It knows no table by name. How often a table is really opened is
the business of `table_handles`.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from slackwater.tables.delta.clustering import Clustering
from slackwater.tables.delta.commits import Owner, PendingCommit, add_action, remove_actions
from slackwater.tables.delta.foreign_changes import TOKEN, ForeignCommit
from slackwater.tables.delta.log_files import last_checkpoint, line_count, superseded_checkpoints
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles, Within, files_within
from slackwater.tables.delta.table_handles import TableHandles
from slackwater.tables.delta.written_files import (
    WrittenFile,
    by_partition,
    columns_as_differences,
    folder_of,
    write_file,
)
from slackwater.tables.errors import CommitConflict, CommitUnknown, NotADeltaTable
from slackwater.tables.storage_errors import Cause, cause_of, not_writable, reason
from slackwater.tables.stores import filesystem

# Whenever a table is opened, all commits since its last checkpoint are read; a checkpoint lists all files
# again. What both cost is in "Large states" of docs/performance.md.
_CHECKPOINT_INTERVAL = 10
# A checkpoint with n times this number of actions is followed by n commits before the next one, 50 at most.
_ACTIONS_FOR_COMMIT = 20_000
_MOST_COMMITS = 50
# commitInfo, protocol, metaData.
_LINES_OF_CREATE = 3
_CONFIGURATION = {"delta.checkpointInterval": str(_CHECKPOINT_INTERVAL)}
# How long to wait before a commit is tried again that storage did not take.
_PAUSES_S = (0.1, 0.5)


@dataclass(frozen=True)
class Folder:
    """One Delta table: its location, schema and partition columns, and how rows are divided into files (None:
    as they come). Only Slackwater may write to a table that `is_ours`: features that it can't bear are
    refused, and so are commits of others (`foreign_changes`).

    Raises (every method):
        NotADeltaTable: something else is there.
        ForeignFeature: the table is ours and has a feature that can't be borne.

    Raises (every writing method):
        WarehouseNotWritable: the folder can't be written.
        CommitConflict: the table has moved on since the version of `expected_table`.
        CommitUnknown: storage failed during a commit, and again when the log was read for it.
        ForeignCommits: somebody else has changed rows or columns meanwhile.
    """

    uri: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    clustering: Clustering | None = None
    is_ours: bool = field(default=False, compare=False)
    _handles: TableHandles = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_handles", TableHandles(self.uri, is_ours=self.is_ours))

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the table itself."""
        return Folder, (self.uri, self.schema, self.partition_by, self.clustering, self.is_ours)

    @classmethod
    def existing_at(
        cls,
        uri: str,
        partition_by: tuple[str, ...] = (),
        clustering: Clustering | None = None,
        *,
        is_ours: bool = False,
    ) -> "Folder | None":
        """The table at `uri`, with the columns that it has; None where there is none."""
        table = cls(uri, pa.schema([]), is_ours=is_ours).find()
        if table is None:
            return None
        folder = cls(uri, table.schema, partition_by, clustering, is_ours)
        folder._handles.newest = table
        return folder

    @property
    def newest_known_version(self) -> int | None:
        """The newest version that this process has opened or committed; None before the first one."""
        return self._handles.newest_version

    def foreign_commits(self, since: int | None) -> list[ForeignCommit]:
        """The commits of others that change rows or columns, after the version `since` (None: after our first
        one since the last checkpoint), up to the newest version that this process knows.
        """
        return self._handles.foreign_commits(since)

    def with_schema(self, schema: pa.Schema) -> "Folder":
        folder = replace(self, schema=schema)
        folder._handles.newest, folder._handles.known_to = self._handles.newest, self._handles.known_to
        return folder

    def version(self) -> int | None:
        """The newest version; None where there is no table."""
        table = self.find()
        return None if table is None else table.version()

    @cached_property
    def name(self) -> str:
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def find(self) -> OpenTable | None:
        return self._handles.take()

    def newest_known(self) -> OpenTable | None:
        """The table at the newest version that this process knows, for callers who need no newer one or whose
        commit fails if there is one. A local folder is asked again: it may have been removed and made again.
        """
        return self._handles.newest_known() or self.find()

    def newest_known_or_made(self) -> OpenTable:
        return self._handles.newest_known() or self.ensure()

    def open(self) -> OpenTable:
        """The table as of now. Raises NotADeltaTable: there is none."""
        table = self.find()
        if table is None:
            raise NotADeltaTable(
                f"{self.uri}: there is no Delta table here. Check the path of the warehouse.", uri=self.uri
            )
        return table

    def ensure(self) -> OpenTable:
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
                    commit_properties=CommitProperties(
                        custom_metadata=line_count(_LINES_OF_CREATE), max_commit_retries=0
                    ),
                )
            )
        except (OSError, DeltaError) as error:
            # Another process may have been first; a retry of ours would commit a second version.
            table = self.find()
            if table is None:
                raise not_writable(self.uri, error) from error
            return table

    def stored_schema(self) -> pa.Schema:
        """The table's columns in storage; the table is made empty if it isn't there."""
        return self.newest_known_or_made().schema

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns at the end of the table, null in its rows so far; existing ones stay as they are."""

        def add(table: OpenTable, mark: CommitProperties) -> None:
            new_fields = [field for field in fields if field.name not in table.schema.names]
            if new_fields:
                columns = Schema.from_arrow(pa.schema(new_fields)).fields
                table.as_delta_rs().alter.add_columns(list(columns), commit_properties=mark)

        if fields:
            self._alter(add)

    def add_fields(self) -> None:
        """Add the fields of struct columns that this folder's schema has and the stored table lacks, behind
        the existing ones; they are null in the rows so far.
        """

        def add(table: OpenTable, mark: CommitProperties) -> None:
            write_deltalake(
                table.as_delta_rs(),
                self.schema.empty_table(),
                mode="append",
                schema_mode="merge",
                commit_properties=mark,
            )

        self._alter(add)

    def _alter(self, change: Callable[[OpenTable, CommitProperties], None]) -> None:
        """Change the table's columns, in a commit with our mark; once more where others commit first."""
        while True:
            try:
                table = self.open()
                self._handles.refuse_foreign_behind_known(table)
                change(table, CommitProperties(custom_metadata={TOKEN: uuid.uuid4().hex}))
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
        are not read. Tables that grow need `within`, bounds that hold every row for which `where` is true:
        choosing files by them stays cheap however many there are.
        """
        names = list(columns) if columns is not None else self.schema.names
        table = self.find()
        if table is None:
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        return self.read_at(table, names, where, within)

    def read_at(
        self,
        table: OpenTable,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        within: Within | None = None,
    ) -> pa.Table:
        names = self.schema.names if columns is None else columns
        files = self.files(*([] if within is None else [within]), table=table)
        if within is None and where is not None:
            files = files.among(
                fragment.path for fragment in table.as_delta_rs().to_pyarrow_dataset().get_fragments(where)
            )
        return files.read(names, where)

    def append(
        self,
        rows: pa.Table,
        expected_table: OpenTable | None = None,
        transaction: Transaction | None = None,
        *,
        searched_columns: Sequence[str] | None = None,
        rows_per_file: int | None = None,
    ) -> None:
        """Append `rows` in one commit; with `expected_table`, only if the table is still at that version. The
        log gets statistics for `searched_columns`, by default for all. A file has at most `rows_per_file`
        rows (None: those of a partition are one file).
        """
        if expected_table is None and self._handles.newest is None:
            self.ensure()
        rows = rows.select(self.schema.names).cast(self.schema)
        files = [
            self._write(value, part, searched_columns)
            for value, partition_rows in by_partition(rows, self.partition_by)
            for part in _parts(partition_rows, rows_per_file)
        ]
        self.commit_files(files, expected_table=expected_table, transaction=transaction)

    def _write(
        self, value: str | None, rows: pa.Table, searched_columns: Sequence[str] | None
    ) -> WrittenFile:
        """Write `rows`, without the partition column, to a new file of the partition `value`."""
        path = f"{folder_of(self.partition_by, value)}part-{uuid.uuid4().hex}.parquet"
        as_differences = columns_as_differences(rows)
        return write_file(
            self.uri,
            path,
            rows,
            partition=dict.fromkeys(self.partition_by, value),
            as_differences=as_differences,
            searched_columns=searched_columns,
        )

    def files(self, *bounds: Within, table: OpenTable | None = None) -> StoredFiles:
        """The files that may hold rows within all `bounds`, at the version of `table`, by default as of now;
        no files where there is no table.
        """
        if table is None:
            table = self.find()
        return self._stored_files(table, bounds)

    def known_files(self, *bounds: Within) -> StoredFiles:
        """`files` at the newest version that this process knows, also in a folder of this machine."""
        known_table = None if self._handles.lacks_own_commit else self._handles.newest
        return self._stored_files(known_table or self.find(), bounds)

    def _stored_files(self, table: OpenTable | None, bounds: Sequence[Within]) -> StoredFiles:
        actions = pa.table({}) if table is None else table.actions
        return StoredFiles(files_within(actions, *bounds), self.uri, filesystem(self.uri), self.schema)

    def commit_files(
        self,
        files: Iterable[WrittenFile],
        removed_files: StoredFiles | None = None,
        expected_table: OpenTable | None = None,
        transaction: Transaction | None = None,
        *,
        changes_data: bool = True,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Add written files to the table and take `removed_files` out of it, in one commit; with
        `expected_table`, only if the table is still at that version. Does nothing without files and a
        transaction. `changes_data` is False for a commit that puts the same rows into other files. The
        commit keeps `facts` (see `slackwater.tables.delta.transactions`).
        """
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        actions = [add_action(file, now_ms, changes_data=changes_data) for file in files]
        if removed_files is not None:
            actions += remove_actions(removed_files, now_ms, changes_data=changes_data)
        if not actions and transaction is None:
            return
        self._commit(lambda table, pending: pending.write(table, actions, transaction, facts), expected_table)

    def _commit(
        self, write: Callable[[OpenTable, PendingCommit], OpenTable], expected_table: OpenTable | None
    ) -> None:
        """Make one commit exactly once, also where its answer is lost. It is tried again where storage fails
        for a moment, and without `expected_table` also behind the commits of others.
        """
        tries = 0
        while True:
            table = expected_table or (self._handles.newest_known() if not tries else None) or self.ensure()
            self._handles.refuse_foreign_behind_known(table)
            pending = PendingCommit(self.uri, table.version() + 1)
            try:
                newest = write(table, pending)
            except (OSError, DeltaError) as error:
                owner = self._owner_of(pending, error)
                if owner is Owner.OURS:
                    self._handles.lacks_own_commit = True  # the next caller reads it
                    return
                if owner is Owner.ANOTHER and expected_table is not None:
                    raise CommitConflict(f"{self.uri}: {error}") from error
                if owner is Owner.NOBODY:
                    if cause_of(error) is not Cause.TRANSIENT or tries >= len(_PAUSES_S):
                        raise not_writable(self.uri, error) from error
                    time.sleep(_PAUSES_S[tries])
                tries += 1
            else:
                self._handles.newest = newest
                if self._is_checkpoint_due(newest):
                    self._checkpoint(newest)
                return

    def _is_checkpoint_due(self, newest: OpenTable) -> bool:
        if (newest.version() + 1) % _CHECKPOINT_INTERVAL or not newest.tail:
            return False
        last = last_checkpoint(filesystem(self.uri))
        return newest.version() - last.version >= min(last.actions // _ACTIONS_FOR_COMMIT, _MOST_COMMITS)

    def _checkpoint(self, table: OpenTable) -> None:
        """Put the log's state into one file, and delete the checkpoints that it supersedes. Where that fails,
        the next one to open the table reads more.
        """
        with suppress(OSError, DeltaError):
            self._handles.newest = table.with_checkpoint()
            store = filesystem(self.uri)
            for path in superseded_checkpoints(store, _CHECKPOINT_INTERVAL):
                store.delete_file(path)

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


def _parts(rows: pa.Table, most_rows: int | None) -> Iterator[pa.Table]:
    """The rows, in their order, at most so many at a time."""
    step = most_rows or max(rows.num_rows, 1)
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))
