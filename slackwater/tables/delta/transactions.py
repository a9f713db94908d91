"""Reads what the commits of a Delta log say of themselves, by the application transaction that each makes.

Whoever commits may leave facts beside the transaction (`Folder.commit_files`). The log keeps the commits of a
month; facts of older ones are gone, so a reader must be able to do without them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slackwater.tables.delta.concurrency import map_concurrently
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.log_files import commit_path
from slackwater.tables.stores import filesystem

# So many commits are asked for at once.
_COMMITS_AT_ONCE = 32


class CommitFacts(NamedTuple):
    """The version of a commit's application transaction, None without one, and its commitInfo."""

    transaction: int | None
    facts: dict[str, Any]


@dataclass(frozen=True)
class Transactions:
    """The commits of one table with an application's transactions, whose versions rise; each is read once."""

    folder: Folder
    application: str
    _commits: dict[int, CommitFacts | None] = field(default_factory=dict, repr=False)

    def facts(self, first: int, last: int) -> dict[int, dict[str, Any]]:
        """Transaction → the commitInfo of its commit, from `first` to `last`, both included. Transactions
        whose commits the log has dropped are left out.
        """
        newest = self.folder.version()
        if newest is None:
            return {}
        facts: dict[int, dict[str, Any]] = {}
        for commit in self._from(self._version_of(first, newest), newest):
            if commit is None or commit.transaction is None or commit.transaction < first:
                continue
            if commit.transaction > last:
                break
            facts[commit.transaction] = commit.facts
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
            if commit.transaction is not None:
                return commit.transaction
        return None

    def _from(self, version: int, last: int, at_once: int = _COMMITS_AT_ONCE) -> Iterator[CommitFacts | None]:
        """The commits of table versions from `version` to `last`; None for one that is gone."""
        for start in range(version, last + 1, at_once):
            versions = range(start, min(start + at_once, last + 1))
            missing = [number for number in versions if number not in self._commits]
            self._commits.update(zip(missing, self._read_all(missing), strict=True))
            yield from (self._commits[number] for number in versions)

    def _read_all(self, versions: list[int]) -> Iterable[CommitFacts | None]:
        return map_concurrently(self._read, versions) if len(versions) > 1 else map(self._read, versions)

    def _read(self, version: int) -> CommitFacts | None:
        try:
            with filesystem(self.folder.uri).open_input_stream(commit_path(version)) as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return None
        transaction, facts = None, dict[str, Any]()
        for line in lines:
            if b'"txn"' in line:
                action = json.loads(line).get("txn")
                if action is not None and action["appId"] == self.application:
                    transaction = action["version"]
            elif b'"commitInfo"' in line:
                facts = json.loads(line).get("commitInfo") or facts
        return CommitFacts(transaction, facts)
