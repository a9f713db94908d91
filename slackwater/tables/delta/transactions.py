"""Reads what the commits of a Delta log say of themselves, by the application transaction that each makes.

Whoever commits may leave facts beside the transaction (`Folder.commit_files`). The log keeps the commits of a
month; facts of older ones are gone, so a reader must be able to do without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.foreign_changes import LoggedCommit
from slackwater.tables.delta.log_files import commit_path, content_of
from slackwater.tables.stores import filesystem, map_concurrently

# So many commits are asked for at once.
_COMMITS_AT_ONCE = 32


@dataclass(frozen=True)
class Transactions:
    """The commits of one table with an application's transactions, whose versions rise; each is read once."""

    folder: Folder
    application: str
    _commits: dict[int, LoggedCommit | None] = field(default_factory=dict, repr=False)

    def facts(self, first: int, last: int) -> dict[int, dict[str, Any]]:
        """Transaction → the commitInfo of its commit, from `first` to `last`, both included. Transactions
        whose commits the log has dropped are left out.
        """
        newest = self.folder.version()
        if newest is None:
            return {}
        facts: dict[int, dict[str, Any]] = {}
        for commit in self._from(self._version_of(first, newest), newest):
            transaction = None if commit is None else commit.transaction(self.application)
            if commit is None or transaction is None or transaction < first:
                continue
            if transaction > last:
                break
            facts[transaction] = commit.info
        return facts

    def _version_of(self, first: int, newest: int) -> int:
        """A table version at or little before the first transaction that is not below `first`, by bisection,
        so that few commits of a long log are read.
        """
        low, high = 0, newest
        while low < high:
            middle = (low + high) // 2
            following = self._next_transaction(middle, high)
            if following is None or following >= first:
                high = middle
            else:
                low = middle + 1
        return low

    def _next_transaction(self, version: int, last: int) -> int | None:
        """The first transaction at or after a table version, up to `last`; 0 where its commit is gone."""
        for commit in self._from(version, last, at_once=1):
            if commit is None:
                return 0
            if (transaction := commit.transaction(self.application)) is not None:
                return transaction
        return None

    def _from(
        self, version: int, last: int, at_once: int = _COMMITS_AT_ONCE
    ) -> Iterator[LoggedCommit | None]:
        """The commits of table versions from `version` to `last`; None for one that is gone."""
        for start in range(version, last + 1, at_once):
            versions = range(start, min(start + at_once, last + 1))
            missing = [number for number in versions if number not in self._commits]
            read = map_concurrently(self._read, missing) if len(missing) > 1 else map(self._read, missing)
            self._commits.update(zip(missing, read, strict=True))
            yield from (self._commits[number] for number in versions)

    def _read(self, version: int) -> LoggedCommit | None:
        content = content_of(filesystem(self.folder.uri), commit_path(version))
        return None if content is None else LoggedCommit.without_files(version, content)
