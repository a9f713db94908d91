"""Opens a Delta table, and keeps what that has cost for the next caller: one idle handle and the list of the
table's files.

To open a table is to read its log since the last checkpoint; to bring an idle handle up to date is to read
the commits since the handle's version, a fraction of that. A handle is lent to one caller at a time, so what
a caller sees stays as of one version. This file writes nothing.
"""

from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from slackwater.jobs.errors import SlackwaterError
from slackwater.jobs.tables.delta.log_files import LOG, check_commits, commit_path, damage
from slackwater.jobs.tables.delta.stored_files import actions_of
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.jobs.tables.errors import NotADeltaTable
from slackwater.jobs.tables.storage_errors import not_readable, reads, reason

# A handle takes longer to bring up to date, to list files and to write with each version that it has moved on
# to.
_VERSIONS_OF_A_HANDLE = 10


@dataclass
class TableHandles:
    """The handles to one table that this process has open.

    Attributes:
        uri: the table's folder.
        newest_version: the newest version that any handle has seen or this process has committed; None before
            the first.
        listed_actions: (version, its files as of `actions_of`) of the version listed last.
    """

    uri: str
    newest_version: int | None = None
    listed_actions: tuple[int, pa.Table] | None = None
    # The version at which the idle handle was opened. Handles that were opened before others have moved on.
    _opened_at: int | None = None
    # At most one. Threads take from a list in one step, so none is lent twice.
    _idle_handles: list[DeltaTable] = field(default_factory=list)

    @property
    def has_idle_handle(self) -> bool:
        return bool(self._idle_handles)

    def take(self, version: int | None = None) -> DeltaTable | None:
        """A handle for the caller alone, at the newest version or at `version`; None where there is no table.

        Raises:
            NotADeltaTable: something else is there.
            LogDamaged: a commit file is empty or missing.
        """
        idle_handle = self._take_idle_handle() if version is None else None
        if idle_handle is not None:
            return idle_handle
        try:
            table = DeltaTable(self.uri, version=version)
        except TableNotFoundError:
            # Also of a local folder that it may not enter delta-rs says that there is no table.
            if "://" not in self.uri:
                with reads(self.uri):
                    filesystem(self.uri).get_file_info(LOG)
            return None
        except (OSError, DeltaError) as error:
            raise self._error_of_opening(error) from error
        with reads(self.uri):
            check_commits(filesystem(self.uri), self.uri, table.version())
        return self.start_over_with(table) if version is None else table

    def start_over_with(self, table: DeltaTable) -> DeltaTable:
        """Forget what was known of the table, and return `table`, a handle that was just opened: the table
        may have been removed and made again since the last one.
        """
        self._opened_at = self.newest_version = table.version()
        self.listed_actions = None
        return table

    def give_back(self, table: DeltaTable | None) -> None:
        """Keep a handle that its caller is done with for the next, unless it has moved on too far."""
        if table is None:
            return
        version = table.version()
        self.newest_version = version if self.newest_version is None else max(version, self.newest_version)
        if self._opened_at is None or version - self._opened_at < _VERSIONS_OF_A_HANDLE:
            self._idle_handles[:] = [table]

    def actions(self, table: DeltaTable) -> pa.Table:
        """The files of the table as of the handle's version, as of `actions_of`."""
        version = table.version()
        if self.listed_actions is not None and self.listed_actions[0] == version:
            return self.listed_actions[1]
        actions = actions_of(table)
        self.listed_actions = (version, actions)
        return actions

    def _take_idle_handle(self) -> DeltaTable | None:
        """The idle handle, brought up to date. None where there is none, or its table was removed."""
        try:
            table = self._idle_handles.pop()
            version, folder = table.version(), filesystem(self.uri)
            # The newest version has a commit, and none follows it.
            own_commit, next_commit = folder.get_file_info([commit_path(version), commit_path(version + 1)])
            if not own_commit.is_file or not own_commit.size:
                return None  # the caller opens the table anew, which says what is wrong with it
            if next_commit.is_file:
                table.update_incremental()
                check_commits(folder, self.uri, table.version(), since=version)
        except (IndexError, OSError, DeltaError):
            return None
        return table

    def _error_of_opening(self, error: Exception) -> SlackwaterError:
        """The error to raise for one of delta-rs: of storage, of a damaged log, or of no table at all."""
        storage_error = not_readable(self.uri, error)
        if storage_error is not None:
            return storage_error
        with reads(self.uri):
            log_error = damage(filesystem(self.uri), self.uri)
        return log_error or NotADeltaTable(
            f"{self.uri}: what is there can't be read as a Delta table ({reason(error)}). Check the path, or "
            "put the table back from a copy.",
            uri=self.uri,
        )
