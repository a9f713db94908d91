"""Opens a Delta table and keeps it for the next caller, who reads only the commits since, by their names; and
says why one can't be opened. This file writes nothing.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileInfo, FileSystem

from slackwater.errors import SlackwaterError
from slackwater.tables.delta.foreign_changes import (
    ForeignCommit,
    UnbearableFeature,
    commits_behind_ours,
    commits_between,
    foreign_among,
    is_changed_by_others,
    refuse_foreign,
    refuse_unbearable,
    unbearable,
)
from slackwater.tables.delta.log_files import (
    LOG,
    check_commit,
    check_commits,
    commit_path,
    content_of,
    damage,
)
from slackwater.tables.delta.open_table import OpenTable, PlainCommit, open_at_checkpoint
from slackwater.tables.errors import CatalogManaged, NotADeltaTable
from slackwater.tables.storage_errors import not_readable, reads, reason
from slackwater.tables.stores import filesystem, is_local


@dataclass
class TableHandles:
    """What this process knows of one table. Threads may share it: each replaces values as a whole.

    Attributes:
        uri: the table's folder.
        newest: the table at the newest version that was opened or committed here; None before the first one.
        checked_to: the version up to which commits need no check for damage; None: the last checkpoint.
        is_ours: whether only Slackwater writes there; then features that it can't bear are refused.
        known_to: the version up to which no commit of others changes rows or columns; None where nobody has
            asked.
        lacks_own_commit: whether this process has made a commit after `newest` whose answer was lost.
    """

    uri: str
    newest: OpenTable | None = None
    checked_to: int | None = None
    lacks_own_commit: bool = False
    is_ours: bool = False
    known_to: int | None = None

    @property
    def newest_version(self) -> int | None:
        """The newest version that this process has seen or committed; None before the first one."""
        return None if self.newest is None else self.newest.version()

    def newest_known(self) -> OpenTable | None:
        """The table at the newest version that is known, with all commits of this process. None where that
        can't be relied on: a folder of this machine may have been removed and made again.
        """
        return None if is_local(self.uri) or self.lacks_own_commit else self.newest

    def take(self) -> OpenTable | None:
        """The table as of now; None where there is none.

        Raises:
            NotADeltaTable: something else is there.
            LogDamaged: a commit is empty, missing, cut off or changed.
            ForeignFeature: a table of ours has a feature that can't be borne.
        """
        table = None if self.newest is None else self._brought_up_to_date(self.newest)
        if table is None:
            table = self._open_by_names() or self._open()
        if table is not None:
            self.newest, self.lacks_own_commit = table, False
        return table

    def foreign_commits(self, since: int | None) -> list[ForeignCommit]:
        """The commits of others after the version `since` that change rows or columns; with None see
        `commits_behind_ours`. Where there are none, `known_to` moves on to the newest version.
        """
        table = self.newest
        if table is None:
            return []
        version, contents = table.version(), table.contents_of_commits
        foreign = foreign_among(
            self.uri,
            commits_behind_ours(self.uri, version, contents)
            if since is None
            else commits_between(self.uri, since, version, contents),
        )
        if not foreign:
            self.known_to = version
        return foreign

    def refuse_foreign_behind_known(self, table: OpenTable) -> None:
        known_to, version = self.known_to, table.version()
        if known_to is not None and version > known_to:
            contents = table.contents_of_commits
            refuse_foreign(foreign_among(self.uri, commits_between(self.uri, known_to, version, contents)))
            self.known_to = version

    def start_over_with(self, table: DeltaTable) -> OpenTable:
        """Forget what was known before, and keep a table that delta-rs has just made."""
        self.newest, self.lacks_own_commit = OpenTable.of(self.uri, table), False
        return self.newest

    def _open_by_names(self) -> OpenTable | None:
        """The table as of now in an object store, by the last checkpoint and the commits since; None where it
        must be opened by delta-rs alone.
        """
        if is_local(self.uri):
            return None
        with reads(self.uri), suppress(DeltaError):
            base = open_at_checkpoint(self.uri)
            table = None if base is None else self._brought_up_to_date(OpenTable.of(self.uri, base))
            return None if table is None else self._refuse_unbearable(table)
        return None

    def _open(self) -> OpenTable | None:
        try:
            table = DeltaTable(self.uri)
        except TableNotFoundError:
            # Also of a local folder that it may not enter delta-rs says that there is no table.
            if is_local(self.uri):
                with reads(self.uri):
                    filesystem(self.uri).get_file_info(LOG)
            return None
        except (OSError, DeltaError) as error:
            cause = error_of_opening(self.uri, error)
            if self.is_ours and isinstance(cause, NotADeltaTable) and is_changed_by_others(self.uri):
                raise unbearable(self.uri, [UnbearableFeature(reason(error), "DROP FEATURE …")]) from error
            raise cause from error
        with reads(self.uri):
            check_commits(filesystem(self.uri), self.uri, table.version(), self.checked_to)
        return self._refuse_unbearable(OpenTable.of(self.uri, table))

    def _refuse_unbearable(self, table: OpenTable) -> OpenTable:
        if self.is_ours:
            refuse_unbearable(self.uri, table.base)
        return table

    def _brought_up_to_date(self, table: OpenTable) -> OpenTable | None:
        """`table` with the commits since. None where it must be opened anew: it was removed, a commit is not
        plain, or there are too many.
        """
        folder = filesystem(self.uri)
        with reads(self.uri):
            if is_local(self.uri) and not _is_a_commit(folder, table.version()):
                return None
            while not table.has_long_tail and table.takes_plain_commits:
                path = commit_path(table.version() + 1)
                content = content_of(folder, path)
                if content is None:
                    return table
                check_commit(self.uri, path, content)
                commit = PlainCommit.of(content)
                if commit is None:
                    return None
                table = table.after(commit)
        return None


def newest_table(uri: str, checked_to: int | None = None) -> OpenTable | None:
    """The table at `uri` as of now; None where there is none. A table in an object store stays open in this
    process. For `checked_to` see `TableHandles`, for errors `TableHandles.take`.
    """
    return (TableHandles(uri, checked_to=checked_to) if is_local(uri) else _kept_handles(uri)).take()


@cache
def _kept_handles(uri: str) -> TableHandles:
    return TableHandles(uri)


def _is_a_commit(folder: FileSystem, version: int) -> bool:
    info: FileInfo = folder.get_file_info(commit_path(version))
    return bool(info.is_file and info.size)


_CATALOG = re.compile(r"catalog.?(managed|owned)", re.IGNORECASE)


def error_of_opening(uri: str, error: Exception) -> SlackwaterError:
    """The error to raise for one of delta-rs: of a table that its catalog manages, of storage, of a damaged
    log, or of no table at all.
    """
    if _CATALOG.search(str(error)):
        return CatalogManaged(
            f"{uri}: this Delta table is managed by its catalog, which alone knows its newest version: it "
            "can't be read from its folder. Take that off (ALTER TABLE … DROP FEATURE catalogManaged), "
            "or keep its rows in another Delta table (CREATE TABLE … AS SELECT), and read that.",
            uri=uri,
        )
    storage_error = not_readable(uri, error)
    if storage_error is not None:
        return storage_error
    with reads(uri):
        log_error = damage(filesystem(uri), uri)
    return log_error or NotADeltaTable(
        f"{uri}: what is there can't be read as a Delta table ({reason(error)}). Check the path, or "
        "put the table back from a copy.",
        uri=uri,
    )
