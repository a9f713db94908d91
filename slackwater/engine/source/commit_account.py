"""When the rows of a Delta table arrived that has no column for it: the log is played, commit by commit, with
an account of the commits that brought the rows of each file.

    version     1 (08:00)   2 (09:00)   3 (10:00)             4 (11:00)
    commit      add a       add b       compact a, b into c   delete rows of c, by a deletion vector
    dated files a 08:00     a 08:00     a 08:00               a without these rows 08:00
                            b 09:00     b 09:00               b without these rows 09:00

The rows of a file that was put together from several commits are read from the files as they were before, for
as long as these are there; so a dated file has the rows of one commit alone. Rewritten files and the dated
files that hold exactly their rows are a group. Where the table tracks rows, a rewritten file is read itself:
its rows say which commits brought them. Where a group can't be kept, its rewritten files are dated as a
whole, by the newest of the commits: no row arrives before it came.

A RESTORE puts back the files of an earlier version, and with them its dated files and groups.

A commit's time is the in-commit timestamp where it has one, else what its commitInfo says. (Delta takes the
modification time of the commit's file in its place; but that changes when a table is copied.) As in Delta it
never falls: a commit that is not later than the one before counts as one millisecond later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from slackwater.engine.source.changes import (
    Commit,
    Files,
    LogicalFile,
    actions_newest_first,
    commit_info_of,
    commit_of,
    file_of,
)
from slackwater.engine.source.dated_files import (
    Arrival,
    CommitAccount,
    DatedFile,
    Group,
    KnownFiles,
    arrival_of_all,
    dated_files_of,
    members_of,
)
from slackwater.engine.source.deletion_vectors import DeletionVector
from slackwater.engine.source.tracked_arrivals import TrackedArrivals
from slackwater.errors import UsageError

_MS = 1000  # in microseconds


class CommitTimeMissing(UsageError):
    """A commit that has brought rows does not say when it was made. Facts: uri, version."""


@dataclass(frozen=True)
class TableFolder:
    """What the account asks of the folder of the table.

    Attributes:
        missing: which of some paths are not there any more.
        tracked_arrivals: None where the table does not track rows.
        vectors_of_lost_rows: (files, oldest first; the files that hold what is left of their rows) → the
            vectors that hide the others, for each of the former that has lost rows; None where they can't be
            compared.
    """

    missing: Callable[[Sequence[str]], set[str]]
    tracked_arrivals: TrackedArrivals | None
    vectors_of_lost_rows: Callable[
        [Mapping[LogicalFile, DatedFile], Mapping[LogicalFile, DatedFile]],
        Mapping[LogicalFile, DeletionVector] | None,
    ]


class _Step(NamedTuple):
    commit: Commit
    actions: Sequence[dict[str, Any]]


def account_of(
    uri: str,
    version: int,
    listed_files: Mapping[LogicalFile, DatedFile],
    folder: TableFolder,
    *,
    since: int,
    recorded_arrivals: Mapping[str, Arrival],
    recorded_at: Callable[[int], KnownFiles | None],
    newest_recorded: Callable[[int], KnownFiles | None],
) -> CommitAccount:
    """The account of the commits up to `version`, which lists `listed_files`, from a version at or before
    `since` whose files are recorded just as the table has them, else from the oldest commit that the log has.

    Args:
        recorded_arrivals: path → its arrival, as a run has recorded it: what the log says later on does not
            change it.
        recorded_at, newest_recorded: what runs have recorded of a version, and of the newest one up to it.

    Raises:
        CommitTimeMissing: a commit that brought rows has no time.
        LogDamaged: a commit can't be read.
    """
    steps, first_files, restored_versions, first_state = _commits_since_known_files(
        uri, version, listed_files, since, recorded_at
    )
    if first_state is None:
        first = version - len(steps)
        described_files = {**_descriptions_in(steps), **listed_files}
        first_state = _known_before(steps, first, first_files, described_files, recorded_arrivals)
        if (recorded_state := newest_recorded(first)) is not None:
            first_state = _with_groups(first_state, recorded_state)
    descriptions = {**_descriptions_in(steps), **first_state.descriptions, **listed_files}
    player = _Player(
        uri=uri,
        folder=folder,
        listed_files=frozenset(listed_files),
        recorded_arrivals=recorded_arrivals,
        first_state=first_state,
        descriptions=descriptions,
        restored_versions=restored_versions,
    )
    first_dated_files = frozenset(player.arrivals)
    commits = tuple(player.play(step) for step in reversed(steps))
    return CommitAccount(
        first=first_state.version,
        version=version,
        first_files=first_dated_files,
        arrivals=player.all_arrivals,
        descriptions=player.descriptions,
        groups=tuple(dict.fromkeys(player.group_of.values())),
        commits=commits,
    )


class _CommitsSinceKnownFiles(NamedTuple):
    """The newest commits of the log, newest first, with the files before the oldest of them.

    Attributes:
        restored_versions: each RESTORE among them → the version whose files it has put back.
        first_state: what is recorded of the files before them; None where these are all the log has.
    """

    steps: Sequence[_Step]
    first_files: Files
    restored_versions: Mapping[int, int]
    first_state: KnownFiles | None


def _commits_since_known_files(
    uri: str,
    version: int,
    listed_files: Iterable[LogicalFile],
    since: int,
    recorded_at: Callable[[int], KnownFiles | None],
) -> _CommitsSinceKnownFiles:
    """The commits up to `version`, undone one by one until the files are those recorded of a version at or
    before `since`, from which no RESTORE among them has put back older ones.
    """
    files = set(listed_files)
    steps: list[_Step] = []
    files_left_by: dict[int, Files] = {}  # RESTORE → its files, until the version that had them is found
    restored_versions: dict[int, int] = {}
    log = actions_newest_first(uri, 0, version)
    while True:
        first = version - len(steps)
        for number in [number for number, restored_files in files_left_by.items() if restored_files == files]:
            restored_versions[number] = first
            files_left_by.pop(number)
        first_state = recorded_at(first) if first <= since and not files_left_by else None
        if first_state is not None and first_state.files_in_table == files:
            return _CommitsSinceKnownFiles(steps, frozenset(files), restored_versions, first_state)
        number, actions = next(log, (-1, []))
        if number < 0:
            return _CommitsSinceKnownFiles(steps, frozenset(files), restored_versions, None)
        commit = commit_of(number, actions)
        steps.append(_Step(commit, actions))
        if commit_info_of(actions).get("operation") == "RESTORE":
            files_left_by[number] = frozenset(files)
        files -= commit.added_files | (commit.rewrites if commit.rewritten_files else frozenset())
        files |= commit.removed_files | commit.rewritten_files


def _known_before(
    steps: Sequence[_Step],
    version: int,
    files: Iterable[LogicalFile],
    descriptions: Mapping[LogicalFile, DatedFile],
    recorded_arrivals: Mapping[str, Arrival],
) -> KnownFiles:
    """Files from before the oldest commit of the log: when the record says, else when they were written, but
    not after that commit.
    """
    oldest_us = next((time for step in reversed(steps) if (time := _own_time(step)) is not None), None)
    arrivals = {}
    for file in files:
        modified_us = descriptions[file].modified_us if file in descriptions else None
        times = [time for time in (modified_us, oldest_us) if time is not None]
        time_us = min(times, default=0)
        arrivals[file] = recorded_arrivals.get(file.path) or Arrival(time_us, max(version, 0), time_us)
    return KnownFiles(version, arrivals, descriptions)


def _descriptions_in(steps: Iterable[_Step]) -> dict[LogicalFile, DatedFile]:
    """What commits say of the files that they remove and, before that, of those that they add."""
    actions = [action for step in steps for action in step.actions]
    return {
        file_of(action[kind]): DatedFile.from_action(action[kind])
        for kind in ("remove", "add")
        for action in actions
        if kind in action
    }


def _with_groups(files: KnownFiles, recorded_state: KnownFiles) -> KnownFiles:
    """Files from before the oldest commit of the log, with the groups of them that were recorded earlier."""
    groups = tuple(group for group in recorded_state.groups if group.members <= files.arrivals.keys())
    arrivals = {file: files.arrivals[file] for file in files.arrivals.keys() - members_of(groups)}
    dated_files = dated_files_of(groups)
    return files._replace(
        arrivals={**arrivals, **{file: recorded_state.arrivals[file] for file in dated_files}},
        descriptions={**recorded_state.descriptions, **files.descriptions},
        groups=groups,
    )


def _own_time(step: _Step) -> int | None:
    """The time of a commit in microseconds, as it says itself."""
    commit_info = commit_info_of(step.actions)
    time_ms = commit_info.get("inCommitTimestamp", commit_info.get("timestamp"))
    return None if time_ms is None else int(time_ms) * _MS


class _DatedState(NamedTuple):
    arrivals: Mapping[LogicalFile, Arrival]
    group_of: Mapping[LogicalFile, Group]


@dataclass
class _Player:
    """Plays commits, oldest first.

    Attributes:
        arrivals: the dated files, as of the last commit.
        all_arrivals: of all dated files that there ever were.
        arrivals_by_path: of the files whose rows have one arrival.
        restored_versions: each RESTORE → the version whose files it has put back, all of them.
        states: the dated files and the groups of each version that a RESTORE puts back.
        group_of: each file of the table that is in a group → the group.
        groups_gone: files that were in groups → the newest of these groups.
        time_us: of the last commit; None: not known.
    """

    uri: str
    folder: TableFolder
    listed_files: Files
    recorded_arrivals: Mapping[str, Arrival]
    first_state: KnownFiles
    descriptions: dict[LogicalFile, DatedFile]
    restored_versions: Mapping[int, int]
    arrivals: dict[LogicalFile, Arrival] = field(init=False)
    all_arrivals: dict[LogicalFile, Arrival] = field(init=False)
    arrivals_by_path: dict[str, Arrival] = field(init=False)
    group_of: dict[LogicalFile, Group] = field(default_factory=dict)
    groups_gone: dict[LogicalFile, Group] = field(default_factory=dict)
    states: dict[int, "_DatedState"] = field(default_factory=dict)
    time_us: int | None = None

    def __post_init__(self) -> None:
        self.arrivals = dict(self.first_state.arrivals)
        self.all_arrivals = dict(self.arrivals)
        self.arrivals_by_path = {file.path: arrival for file, arrival in self.arrivals.items()}
        self.time_us = max((arrival.time_us for arrival in self.arrivals.values()), default=None)
        for group in self.first_state.groups:
            self._put_together(group.members, group.dated_files)
        self._keep_state(self.first_state.version)

    def play(self, step: _Step) -> Commit:
        """Play a commit; returns what it does to the dated files."""
        commit = step.commit
        if self.folder.tracked_arrivals is not None:
            self.folder.tracked_arrivals.play(step.actions)
        own_us = _own_time(step)
        if own_us is not None:
            self.time_us = own_us if self.time_us is None else max(own_us, self.time_us + _MS)
        before = between = frozenset(self.arrivals)
        if commit.version in self.restored_versions:
            state = self.states[self.restored_versions[commit.version]]
            self.arrivals, self.group_of = dict(state.arrivals), dict(state.group_of)
        else:
            if commit.rewritten_files:
                self._rewrite(commit)
            between = frozenset(self.arrivals)
            if commit.added_files or commit.removed_files:
                self._change(commit, has_time=own_us is not None)
        after = frozenset(self.arrivals)
        self._keep_state(commit.version)
        return replace(
            commit,
            rewritten_files=before - between,
            rewrites=between - before,
            removed_files=between - after,
            added_files=after - between,
        )

    def _keep_state(self, version: int) -> None:
        if version in self.restored_versions.values():
            self.states[version] = _DatedState(dict(self.arrivals), dict(self.group_of))

    def _rewrite(self, commit: Commit) -> None:
        """The rows stay what they are: all groups that the commit touches become one."""
        groups = self._take_groups(commit.rewritten_files)
        dated_files = dated_files_of(groups) | self._with_arrivals(
            commit.rewritten_files - members_of(groups)
        )
        members = (members_of(groups) - commit.rewritten_files) | commit.rewrites
        self._put_together(members, dated_files)

    def _change(self, commit: Commit, *, has_time: bool) -> None:
        """Rows come and go. A file with another deletion vector, or a restored one, keeps its arrival."""
        groups = self._take_groups(commit.removed_files)
        was_member = {file.path for file in members_of(groups)}
        removed_files = self._with_arrivals(commit.removed_files - members_of(groups))
        rewritten_members = frozenset(file for file in commit.added_files if file.path in was_member)
        members = (members_of(groups) - commit.removed_files) | rewritten_members
        added_files = commit.added_files - rewritten_members
        known_files = frozenset(file for file in added_files if file.path in self.arrivals_by_path)
        new_files = added_files - known_files
        dated_files = dated_files_of(groups)
        origins = dated_files | removed_files
        if commit.only_deletes and new_files:  # It has copied the rows that are left.
            paths_again = {file.path for file in known_files}
            copied_files = frozenset(file for file in removed_files if file.path not in paths_again)
            if copied_files or groups:
                members, dated_files, new_files = members | new_files, dated_files | copied_files, frozenset()
                removed_files -= copied_files
        for file in removed_files:
            self.arrivals.pop(file)
        self._shrink(members, dated_files)
        for file in known_files:
            self._date(file, self.arrivals_by_path[file.path])
        for file in new_files:
            arrival = self._arrival_of_new(file, commit, has_time=has_time)
            tracked_arrivals = self._tracked_arrivals([file], origins, arrival) if origins else None
            self._date(file, arrival if tracked_arrivals is None else tracked_arrivals[file])

    def _arrival_of_new(self, file: LogicalFile, commit: Commit, *, has_time: bool) -> Arrival:
        if file in self.groups_gone:  # It comes back without the others of its group.
            return arrival_of_all(self.all_arrivals[one] for one in self.groups_gone[file].dated_files)
        recorded_arrival = self.recorded_arrivals.get(file.path)
        if recorded_arrival is not None:
            self.time_us = max(
                recorded_arrival.time_us, recorded_arrival.time_us if self.time_us is None else self.time_us
            )
            return recorded_arrival
        if not has_time or self.time_us is None:
            raise CommitTimeMissing(
                f"source {self.uri}: commit {commit.version} does not say when it was made (its commitInfo "
                "has no inCommitTimestamp and no timestamp), so nobody knows when its rows arrived. Let the "
                "table's writer fill a column with the arrival of each row, and name it in the declaration: "
                'arrival_time="…".',
                uri=self.uri,
                version=commit.version,
            )
        return Arrival(self.time_us, commit.version, self.time_us)

    # --- groups

    def _take_groups(self, files: Files) -> frozenset[Group]:
        """The groups of some files; they are groups no more."""
        groups = frozenset(self.group_of[file] for file in files if file in self.group_of)
        for group in groups:
            for file in group.members:
                self.group_of.pop(file)
                self.groups_gone[file] = group
        return groups

    def _put_together(self, members: Files, dated_files: Files, *, is_exact: bool = True) -> None:
        """Have `members` hold the rows of `dated_files`, which are dated already; with `is_exact` False only
        some of them.
        """
        arrivals = {self.arrivals[file] for file in dated_files}
        is_mixed = len({arrival[:3] for arrival in arrivals}) > 1 or any(
            len(arrival.commits) > 1 for arrival in arrivals
        )
        tracked_arrivals = self._tracked_arrivals(members, dated_files)
        if tracked_arrivals is None and members and is_mixed and is_exact and self._are_there(dated_files):
            self.group_of |= dict.fromkeys(members, Group(members, dated_files))
            return
        for file in dated_files - members:
            self.arrivals.pop(file)
        if arrivals:
            for file in members:
                self._date(
                    file, arrival_of_all(arrivals) if tracked_arrivals is None else tracked_arrivals[file]
                )

    def _tracked_arrivals(
        self, files: Iterable[LogicalFile], origins: Files, own_arrival: Arrival | None = None
    ) -> dict[LogicalFile, Arrival] | None:
        """See `TrackedArrivals.arrivals_of`; None where the table does not track rows."""
        if self.folder.tracked_arrivals is None:
            return None
        arrivals = {file: self.all_arrivals[file] for file in origins}
        return self.folder.tracked_arrivals.arrivals_of(files, arrivals, own_arrival)

    def _shrink(self, members: Files, dated_files: Files) -> None:
        """Have `members` hold some rows of `dated_files`, all others of which are gone."""
        vectors: Mapping[LogicalFile, DeletionVector] | None = None
        is_mixed = len({self.arrivals[file] for file in dated_files}) > 1
        is_tracked = self._tracked_arrivals(members, dated_files) is not None
        if members and is_mixed and not is_tracked and self._are_there(dated_files):
            oldest_first = sorted(dated_files, key=lambda file: (self.arrivals[file].time_us, file.path))
            vectors = self.folder.vectors_of_lost_rows(
                {file: self.descriptions[file] for file in oldest_first},
                {file: self.descriptions[file] for file in members},
            )
        if vectors is not None:
            dated_files = dated_files.difference(vectors) | self._hide(vectors)
        self._put_together(members, dated_files, is_exact=vectors is not None)

    def _hide(self, vectors: Mapping[LogicalFile, DeletionVector]) -> Files:
        """Give dated files other deletion vectors; returns those that have rows left."""
        shrunk_files = set()
        for file, vector in vectors.items():
            arrival, description = self.arrivals.pop(file), self.descriptions[file]
            if vector.rows != description.rows:
                shrunk_file = LogicalFile(file.path, vector.name)
                self.descriptions[shrunk_file] = description._replace(vector=vector)
                self._date(shrunk_file, arrival)
                shrunk_files.add(shrunk_file)
        return frozenset(shrunk_files)

    def _are_there(self, files: Files) -> bool:
        listed_paths = {file.path for file in self.listed_files}
        return not self.folder.missing(sorted({file.path for file in files} - listed_paths))

    def _with_arrivals(self, files: Files) -> Files:
        return frozenset(file for file in files if file in self.arrivals)

    def _date(self, file: LogicalFile, arrival: Arrival) -> None:
        self.arrivals[file] = self.all_arrivals[file] = self.arrivals_by_path[file.path] = arrival
