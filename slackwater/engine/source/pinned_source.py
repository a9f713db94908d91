"""A source at one version: the files of a slice, and whether rows that earlier runs have read still exist."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, starmap
from typing import Any, ClassVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from slackwater.engine.source.batches import name_in_files
from slackwater.engine.source.changes import (
    UNKNOWN,
    Changes,
    Commit,
    LogicalFile,
    Loss,
    RewrittenFile,
    changes_of,
    lost_commits,
    newest_commits,
)
from slackwater.engine.source.computed_columns import description, is_computed
from slackwater.engine.source.coverage import ReadRange, had_readers, read_to, rests_on
from slackwater.engine.source.file_record import FileRecord
from slackwater.engine.source.files import (
    FIRST_MS,
    NOWHERE,
    Bounds,
    InputFile,
    actions_with_vectors,
    files_with_bounds,
    fraction_between,
    has_arrivals_before,
    logical_files,
)
from slackwater.engine.source.row_groups import SourceFile
from slackwater.engine.source.stored_arrivals import StoredArrivals, recorded_files
from slackwater.errors import UsageError
from slackwater.windowing.times import to_datetime


class SourceRewritten(UsageError):
    """Rows that runs have already read were changed or removed in the source."""


class NewRowsNotKnown(SourceRewritten):
    """Nothing says any more which rows of the source are new and which were read."""


@dataclass(frozen=True)
class DeltaPlace:
    """The place of a Delta source, and of the pipeline's record of its files."""

    uri: str
    record_uri: str


