"""The rows that commits have changed in the source, found row by row: the files that a commit has removed are
compared with the files that it has added, as multisets of rows.

    commit 7     removes a.parquet: r1 r2 r3 r4 …      changed rows: r3 (removed), r3' (added)
                 adds    b.parquet: r1 r2 r3' r4 …     all others were only written again

A row counts as changed if any of its columns did; it is placed by its arrival. What is compared is grouped by
DuckDB, on disk where memory does not hold it.
"""

import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from slackwater.engine.source.changes import Commit, LogicalFile
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import InputFile, files_with_bounds
from slackwater.engine.source.lost_history import check_new_rows, kept_by_counts
from slackwater.engine.source.lost_rows import COMPARED_BYTES, MEMORY_LIMIT
from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten, rewritten
from slackwater.engine.source.row_groups import SourceFile
from slackwater.tables.errors import WarehouseNotReadable

Int64s = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 250_000
_COMPARISON = """
    SELECT __arrival, sum(greatest(__rows, 0))::BIGINT AS added, sum(greatest(-__rows, 0))::BIGINT AS removed
    FROM (
        SELECT epoch_us({arrival}) AS __arrival, sum(__sign) AS __rows
        FROM (SELECT *, 1 AS __sign FROM added_rows UNION ALL SELECT *, -1 AS __sign FROM removed_rows)
        GROUP BY {columns} HAVING sum(__sign) <> 0
    )
    GROUP BY __arrival ORDER BY __arrival
"""


class RowChanges(NamedTuple):
    """The rows that one commit has changed.

    Attributes:
        arrivals: int64[n], their different arrivals in milliseconds, ascending.
        added_counts, removed_counts: int64[n], how many rows of each arrival it has put in and taken out.
        undated_count: how many added or removed rows have no arrival.
    """

    version: int
    arrivals: Int64s
    added_counts: Int64s
    removed_counts: Int64s
    undated_count: int


def row_changes_since(
    source: PinnedSource, before: PinnedSource, arrival: str
) -> tuple[RowChanges, ...] | None:
    """The changed rows of each commit since `before` that has removed data; `arrival` is the column of
    arrival times. None where they can't be compared: a file is gone, only Spark can read the source, or its
    log has lost commits that have written more than `COMPARED_BYTES` again.
    """
    if (
        not source.keeps_removed_files
        or source.why_not_direct is not None
        or before.why_not_direct is not None
    ):
        return None
    if _bytes_of_lost_commits(source, before, arrival) > COMPARED_BYTES:
        return None
    try:
        return _row_changes(_Key(source, before, arrival))
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
        changes = row_changes_since(source, before, arrival)
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
    """The source with the commits of `changes`, or all removals since `before`, as mere rewrites."""
    if not source.keeps_removed_files:
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

    def __hash__(self) -> int:
        source = self.source
        return hash((source.uri, source.table_id, source.version, self.before.version, self.arrival))


@lru_cache(maxsize=8)  # a plan asks for refusals and for stragglers
def _row_changes(key: _Key) -> tuple[RowChanges, ...] | None:
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
    import duckdb  # few sources change rows that they have

    added_files = _files_at(source, commit.version, commit.added_files, arrival)
    removed_files = _files_at(source, commit.listed_before, commit.removed_files, arrival)
    with tempfile.TemporaryDirectory(prefix="slackwater-comparison-") as folder:
        settings: dict[str, Any] = {"threads": 1, "memory_limit": MEMORY_LIMIT, "temp_directory": folder}
        with duckdb.connect(config=settings) as connection:
            errors: list[Exception] = []
            connection.register("added_rows", _reader(source, added_files, errors))
            connection.register("removed_rows", _reader(source, removed_files, errors))
            columns = ", ".join(map(_quoted, source.schema.names))
            query = _COMPARISON.format(arrival=_quoted(arrival), columns=columns)
            try:
                changed_rows = connection.sql(query).to_arrow_table()
            except duckdb.Error:
                if errors:  # that of storage, which DuckDB has made its own
                    raise errors[0] from None
                raise
    is_dated = changed_rows.column("__arrival").is_valid()
    undated_rows, dated_rows = changed_rows.filter(pc.invert(is_dated)), changed_rows.filter(is_dated)
    arrivals, added_counts, removed_counts = (
        dated_rows.column(name).to_numpy() for name in ("__arrival", "added", "removed")
    )
    return RowChanges(
        version=commit.version,
        arrivals=arrivals // 1000,
        added_counts=added_counts,
        removed_counts=removed_counts,
        undated_count=sum(
            max(row["added"], row["removed"]) for row in undated_rows.select(["added", "removed"]).to_pylist()
        ),
    )


def _files_at(
    source: PinnedSource, version: int, files: frozenset[LogicalFile], arrival: str
) -> list[InputFile]:
    if not files:
        return []
    actions = source.at_version(version).actions
    return [file for file, _ in files_with_bounds(actions, arrival) if file.logical_file in files]


def _reader(
    source: PinnedSource, files: Sequence[InputFile], errors: list[Exception]
) -> pa.RecordBatchReader:
    """The rows of `files`, a few at a time, under the source's columns; errors are added to `errors`, too."""
    schema = pa.schema([pa.field(field.name, field.type) for field in source.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for file in files:
                pieces = SourceFile(source.uri, file, source.schema).batches(
                    schema.names, None, rows_at_once=_ROWS_AT_ONCE
                )
                for piece in pieces:
                    yield from piece.rows.cast(schema).to_batches()
        except Exception as error:
            errors.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
