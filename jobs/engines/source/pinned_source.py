"""A source at one version: which of its files hold the rows of a slice, and whether rows that earlier runs
have read are still there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from slackwater.jobs.engines.source.batches import name_in_files
from slackwater.jobs.engines.source.changes import UNKNOWN, Changes, Commit, Loss, changes_of, commits
from slackwater.jobs.engines.source.coverage import ReadRange, had_readers, read_to, rests_on
from slackwater.jobs.engines.source.files import (
    FIRST_MS,
    NOWHERE,
    Bounds,
    InputFile,
    as_list,
    files_with_bounds,
    fraction_between,
)
from slackwater.jobs.errors import UsageError
from slackwater.jobs.tables.delta.stored_files import actions_of
from slackwater.windowing.times import to_datetime


class SourceRewritten(UsageError):
    """Rows that runs have already read were changed or removed in the source."""


@dataclass(frozen=True)
class PinnedSource:
    """A source table at one version. Two runs that pin the same version read the same rows.

    Attributes:
        uri: where it stands.
        version: the Delta version.
        schema: all columns, partition columns included.
        why_not_direct: None when tasks may read the files themselves, else the reason.
        table_id: the table's own; another one that is made in its place has another.
        erasing: versions that have deleted rows which count as never written; see
            `slackwater.jobs.tables.ledger.row_kinds.RowKind.ERASE`.
    """

    uri: str
    version: int
    schema: pa.Schema
    why_not_direct: str | None
    table_id: str = ""
    erasing: frozenset[int] = frozenset()

    def without(self, erasing: frozenset[int]) -> "PinnedSource":
        """The same source, of which rows that the versions `erasing` have deleted count as never written."""
        if erasing == self.erasing:
            return self
        other = replace(self, erasing=erasing)
        vars(other).update({name: value for name, value in vars(self).items() if name == "actions"})
        return other

    @cached_property
    def actions(self) -> pa.Table:
        """Its files as `slackwater.jobs.tables.delta.stored_files.actions_of` has them, in path order. They
        are not pickled: tasks know their files.
        """
        return actions_of(DeltaTable(self.uri, version=self.version)).sort_by("path")

    @cached_property
    def _changes_by_version(self) -> "dict[int, Changes | None]":
        """The results of `_changes_since` so far, by version."""
        return {}

    @property
    def place(self) -> Any:
        """What `slackwater.jobs.engines.source.pinning.pin` takes to find it again."""
        return self.uri

    def at_version(self, version: int) -> "PinnedSource":
        """The same source at another version; its columns are those of this one."""
        return replace(self, version=version)

    def commits_since(self, version: int) -> list[Commit] | None:
        """The commits after `version` up to this version; None where one of them is gone."""
        return commits(self.uri, version + 1, self.version)

    def count_rows(self, where: Any) -> int:
        """How many rows meet a condition, an expression of Arrow."""
        return int(DeltaTable(self.uri, version=self.version).to_pyarrow_dataset().count_rows(filter=where))

    def changed_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Path → what became of those of `paths` that are not as they were pinned. Files of a Delta table
        don't change.
        """
        return {}

    def refuse_files_written_meanwhile(self, paths: Iterable[str]) -> None:
        """Refuse what was read of these files if one of them was written while it was read. Files of a Delta
        table never are.

        Raises:
            FileUnfinished: one was.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("actions", "_changes_by_version")
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
        """The files that a run of the slice [from_ms, to_ms) reads, in path order: files that may hold rows
        of it, by partition values and statistics; and files that the parent run's version `before` lacks and
        that may hold rows which arrived before the slice, or without an arrival time.

        Args:
            from_ms, to_ms: the slice.
            arrival: the column of arrival times.
            before: the source as the parent run has pinned it; None for the first run, to which all files are
                new.
            newer_reads: what live runs have read at versions newer than `before`.
            also: rows that arrived in these milliseconds are read too.
        """
        new = None if before is None else self._new_since(before, newer_reads)
        low, high = from_ms * 1000, to_ms * 1000
        chosen = []
        for file, bounds in files_with_bounds(self.actions, self.name_in_log(arrival)):
            read_ms = None if new is None else read_to(newer_reads, new.get(file.path, UNKNOWN))
            has_unread_arrivals = bounds is None or (
                bounds[0] < low and (read_ms is None or bounds[1] + 999 >= read_ms * 1000)
            )
            is_earlier = (
                before is not None and has_unread_arrivals
            )  # a lineage reads nothing from before its start
            unread = (new is None or file.path in new) and (
                is_earlier or (file.may_hold_unread and read_ms is None)
            )
            # The log may cut times to milliseconds, so the true greatest may be up to 999 µs more.
            in_slice = bounds is None or (bounds[0] < high and bounds[1] + 999 >= low)
            in_slice = in_slice or (
                bounds is not None
                and any(bounds[0] // 1000 <= ms <= (bounds[1] + 999) // 1000 for ms in also)
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
        return chosen

    def check_kept(
        self, before: "PinnedSource", from_ms: int, arrival: str, newer_reads: Sequence[ReadRange] = ()
    ) -> None:
        """Refuse a source that has lost or changed rows which runs before `from_ms` have read and none has
        read again since. Mere rewrites (compaction) are no change.

        Raises:
            SourceRewritten: such rows were changed or removed.
        """
        changes = self._changes_since(before)
        if changes is None:
            files = self._missing_files(before, from_ms, arrival)
        else:
            files = self._files_with_lost_rows(changes.losses, before, from_ms, arrival, newer_reads)
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
        """Path → earliest arrival of files with rows that live runs have read and that are gone; None: not
        known.
        """
        files: dict[str, int | None] = {}
        files_by_version: dict[int, dict[str, tuple[InputFile, Bounds | None]]] = {}
        for loss in losses:
            if not had_readers(newer_reads, loss):
                continue
            version = before.version if loss.listed_at is None else loss.listed_at
            if version not in files_by_version:
                actions = (before if version == before.version else replace(self, version=version)).actions
                files_by_version[version] = {
                    file.path: (file, bounds)
                    for file, bounds in files_with_bounds(actions, self.name_in_log(arrival))
                }
            file, bounds = files_by_version[version][loss.path]
            low, high = (
                (FIRST_MS, from_ms - 1) if bounds is None else (bounds[0] // 1000, (bounds[1] + 999) // 1000)
            )
            if file.may_hold_unread or rests_on(newer_reads, low, high, loss, from_ms):
                files[loss.path] = low if bounds is not None and bounds != NOWHERE else None
        return files

    def _missing_files(self, before: "PinnedSource", from_ms: int, arrival: str) -> dict[str, int | None]:
        """As `_files_with_lost_rows` where the log is gone: the files that are not there any more. Their rows
        can only stand in files that have come since. If one of those may hold rows that arrived before the
        slice, the result is empty: Spark then compares the rows."""
        column, paths = self.name_in_log(arrival), _paths(before)
        for file, bounds in files_with_bounds(self.actions, column):
            if file.path not in paths and (
                file.may_hold_unread or bounds is None or bounds[0] < from_ms * 1000
            ):
                return {}
        missing_paths = paths - _paths(self)
        files: dict[str, int | None] = {}
        for file, bounds in files_with_bounds(before.actions, column):
            if file.path in missing_paths and (
                file.may_hold_unread or bounds is None or bounds[0] < from_ms * 1000
            ):
                files[file.path] = None if bounds is None or bounds == NOWHERE else bounds[0] // 1000
        return files

    def name_in_log(self, column: str) -> str:
        """The name of a column in the list of files. Where Delta maps columns, that is the mapped name, but
        for columns that the table is partitioned by."""
        is_mapped = column in self.schema.names and f"partition.{column}" not in self.actions.column_names
        return name_in_files(self.schema.field(column)) if is_mapped else column

    def has_log_since(self, before: "PinnedSource") -> bool:
        """Whether the log still has all commits since `before`."""
        return self._changes_since(before) is not None

    def has_lost_files_since(self, before: "PinnedSource") -> bool:
        """Whether commits since `before` have removed data, as far as the log still says."""
        changes = self._changes_since(before)
        return changes is not None and bool(changes.losses)

    def is_certain_since(self, before: "PinnedSource", newer_reads: Sequence[ReadRange] = ()) -> bool:
        """Whether the log still tells for each file whether its rows are new since `before`, for runs that
        have read `newer_reads`.
        """
        changes = self._changes_since(before)
        return (
            changes is not None
            and UNKNOWN not in changes.new_files(item.version for item in newer_reads).values()
        )

    def added_since(self, before: "PinnedSource", read_at: Iterable[int] = ()) -> dict[str, int] | None:
        """Path → version of the files that brought new rows since `before`. None where the log does not tell
        any more, or can't tell for each of the versions `read_at` whether it had the rows."""
        changes = self._changes_since(before)
        new_files = None if changes is None else changes.new_files(read_at)
        return None if new_files is None or UNKNOWN in new_files.values() else new_files

    def names_at(self, version: int) -> dict[str, str | None]:
        """Column → its name at another version; None where that version lacks it."""
        names = {
            name_in_files(column): column.name
            for column in pa.schema(DeltaTable(self.uri, version=version).schema())
        }
        return {column.name: names.get(name_in_files(column)) for column in self.schema}

    def _new_since(self, before: "PinnedSource", newer_reads: Sequence[ReadRange] = ()) -> dict[str, int]:
        """Path → version of the files that may hold rows which `before` lacks; where the log is gone, all
        files that `before` did not have."""
        changes = self._changes_since(before)
        if changes is not None:
            return changes.new_files(item.version for item in newer_reads)
        return dict.fromkeys(_paths(self) - _paths(before), UNKNOWN)

    def _changes_since(self, before: "PinnedSource") -> Changes | None:
        """The changes that the commits after `before` have made; None where one of them is gone from the
        log."""
        changes_known = self._changes_by_version
        if before.version not in changes_known:
            history = self.commits_since(before.version)
            changes_known[before.version] = None if history is None else changes_of(history, self.erasing)
        return changes_known[before.version]


def rewritten(
    source: PinnedSource,
    before: PinnedSource,
    seen_by: str,
    least_ms: int | None = None,
    greatest_ms: int | None = None,
) -> SourceRewritten:
    """The error for a source whose covered rows have changed between two versions; `least_ms` and
    `greatest_ms` are the earliest and the last arrival among them, None where that is not known."""
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


def _paths(source: PinnedSource) -> set[str]:
    return set(map(unquote, as_list(source.actions.column("path"))))
