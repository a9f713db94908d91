"""The history of a source's rows, from the commits of its log: which files brought new rows, which only hold
old rows that were written again, and which rows are gone.

A commit says of each file that it adds or removes whether that changes the data. It does not say where the
rows of a rewritten file came from, so the log is played, commit by commit, with an account of the files that
brought each file's rows, its origins:

    version     1           2           3                     4
    commit      add a, b    add c       compact b, c into d   delete rows of d: remove d, add e
    origins     a: a                    d: b, c               e: e (with a change of the data)
                b: b                                          rows of b and c are lost, by version 4

A run that has read version 1 knows the rows of b; the rows of c are new to it. Both are in d, which does
not tell them apart; but c does, as version 2 lists it, for as long as its Parquet file is there. The origins
of a file that mixes rows so are its parts.

A deletion vector makes another file of the same path, and a file that a RESTORE brings back is the one that
it was. Knows nothing of arrival times or runs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

from slackwater.engine.source.deletion_vectors import DeletionVector
from slackwater.tables.delta.log_files import check_commit, commit_path
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

# Newer than any version, for rows of which the log does not say when they came: no run counts as having read
# them.
UNKNOWN = 2**63 - 1


class LogicalFile(NamedTuple):
    """A Parquet file without the rows that its deletion vector hides. Commits add and remove such pairs."""

    path: str
    vector: str | None = None


Files = frozenset[LogicalFile]

# The metrics of a MERGE that count the rows it has inserted and updated, as Spark and as delta-rs call them.
_MERGE_COUNTS = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "num_target_rows_inserted",
    "num_target_rows_updated",
)


@dataclass(frozen=True)
class Commit:
    """The files of one commit.

    Attributes:
        added_files, removed_files: with a change of the data.
        rewritten_files, rewrites: removed and added without one; the rows of the former are in the latter.
        only_deletes: whether the commit says that it has deleted rows and done nothing else.
        version_before: set for a record of all commits after this version, some of them lost; else None.
    """

    version: int
    added_files: Files
    removed_files: Files
    rewritten_files: Files
    rewrites: Files
    only_deletes: bool = False
    version_before: int | None = None

    @property
    def listed_before(self) -> int:
        """The version that lists the files which it has removed."""
        return self.version - 1 if self.version_before is None else self.version_before

    def as_rewrite(self) -> "Commit":
        """The commit as if its deleted rows had never been there: it only writes the others again."""
        return replace(
            self,
            added_files=frozenset(),
            removed_files=frozenset(),
            rewritten_files=self.rewritten_files | self.removed_files,
            rewrites=self.rewrites | self.added_files,
        )


@dataclass(frozen=True)
class Loss:
    """Rows that a commit has taken out of the table.

    Attributes:
        added_at: the versions that brought those that are still gone; None among them: the table had them
            before the first commit.
        listed_at: the newest version that lists the file; None: the one before the first commit does.
        restored_at: a version by which the other rows of the file are back, as they were; None: there are no
            such rows.
    """

    path: str
    added_at: frozenset[int | None]
    listed_at: int | None
    removed_at: int
    restored_at: int | None = None


class RewrittenFile(NamedTuple):
    """A file whose rows were written again into another file, with other files' rows. `listed_at` is a
    version that lists it; it is whole unless some of its rows were erased then.
    """

    file: LogicalFile
    listed_at: int
    added_at: int
    is_whole: bool = True


@dataclass(frozen=True)
class Changes:
    """The result of a sequence of commits.

    Attributes:
        added_at: path → the versions that brought the rows of a file that is in the table now and holds new
            rows; None among them: it holds old rows, too.
        parts: path → of such a file that was put together from several, those that brought new rows. A file
            that is not a key has no parts that hold exactly its rows.
    """

    losses: tuple[Loss, ...]
    added_at: dict[str, frozenset[int | None]]
    parts: dict[str, frozenset[RewrittenFile]]

    def new_files(self, read_at: Iterable[int]) -> dict[str, int]:
        """Paths of files whose rows are all new to some of the runs that have read at the versions `read_at`,
        and the version that brought them; UNKNOWN where some rows may be new and others not, and the file's
        parts do not show which. Files whose parts do are left out: see `new_parts`.
        """
        versions = self._versions_of_all_rows(read_at)
        return {
            path: version
            for path, version in versions.items()
            if version != UNKNOWN or path not in self.parts
        }

    def new_parts(self, read_at: Iterable[int]) -> list[RewrittenFile]:
        """The files that hold the new rows of those files which hold old ones, too; each once."""
        versions = self._versions_of_all_rows(read_at)
        mixed_files = (path for path, version in versions.items() if version == UNKNOWN)
        return sorted({part for path in mixed_files for part in self.parts.get(path, ())}, key=repr)

    def are_certain(self, read_at: Iterable[int]) -> bool:
        """Whether `new_files` and `new_parts` find all rows that are new to runs at versions `read_at`."""
        versions = tuple(read_at)
        are_whole = all(part.is_whole for part in self.new_parts(versions))
        return are_whole and UNKNOWN not in self.new_files(versions).values()

    def _versions_of_all_rows(self, read_at: Iterable[int]) -> dict[str, int]:
        versions = sorted(set(read_at))
        return {path: _version_of_all_rows(added_at, versions) for path, added_at in self.added_at.items()}


def _version_of_all_rows(added_at: frozenset[int | None], read_at: Sequence[int]) -> int:
    versions = [version for version in added_at if version is not None]
    least, greatest = min(versions), max(versions)
    is_mixed = len(versions) < len(added_at) or any(least <= version < greatest for version in read_at)
    return UNKNOWN if is_mixed else greatest


def newest_commits(uri: str, first: int, last: int) -> list[Commit]:
    """Commits `first` … `last`, oldest first; if one is lost, the commits after it. Raises LogDamaged."""
    commits = [commit_of(version, actions) for version, actions in actions_newest_first(uri, first, last)]
    return commits[::-1]


def actions_newest_first(uri: str, first: int, last: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(version, actions) of the commits `last` … `first`, up to the first one that is lost. Raises
    LogDamaged.
    """
    log = filesystem(uri)
    for version in range(last, first - 1, -1):
        path = commit_path(version)
        try:
            with reads(uri), log.open_input_stream(path) as stream:
                content = stream.read()
        except FileNotFoundError:
            return
        check_commit(uri, path, content)
        yield version, [json.loads(line) for line in content.splitlines() if line.strip()]


