"""Counts stragglers by slice: rows that appear in the source after the slice of their arrival was run.

    source version    7        8        9
    run of slice A    reads 7                  a row of A that version 8 or 9 adds is a straggler of A
    run of slice B             reads 8         a row of B that version 9 adds is one of B

Reads the source's log, and the arrival column of the files that the log calls new; never the windows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.judge import in_milliseconds
from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.row_changes import as_rewritten, row_changes_since
from slackwater.engine.source.scan import SliceScan
from slackwater.pipelines import Pipeline
from slackwater.runs.staging import validation
from slackwater.runs.staging.slices import Slice, iso
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.windowing.times import to_ms

# Before all versions.
_NO_VERSION = -1

Int64s = npt.NDArray[np.int64]


def input_of(row: LedgerRow | None, table: str) -> Input | None:
    """The input of a run that is the source `table`; None where the run has read no source."""
    return None if row is None else next((item for item in row.inputs if item.table == table), None)


def version_of(row: LedgerRow | None, table: str) -> int | None:
    source_input = input_of(row, table)
    return None if source_input is None else source_input.version


def without_erased(source: PinnedSource, table: str, ledger: LedgerReader) -> PinnedSource:
    """The source `table` without the rows that erasures have recorded as deleted."""
    return source.without(ledger.erasing_versions(table, source.table_id))


def other_table_of(rows: Iterable[LedgerRow], table: str, table_id: str) -> str | None:
    """The id of another table than `table_id` that one of `rows` has read as the source `table`."""
    inputs = (input_of(row, table) for row in rows)
    return next(
        (item.table_id for item in inputs if item is not None and item.table_id not in (None, table_id)), None
    )


def newer_reads_since(
    ledger: LedgerReader, head: LedgerRow, owner: LedgerRow | None, table: str
) -> tuple[ReadRange, ...]:
    """The slices that live runs of `head` have read at newer versions of the source `table` than `owner`."""
    owner_version = version_of(owner, table)
    # The runs of one branch pin ascending versions: without a second live run none is newer than the owner's.
    if owner_version is None or len(head.live) < 2:
        return ()
    reads = ledger.live_reads(head, table)
    return tuple(read_ranges(reads.filter(pc.greater(reads.column("version"), owner_version))))


def newer_reads_by_source(
    ledger: LedgerReader, head: LedgerRow, owner: LedgerRow | None, pipeline: Pipeline
) -> dict[str, tuple[ReadRange, ...]]:
    return {source.table: newer_reads_since(ledger, head, owner, source.table) for source in pipeline.sources}


def read_ranges(reads: pa.Table) -> list[ReadRange]:
    columns = (reads.column(name).to_pylist() for name in ("from_ms", "to_ms", "version"))
    return list(map(ReadRange, *columns))


def table_of_reads(ranges: Sequence[ReadRange]) -> pa.Table:
    columns = [(name, pa.int64()) for name in ("from_ms", "to_ms", "version")]
    return pa.Table.from_pylist([asdict(item) for item in ranges], schema=pa.schema(columns))


def read_ranges_of(runs: Iterable[LedgerRow], table: str) -> list[ReadRange]:
    """The slice of each of `runs`, with the version of the source `table` that the run has read."""
    reads = []
    for row in runs:
        version = version_of(row, table)
        if version is not None and row.slice_start is not None and row.slice_end is not None:
            reads.append(ReadRange(to_ms(row.slice_start), to_ms(row.slice_end), version))
    return reads


@dataclass(frozen=True)
class Stragglers:
    """The number of rows of one live slice's arrivals that no live run has read."""

    slice: Slice
    rows: int


def find_stragglers(
    source: PinnedSource,
    reads: pa.Table,
    arrival: str,
    *,
    folds: bool | Sequence[bool],
    since: int | None = None,
) -> list[Stragglers] | None:
    """The stragglers of `source`, by slice; None where the source's log does not say which rows are new, or
    its files can't be read without Spark.

    Args:
        reads: the slices of the live runs in order, with the versions read, as `LedgerReader.live_reads` has
            them.
        folds: whether later runs have folded stragglers in, of all or of each of `reads`. A straggler that
            such a run has read is not counted.
        since: do not count stragglers that this version had already.
    """
    if not reads.num_rows:
        return []
    counts = _CountsBySlice.of(reads, folds)
    before = source.at_version(counts.oldest_version if since is None else since)
    # Of commits that have rewritten files only the rows that differ are new.
    changes = row_changes_since(source, before, arrival) if source.has_lost_files_since(before) else ()
    # Of commits that the log has lost only a comparison of rows tells what they have brought.
    if changes is None and any(commit.removed_files for commit in source.lost_commits_since(before)):
        return None
    if changes:
        source = as_rewritten(source, before, changes)
        for item in changes:
            counts.add(item.arrivals, item.version, item.added_counts)
    added_files = source.added_since(before, np.unique(counts.read_at).tolist())
    if added_files is None or source.why_not_direct is not None:
        return [] if source.version == before.version else None
    for file in source.files(counts.end_ms, counts.end_ms, arrival, before):
        if file.may_hold_unread:
            counts.add(arrivals(source, file, arrival)[0], added_files[file.path])
    return counts.stragglers()


