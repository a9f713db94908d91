"""The rows that commits have changed in the source, found row by row: the files that a commit has removed are
compared with the files that it has added, as multisets of rows.

    commit 7     removes a.parquet: r1 r2 r3 r4 …      changed rows: r3 (removed), r3' (added)
                 adds    b.parquet: r1 r2 r3' r4 …     all others were only written again

A row counts as changed if any of its columns did; it is placed by its arrival. Where rows arrive with
commits, the files of the version that a run has read are compared with those of now, whatever commits have
done in between: a RESTORE may have brought back what others have removed.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from slackwater.engine.source.changes import Commit, LogicalFile
from slackwater.engine.source.commit_dated_source import CommitDatedSource, FileChanges
from slackwater.engine.source.coverage import ReadRange, version_read
from slackwater.engine.source.files import FIRST_MS, LAST_MS, InputFile, files_with_bounds
from slackwater.engine.source.lost_history import check_new_rows, kept_by_counts
from slackwater.engine.source.lost_rows import COMPARED_BYTES
from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten, rewritten
from slackwater.engine.source.row_comparison import count_changed_rows, in_microseconds
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.errors import WarehouseNotReadable
from slackwater.windowing.times import LATEST_MS

Int64s = npt.NDArray[np.int64]


class RowChanges(NamedTuple):
    """The rows that commits have changed.

    Attributes:
        version: of the commit, or of the newest one that is compared.
        arrivals: int64[n], their different arrivals in milliseconds, ascending.
        added_counts, removed_counts: int64[n], how many rows of each arrival it has put in and taken out.
        undated_count: how many added or removed rows have no arrival, or one that no slice can hold.
    """

    version: int
    arrivals: Int64s
    added_counts: Int64s
    removed_counts: Int64s
    undated_count: int


def row_changes_since(
    source: PinnedSource, before: PinnedSource, arrival: str, reads: Sequence[ReadRange] | None = None
) -> tuple[RowChanges, ...] | None:
    """The changed rows of each commit since `before` that has removed data; `arrival` is the column of
    arrival times. Of a source dated by commits: the changed rows of those that `reads` have read last at each
    of their versions, by default all at `before`. None where they can't be compared: a file is gone, only
    Spark can read the source, or its log has lost commits that have written more than `COMPARED_BYTES` again.
    """
    if (
        not source.keeps_removed_files
        or source.why_not_direct is not None
        or before.why_not_direct is not None
    ):
        return None
    if _bytes_of_lost_commits(source, before, arrival) > COMPARED_BYTES:
        return None
    if reads is None:
        reads = [ReadRange(FIRST_MS, LAST_MS, before.version)]
    try:
        return _row_changes(_Key(source, before, arrival, tuple(reads)))
    except (DeltaError, WarehouseNotReadable, FileNotFoundError):
        return None


def kept_row_by_row(
    source: PinnedSource,
    before: PinnedSource,
    from_ms: int,
    arrival: str,
    newer_reads: Sequence[ReadRange] = (),
) -> PinnedSource:
    """The source as a run that starts at `from_ms` reads it on from `before`. Where its files do not show
    that all rows are there which live runs have read, but rows do, commits that have removed files count as
    mere rewrites. Else SourceRewritten is raised.
    """
    kept_source = _kept(source, before, from_ms, arrival, newer_reads)
    check_new_rows(kept_source, before, from_ms, arrival, newer_reads)
    return kept_source


def _kept(
    source: PinnedSource,
    before: PinnedSource,
    from_ms: int,
    arrival: str,
    newer_reads: Sequence[ReadRange],
) -> PinnedSource:
    try:
        source.check_kept(before, from_ms, arrival, newer_reads)
        return source
    except SourceRewritten:
        reads = [ReadRange(FIRST_MS, from_ms, before.version), *newer_reads]
        changes = row_changes_since(source, before, arrival, reads)
        if changes is None:
            counted_source = kept_by_counts(source, before, from_ms, arrival)
            if counted_source is None:
                raise
            return counted_source
    lost_rows = [_rows_lost(item, from_ms, newer_reads) for item in changes]
    count = sum(item.rows for item in lost_rows)
    if count:
        bounds = [item.bounds for item in lost_rows if item.rows]
        dated_bounds = [item for item in bounds if item is not None]
        is_dated = len(dated_bounds) == len(bounds)
        least, greatest = (
            (min(low for low, _ in dated_bounds), max(high for _, high in dated_bounds))
            if is_dated
            else (None, None)
        )
        raise rewritten(source, before, f"{count:,} row{'s' * (count > 1)}", least, greatest)
    return as_rewritten(source, before, changes)


def as_rewritten(
    source: PinnedSource, before: PinnedSource, changes: Sequence[RowChanges] | None = None
) -> PinnedSource:
    """The source with the commits of `changes`, or all removals since `before`, as mere rewrites. Where rows
    arrive with commits, their arrivals tell new ones from old ones.
    """
    if not source.keeps_removed_files or (changes is not None and isinstance(source, CommitDatedSource)):
        return source
    if changes is None:
        versions = [item.version for item in _removing_commits(source, before)]
    else:
        versions = [item.version for item in changes]
    return source.with_rewrites(versions)


class _LostRows(NamedTuple):
    """How many changed rows live runs have read, and not again; their arrivals, None: undated."""

    rows: int
    bounds: tuple[int, int] | None


def _rows_lost(changes: RowChanges, from_ms: int, newer_reads: Sequence[ReadRange]) -> _LostRows:
    is_lost = changes.arrivals < from_ms
    for item in newer_reads:
        if item.version >= changes.version:
            is_lost &= (changes.arrivals < item.from_ms) | (changes.arrivals >= item.to_ms)
    counts = np.maximum(changes.added_counts, changes.removed_counts)
    rows = int(counts[is_lost].sum()) + changes.undated_count
    if changes.undated_count or not rows:
        return _LostRows(rows, None)
    return _LostRows(rows, (int(changes.arrivals[is_lost][0]), int(changes.arrivals[is_lost][-1])))


class _Key(NamedTuple):
    """What a comparison depends on. The source is equal to itself at the same version of the same table."""

    source: PinnedSource
    before: PinnedSource
    arrival: str
    reads: tuple[ReadRange, ...]

    def __hash__(self) -> int:
        source = self.source
        return hash((source.uri, source.table_id, source.version, self.before.version, self.reads))


@lru_cache(maxsize=8)  # a plan asks for refusals and for stragglers
def _row_changes(key: _Key) -> tuple[RowChanges, ...] | None:
    if isinstance(key.source, CommitDatedSource):
        return tuple(
            _compare_with(key.source, changes, key.reads) for changes in key.source.file_changes(key.reads)
        )
    history = _removing_commits(key.source, key.before)
    return tuple(_compare(key.source, commit, key.arrival) for commit in history)


def _removing_commits(source: PinnedSource, before: PinnedSource) -> list[Commit]:
    history = source.history_since(before)
    return [item for item in history if item.removed_files and item.version not in source.erasing]


def _bytes_of_lost_commits(source: PinnedSource, before: PinnedSource, arrival: str) -> int:
    commits = [commit for commit in source.lost_commits_since(before) if commit.removed_files]
    return sum(
        file.bytes
        for commit in commits
        for file in _files_at(source, commit.version, commit.added_files, arrival)
    )


def _compare(source: PinnedSource, commit: Commit, arrival: str) -> RowChanges:
    changed_rows = count_changed_rows(
        source,
        _files_at(source, commit.listed_before, commit.removed_files, arrival),
        _files_at(source, commit.version, commit.added_files, arrival),
        [arrival],
    )
    is_dated = _is_dated(changed_rows.column(arrival))
    undated_rows, dated_rows = changed_rows.filter(pc.invert(is_dated)), changed_rows.filter(is_dated)
    added_counts, removed_counts = (dated_rows.column(name).to_numpy() for name in ("added", "removed"))
    return RowChanges(
        version=commit.version,
        arrivals=in_microseconds(dated_rows.column(arrival)) // 1000,
        added_counts=added_counts,
        removed_counts=removed_counts,
        undated_count=sum(
            max(row["added"], row["removed"]) for row in undated_rows.select(["added", "removed"]).to_pylist()
        ),
    )


def _compare_with(source: CommitDatedSource, changes: FileChanges, reads: Sequence[ReadRange]) -> RowChanges:
    """The changed rows among those that `reads` have last read at the version with which `source` is
    compared.
    """
    removed_files, added_files = (
        [file for file, _ in files] for files in (changes.removed_files, changes.added_files)
    )
    rows = count_changed_rows(source, removed_files, added_files, [COMMIT_TIME, COMMIT_VERSION])
    arrivals = in_microseconds(rows.column(COMMIT_TIME)) // 1000
    versions = rows.column(COMMIT_VERSION).to_pylist()
    is_read = [
        version_read(reads, arrival_ms, added_at) == changes.version
        for arrival_ms, added_at in zip(arrivals.tolist(), versions, strict=True)
    ]
    added_counts, removed_counts = (rows.column(name).to_numpy()[is_read] for name in ("added", "removed"))
    return RowChanges(source.version, arrivals[is_read], added_counts, removed_counts, 0)


def _is_dated(arrivals: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each is an arrival that a slice may hold."""
    milliseconds = arrivals.cast(pa.timestamp("ms", arrivals.type.tz), safe=False).cast(pa.int64())
    return pc.less_equal(milliseconds, LATEST_MS).fill_null(False)


def _files_at(
    source: PinnedSource, version: int, files: frozenset[LogicalFile], arrival: str
) -> list[InputFile]:
    if not files:
        return []
    actions = source.at_version(version).actions
    return [file for file, _ in files_with_bounds(actions, arrival) if file.logical_file in files]