@dataclass(frozen=True)
class PinnedSource:
    """A source table at one version. Two runs that pin the same version read the same rows.

    Attributes:
        why_not_direct: None when tasks may read the files themselves, else the reason.
        table_id: the table's own; a table that is made in its place has another.
        erasing: versions that have deleted rows which count as never written, see `RowKind.ERASE`.
        rewriting: versions that, by a comparison, have only written again what runs have read.
        file_record_uri: where a pipeline records its files; None: nowhere.
        notes: sentences on what could not be checked.
        conflicts: columns whose values no type holds, and why; the schema lacks them.
    """

    uri: str
    version: int
    schema: pa.Schema
    why_not_direct: str | None
    table_id: str = ""
    erasing: frozenset[int] = frozenset()
    rewriting: frozenset[int] = frozenset()
    file_record_uri: str | None = None
    notes: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()

    keeps_removed_files: ClassVar[bool] = True
    caches_of_version: ClassVar[tuple[str, ...]] = ("actions", "record")

    def without(self, erasing: frozenset[int]) -> "PinnedSource":
        if erasing == self.erasing:
            return self
        return self._with_caches(replace(self, erasing=erasing))

    def with_rewrites(self, versions: Iterable[int], *notes: str) -> "PinnedSource":
        return self._with_caches(
            replace(self, rewriting=self.rewriting | set(versions), notes=(*self.notes, *notes))
        )

    def _with_caches(self, other: "PinnedSource") -> "PinnedSource":
        caches = {name: value for name, value in vars(self).items() if name in self.caches_of_version}
        vars(other).update(caches)
        return other

    @cached_property
    def actions(self) -> pa.Table:
        """Its files as `actions_with_vectors` has them, not pickled: tasks know their files. Raises
        DeltaError where neither the log nor the record has the version any more.
        """
        try:
            return self.listed_actions()
        except DeltaError:
            record = self.record
            recorded_actions = None if record is None else record.actions_at(self.version, self.schema)
            if recorded_actions is None:
                raise
            return recorded_actions

    def listed_actions(self) -> pa.Table:
        """Its files as the log lists them. Raises DeltaError where that has lost the version."""
        return actions_with_vectors(DeltaTable(self.uri, version=self.version), self.uri)

    @cached_property
    def record(self) -> FileRecord | None:
        uri = self.file_record_uri
        return None if uri is None else FileRecord(f"{uri}-{self.table_id}")

    @cached_property
    def _changes_by_version(self) -> dict[int, Changes]:
        return {}

    @cached_property
    def _histories(self) -> dict[int, list[Commit]]:
        return {}

    @property
    def place(self) -> Any:
        """What `pinning.pin` takes to find it again."""
        return self.uri if self.file_record_uri is None else DeltaPlace(self.uri, self.file_record_uri)

    def recorded_at(self, version: int) -> "PinnedSource | None":
        """The source at a version that its log has lost, from the pipeline's record; None: not recorded."""
        if self.record is None or version not in self.record.versions:
            return None
        return self.at_version(version)

    def at_version(self, version: int) -> "PinnedSource":
        """The same source, with its record and columns, at another version."""
        other = replace(self, version=version)
        vars(other).update({name: value for name, value in vars(self).items() if name == "record"})
        return other

    def commits_since(self, version: int) -> list[Commit] | None:
        """The commits after `version` up to this version; None where one of them is gone."""
        newest = newest_commits(self.uri, version + 1, self.version)
        return newest if len(newest) == self.version - version else None

    def history_since(self, before: "PinnedSource") -> list[Commit]:
        """The commits after `before` up to this version, oldest first; for those that the log has lost, and
        those before them, the differences between the versions that are still known. Raises DeltaError where
        the files of `before` are not.
        """
        newest = newest_commits(self.uri, before.version + 1, self.version)
        end = self.version - len(newest)
        if end == before.version:
            return newest
        states = {before.version: logical_files(before.actions)}
        if self.record is not None:
            states |= self.record.logical_files_between(before.version, end)
        # A log begins with a checkpoint: what was there before its oldest commit, it may not say.
        for kept in (newest, newest[1:], []):
            version = self.version - len(kept)
            try:
                states[version] = logical_files(
                    (self if version == self.version else self.at_version(version)).actions
                )
            except DeltaError:
                continue
            break
        return [*starmap(lost_commits, pairwise(states.items())), *kept]

    def record_files(self, arrival: str) -> None:
        """Record its files, with the bounds of their arrivals, for runs that go on from this version."""
        if self.record is None:
            return
        column = self.name_in_log(arrival)
        self.record.add(self.version, recorded_files(self.files_with_bounds(arrival), column))

    def count_rows(self, where: Any, columns: Sequence[str]) -> int:
        """How many rows meet an Arrow expression on `columns`; every file is read."""
        batches = (
            batch
            for file, _ in files_with_bounds(self.actions, "")
            for batch in SourceFile(self.uri, file, self.schema).batches(columns, None)
        )
        return sum(batch.rows.filter(where).num_rows for batch in batches)

    def changed_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Path → what became of a file since it was pinned. Files of a Delta table don't change."""
        return {}

    def refuse_files_written_meanwhile(self, paths: Iterable[str]) -> None:
        """Raise FileUnfinished if a file was written while it was read. Files of a Delta table never are."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("actions", "record", "_changes_by_version", "_histories")
        }

    def files(
        self,
        from_ms: int,
        to_ms: int,
        arrival: str,
        before: "PinnedSource | None",
        *,
        newer_reads: Sequence[ReadRange] = (),
        also: Sequence[int] = (),
    ) -> list[InputFile]:
        """The files that a run of the slice [from_ms, to_ms) reads: in path order, files that may hold rows
        of it, by partition values and statistics, and files that the parent run's version `before` lacks and
        that may hold rows which arrived before the slice, or without an arrival time. Where such a file was
        written again together with older ones, it is read as it was before: these files come last.

        Args:
            before: the source as the parent run has pinned it; None for the first run, to which all files are
                new.
            newer_reads: what live runs have read at versions newer than `before`.
            also: rows that arrived in these milliseconds are read too.
        """
        new = None
        if before is not None:
            new = self._changes_since(before).new_files(item.version for item in newer_reads)
        low, high = from_ms * 1000, to_ms * 1000
        chosen = []
        for file, bounds in self.files_with_bounds(arrival):
            read_ms = None if new is None else read_to(newer_reads, new.get(file.path, UNKNOWN))
            # A lineage reads nothing from before its start.
            is_earlier = before is not None and has_arrivals_before(from_ms, bounds, read_ms)
            unread = (new is None or file.path in new) and (
                is_earlier or (file.may_hold_unread and read_ms is None)
            )
            in_slice = bounds is None or (bounds[0] < high and bounds[1] >= low)
            in_slice = in_slice or (
                bounds is not None and any(bounds[0] // 1000 <= ms <= bounds[1] // 1000 for ms in also)
            )
            if in_slice or unread:
                fraction = 1.0 if unread or bounds is None else fraction_between(bounds, low, high)
                chosen.append(
                    replace(
                        file,
                        may_hold_unread=unread,
                        read_to_ms=read_ms if unread else None,
                        fraction=fraction,
                    )
                )
        parts = () if before is None else self.new_parts(before, from_ms, arrival, newer_reads)
        return [*chosen, *(file for file, _ in parts)]

    def new_parts(
        self,
        before: "PinnedSource",
        from_ms: int,
        arrival: str,
        newer_reads: Sequence[ReadRange] = (),
        *,
        are_whole: bool = True,
    ) -> list[tuple[InputFile, Bounds | None]]:
        """The files, with the bounds of their arrivals, that hold rows which arrived before `from_ms`, or
        without an arrival, which no run has read, and which since `before` were written again into files that
        hold rows which runs have read. With `are_whole` False: such files that lost rows by an erasure then.
        """
        parts_by_version: dict[int, dict[LogicalFile, RewrittenFile]] = {}
        for part in self._changes_since(before).new_parts(item.version for item in newer_reads):
            if part.is_whole is are_whole:
                parts_by_version.setdefault(part.listed_at, {})[part.file] = part
        files = []
        for version, parts in sorted(parts_by_version.items()):
            for file, bounds in self.at_version(version).files_with_bounds(arrival, parts):
                read_ms = read_to(newer_reads, parts[file.logical_file].added_at)
                if has_arrivals_before(from_ms, bounds, read_ms) or (
                    file.may_hold_unread and read_ms is None
                ):
                    part_file = replace(file, may_hold_unread=True, read_to_ms=read_ms, listed_at=version)
                    files.append((part_file, bounds))
        return files

    def files_with_bounds(
        self, arrival: str, among: Collection[LogicalFile] | None = None
    ) -> list[tuple[InputFile, Bounds | None]]:
        """Its files, or those `among` them, with the least and the greatest arrival in microseconds, as
        `slackwater.engine.source.files.files_with_bounds` has them or else `StoredArrivals`; None if neither.
        """
        column = self.name_in_log(arrival)
        listed_files = [
            (file, bounds)
            for file, bounds in files_with_bounds(self.actions, column)
            if among is None or file.logical_file in among
        ]
        if all(bounds is not None for _, bounds in listed_files):
            return listed_files
        stored_arrivals = StoredArrivals(
            uri=self.uri,
            schema=self.schema,
            arrival=arrival,
            column=column,
            record=self.record,
            has_readable_files=self.why_not_direct is None,
        )
        return stored_arrivals.with_missing_bounds(listed_files)

    def check_kept(
        self, before: "PinnedSource", from_ms: int, arrival: str, newer_reads: Sequence[ReadRange] = ()
    ) -> None:
        """Raise SourceRewritten where rows that runs before `from_ms` have read, and none has read again
        since, are lost or changed. Mere rewrites (compaction) are no change.
        """
        losses = self._changes_since(before).losses
        files = self._files_with_lost_rows(losses, before, from_ms, arrival, newer_reads)
        if files:
            least = None if None in files.values() else min(low for low in files.values() if low is not None)
            raise rewritten(self, before, f"{len(files)} files, e.g. {min(files)}", least)

    def _files_with_lost_rows(
        self,
        losses: Iterable[Loss],
        before: "PinnedSource",
        from_ms: int,
        arrival: str,
        newer_reads: Sequence[ReadRange],
    ) -> dict[str, int | None]:
        """Path → earliest arrival, None if not known, of files with lost rows that live runs have read."""
        losses_by_version: dict[int, list[Loss]] = {}
        for loss in losses:
            if had_readers(newer_reads, loss):
                version = before.version if loss.listed_at is None else loss.listed_at
                losses_by_version.setdefault(version, []).append(loss)
        losses_with_files = [
            (loss, *files_by_path[loss.path])
            for version, losses_of_version in losses_by_version.items()
            for files_by_path in [self._files_at(version, before, losses_of_version, arrival)]
            for loss in losses_of_version
        ]
        files: dict[str, int | None] = {}
        for loss, file, bounds in losses_with_files:
            low, high = (FIRST_MS, from_ms - 1) if bounds is None else (bounds[0] // 1000, bounds[1] // 1000)
            if file.may_hold_unread or rests_on(newer_reads, low, high, loss, from_ms):
                files[loss.path] = low if bounds is not None and bounds != NOWHERE else None
        return files

    def _files_at(
        self, version: int, before: "PinnedSource", losses: Iterable[Loss], arrival: str
    ) -> dict[str, tuple[InputFile, Bounds | None]]:
        source = before if version == before.version else self.at_version(version)
        paths = {loss.path for loss in losses}
        among = {file for file in logical_files(source.actions) if file.path in paths}
        return {file.path: (file, bounds) for file, bounds in source.files_with_bounds(arrival, among)}

    def files_dated_as_a_whole(self) -> list[tuple[InputFile, Bounds]]:
        """Files with rows of several commits, undivided: they arrive at the end of their bounds."""
        return []

    def name_in_log(self, column: str) -> str:
        """A column's name in the file list: mapped if Delta maps columns, except partition columns. The list
        knows no computed column; the name is then the one under which the pipeline records its arrivals.
        """
        if column in self.schema.names and is_computed(self.schema.field(column)):
            return description(self.schema, column)
        is_mapped = column in self.schema.names and f"partition.{column}" not in self.actions.column_names
        return name_in_files(self.schema.field(column)) if is_mapped else column

    def has_lost_files_since(self, before: "PinnedSource") -> bool:
        """Whether commits since `before` have removed data, as far as its files are still known."""
        return self._has_history_since(before) and bool(self._changes_since(before).losses)

    def lost_commits_since(self, before: "PinnedSource") -> list[Commit]:
        return [commit for commit in self._history_since(before) if commit.version_before is not None]

    def is_certain_since(self, before: "PinnedSource", newer_reads: Sequence[ReadRange] = ()) -> bool:
        """Whether it is known which rows are new since `before`, for runs that read `newer_reads`."""
        versions = {item.version for item in newer_reads}
        is_between = any(
            commit.listed_before < version < commit.version
            for commit in self.lost_commits_since(before)
            for version in versions
        )
        return not is_between and self._changes_since(before).are_certain(versions)

    def added_since(self, before: "PinnedSource", read_at: Iterable[int] = ()) -> dict[str, int] | None:
        """Path → version of the files that brought new rows since `before`; None where it is not known for
        each of the versions `read_at` whether it had the rows.
        """
        versions = tuple(read_at)
        reads = [ReadRange(0, 0, version) for version in versions]
        if not self._has_history_since(before) or not self.is_certain_since(before, reads):
            return None
        changes = self._changes_since(before)
        parts = {part.file.path: part.added_at for part in changes.new_parts(versions)}
        return {**changes.new_files(versions), **parts}

    def names_at(self, version: int) -> dict[str, str | None]:
        """Column → its name at another version; None where that version lacks it."""
        names = {
            name_in_files(column): column.name
            for column in pa.schema(DeltaTable(self.uri, version=version).schema())
        }
        return {column.name: names.get(name_in_files(column)) for column in self.schema}

    def _history_since(self, before: "PinnedSource") -> list[Commit]:
        if before.version not in self._histories:
            self._histories[before.version] = self.history_since(before)
        return self._histories[before.version]

    def _has_history_since(self, before: "PinnedSource") -> bool:
        try:
            self._history_since(before)
        except DeltaError:
            return False
        return True

    def _changes_since(self, before: "PinnedSource") -> Changes:
        if before.version not in self._changes_by_version:
            self._changes_by_version[before.version] = changes_of(
                self._history_since(before), self.erasing, self.rewriting
            )
        return self._changes_by_version[before.version]


def rewritten(
    source: PinnedSource,
    before: PinnedSource,
    seen_by: str,
    least_ms: int | None = None,
    greatest_ms: int | None = None,
) -> SourceRewritten:
    """The error for covered rows that changed between two versions, with their first and last arrivals."""
    earliest = "" if least_ms is None else f", arrivals from {to_datetime(least_ms):%Y-%m-%dT%H:%M:%S}Z on"
    if least_ms is not None and greatest_ms is not None:
        earliest = earliest.removesuffix(" on") + f" to {to_datetime(greatest_ms):%Y-%m-%dT%H:%M:%S}Z"
    return SourceRewritten(
        f"source {source.uri}: rows that runs have already read were changed or removed between version "
        f"{before.version}, which the run "
        f"before was pinned to, and version {source.version} ({seen_by}{earliest}).",
        uri=source.uri,
        before=before.version,
        version=source.version,
        least_ms=least_ms,
        greatest_ms=greatest_ms,
    )