@dataclass(frozen=True)
class _CountsBySlice:
    """The number of stragglers of each slice; int64[slices] each. `read_at` is the version up to which
    live runs have read a slice: that of its own run, or a newer one of a later run that folds.
    """

    starts: Int64s
    ends: Int64s
    read_at: Int64s
    counts: Int64s

    @classmethod
    def of(cls, reads: pa.Table, folds: bool | Sequence[bool]) -> "_CountsBySlice":
        starts, ends, versions = (reads.column(name).to_numpy() for name in ("from_ms", "to_ms", "version"))
        folded_versions = np.where(folds, versions, _NO_VERSION)
        newest_behind = np.maximum.accumulate(folded_versions[::-1])[::-1]
        read_at = np.maximum(versions, np.append(newest_behind[1:], _NO_VERSION))
        return cls(starts, ends, read_at, np.zeros(len(starts), np.int64))

    @property
    def oldest_version(self) -> int:
        return int(self.read_at.min())

    @property
    def end_ms(self) -> int:
        return int(self.ends[-1])

    def add(self, times: Int64s, version: int, rows: Int64s | None = None) -> None:
        """Count rows of these arrivals (None: one each) that `version` brought and no live run has read."""
        places = np.searchsorted(self.starts, times, side="right") - 1
        is_inside = (times >= self.starts[0]) & (times < self.end_ms)
        is_straggler = is_inside & (self.read_at[places] < version)
        weights = None if rows is None else rows[is_straggler]
        self.counts[:] += np.bincount(places[is_straggler], weights, len(self.starts)).astype(np.int64)

    def stragglers(self) -> list[Stragglers]:
        return [
            Stragglers(Slice(int(self.starts[place]), int(self.ends[place])), int(self.counts[place]))
            for place in np.flatnonzero(self.counts).tolist()
        ]


def arrivals(source: PinnedSource, file: InputFile, arrival: str) -> tuple[Int64s, int]:
    """The arrivals of a file's rows in milliseconds, floored, and the number of rows without one."""
    times, is_undated = in_milliseconds(
        read_columns(source.uri, file, source.schema, (arrival,)).column(arrival)
    )
    return times[~is_undated], int(is_undated.sum())


def advice_on_stragglers(pipeline: str, stragglers: Sequence[Stragglers] | None) -> str:
    """The sentence that names the restatement which takes stragglers in; None: they could not be counted."""
    if stragglers is None:
        return (
            "rows may have appeared in slices that were run before; the source can't say which. "
            f"`slackwater backfill {pipeline}` restates"
        )
    first, last = iso(stragglers[0].slice.from_ms), iso(stragglers[-1].slice.to_ms)
    rows = sum(item.rows for item in stragglers)
    return (
        f"{rows:,} rows appeared after their slices were run, in [{first}, {last}); restate them with "
        f"`slackwater backfill {pipeline} "
        f"--from {first} --to {last}`"
    )


def merge_stragglers(stragglers_by_source: Sequence[Sequence[Stragglers] | None]) -> list[Stragglers] | None:
    """The stragglers of several sources together, by slice; None where one source's are not known."""
    counts: Counter[Slice] = Counter()
    for stragglers in stragglers_by_source:
        if stragglers is None:
            return None
        counts.update({item.slice: item.rows for item in stragglers})
    return [Stragglers(item, counts[item]) for item in sorted(counts, key=lambda item: item.from_ms)]


def check_stragglers(
    pipeline: Pipeline, ledger: LedgerReader, head: LedgerRow | None, owner: LedgerRow | None, scan: SliceScan
) -> list[validation.Check]:
    """The warning that a restatement has to take stragglers in, unless the pipeline folds them."""
    if pipeline.stragglers == "fold" or head is None or not head.live or not scan.holds_unread():
        return []
    stragglers = merge_stragglers(
        [
            find_stragglers(
                part.source,
                ledger.live_reads(head, source.table),
                source.arrival_time,
                folds=False,
                since=version_of(owner, source.table),
            )
            for source, part in zip(pipeline.sources, scan.parts, strict=True)
            if part.holds_unread()
        ]
    )
    if stragglers == []:
        return []
    advice = advice_on_stragglers(pipeline.name, stragglers)
    return [validation.warning("no rows are to be restated", advice)]