def lost_commits(before: tuple[int, Files], after: tuple[int, Files]) -> Commit:
    """One commit in place of those between two versions, given with their files, that the log has lost."""
    (version_before, files_before), (version, files) = before, after
    return Commit(
        version=version,
        added_files=files - files_before,
        removed_files=files_before - files,
        rewritten_files=frozenset(),
        rewrites=frozenset(),
        version_before=version_before,
    )


def commit_of(version: int, actions: Sequence[dict[str, Any]]) -> Commit:
    files: dict[tuple[str, bool], set[LogicalFile]] = {
        (kind, data): set() for kind in ("add", "remove") for data in (True, False)
    }
    for action in actions:
        for kind in ("add", "remove"):
            if kind in action:
                files[kind, action[kind].get("dataChange", True)].add(file_of(action[kind]))
    add_files, remove_files, rewrites, rewritten_files = (
        frozenset(files[kind])
        for kind in (("add", True), ("remove", True), ("add", False), ("remove", False))
    )
    commit_info = commit_info_of(actions)
    return Commit(
        version=version,
        added_files=add_files - remove_files,
        removed_files=remove_files - add_files,
        rewritten_files=rewritten_files - rewrites,
        rewrites=rewrites - rewritten_files,
        only_deletes=_only_deletes(commit_info),
    )


def commit_info_of(actions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _only_deletes(commit_info: dict[str, Any]) -> bool:
    """Whether a commit says of itself that it is a DELETE, or a MERGE that has only deleted rows."""
    if commit_info.get("operation") != "MERGE":
        return commit_info.get("operation") == "DELETE"
    metrics = commit_info.get("operationMetrics") or {}
    counts = [metrics.get(name) for name in _MERGE_COUNTS]
    return all(value is None or int(value) == 0 for value in counts) and any(
        value is not None for value in counts
    )


def file_of(action: dict[str, Any]) -> LogicalFile:
    vector = DeletionVector.from_action(action)
    return LogicalFile(unquote(action["path"]), None if vector is None else vector.name)


def changes_of(
    history: Iterable[Commit],
    erasing: frozenset[int] = frozenset(),
    rewriting: frozenset[int] = frozenset(),
) -> Changes:
    """The changes that the commits `history`, oldest first, have made. Rows deleted by a version in `erasing`
    count as never there; what a version in `rewriting` has removed is in what it has added.
    """
    account = _FileAccount()
    for commit in history:
        if commit.version in erasing or commit.version in rewriting:
            account.rewrite(commit.as_rewrite(), is_exact=commit.version not in erasing)
        else:
            account.rewrite(commit)
            account.change(commit)
    return account.result()


@dataclass
class _FileAccount:
    """The files of a table, as far as the commits played so far have named them.

    Attributes:
        version_of: file → the commit that has added it with a change of the data. A file that is not a key
            was in the table before the first commit.
        origins: of each file that was written without a change of the data, the files that had brought its
            rows.
        parts: for each of these files, the files whose rows are exactly its own and its siblings' rows, but
            for erased rows, each with a version that lists it; None: there are none.
        siblings: for each of these files, the files written with it. It takes all of them to have the rows of
            their parts.
        parts_with_erased_rows: parts with rows that may be in no file any more.
        rewrites: (files before, files after) of each commit without a change of the data.
        absent_files: the files that are not in the table any more.
        removals: (file, commit) of each file that was removed with a change of the data.
        restored_at: the newest version that has brought a file back.
    """

    version_of: dict[LogicalFile, int] = field(default_factory=dict)
    origins: dict[LogicalFile, Files] = field(default_factory=dict)
    parts: dict[LogicalFile, dict[LogicalFile, int] | None] = field(default_factory=dict)
    siblings: dict[LogicalFile, Files] = field(default_factory=dict)
    parts_with_erased_rows: set[LogicalFile] = field(default_factory=set)
    rewrites: list[tuple[Files, Files]] = field(default_factory=list)
    absent_files: set[LogicalFile] = field(default_factory=set)
    removals: list[tuple[LogicalFile, Commit]] = field(default_factory=list)
    restored_at: int | None = None

    def rewrite(self, commit: Commit, *, is_exact: bool = True) -> None:
        """Play the part of a commit that does not change the data. Where it removes no file, it only says
        more about files that are in the table already. `is_exact`: whether the files that it adds hold all
        rows of those that it removes; else some of these were erased.
        """
        if commit.rewritten_files:
            origins = frozenset(origin for file in commit.rewritten_files for origin in self._origins(file))
            parts = None if len(origins) == 1 and not is_exact else self._parts_of(commit)
            if not is_exact:
                self.parts_with_erased_rows.update(parts or ())
            self.origins |= dict.fromkeys(commit.rewrites, origins)
            self.parts |= dict.fromkeys(commit.rewrites, parts)
            self.siblings |= dict.fromkeys(commit.rewrites, commit.rewrites)
            self.rewrites.append((commit.rewritten_files, commit.rewrites))
            self.absent_files |= commit.rewritten_files
            self.absent_files -= commit.rewrites

    def change(self, commit: Commit) -> None:
        """Play the part of a commit that changes the data. A file that comes back is the one that it was."""
        self.removals += [(file, commit) for file in sorted(commit.removed_files, key=repr)]
        for file in commit.added_files:
            if file in self.absent_files:
                self.restored_at = commit.version
            else:
                self.version_of[file] = commit.version
        self.absent_files |= commit.removed_files
        self.absent_files -= commit.added_files

    def _parts_of(self, commit: Commit) -> dict[LogicalFile, int] | None:
        """What the files that a commit has rewritten were put together from, as far back as that is exact."""
        parts: dict[LogicalFile, int] = {}
        for file in commit.rewritten_files:
            parts_of_file = self.parts.get(file)
            if parts_of_file is not None and self.siblings[file] <= commit.rewritten_files:
                parts |= parts_of_file
            elif len(self._origins(file)) == 1:
                parts[file] = commit.listed_before
            else:
                return None
        return parts

    def _new_parts(self, file: LogicalFile) -> frozenset[RewrittenFile] | None:
        parts = self.parts.get(file)
        if parts is None:
            return None
        new_parts = []
        for part, listed_at in parts.items():
            [origin] = self._origins(part)
            if origin in self.version_of:
                is_whole = part not in self.parts_with_erased_rows
                new_parts.append(RewrittenFile(part, listed_at, self.version_of[origin], is_whole))
        return frozenset(new_parts)

    def _origins(self, file: LogicalFile) -> Files:
        return self.origins.get(file, frozenset((file,)))

    def _was_added_by_a_commit(self, file: LogicalFile) -> bool:
        return file in self.version_of or file in self.origins

    def result(self) -> Changes:
        files_in_table = (self.version_of.keys() | self.origins.keys()) - self.absent_files
        added_at = {
            file.path: frozenset(map(self.version_of.get, self._origins(file))) for file in files_in_table
        }
        losses = tuple(self._loss(file, commit) for file, commit in self.removals)
        new_parts = {file.path: self._new_parts(file) for file in files_in_table}
        return Changes(
            losses,
            {path: versions for path, versions in added_at.items() if versions != {None}},
            {path: parts for path, parts in new_parts.items() if parts is not None},
        )

    def _loss(self, file: LogicalFile, commit: Commit) -> Loss:
        lost_origins = self._origins(file) & self._files_with_lost_rows
        return Loss(
            path=file.path,
            added_at=frozenset(map(self.version_of.get, lost_origins)),
            listed_at=commit.listed_before if self._was_added_by_a_commit(file) else None,
            removed_at=commit.version,
            restored_at=self.restored_at if lost_origins != self._origins(file) else None,
        )

    @cached_property
    def _files_with_lost_rows(self) -> set[LogicalFile]:
        """The files whose rows are not all in the table, themselves or as they were rewritten."""
        lost_files = set(self.absent_files)
        for before, after in reversed(self.rewrites):
            if after and not after & lost_files:
                lost_files -= before
        return lost_files
