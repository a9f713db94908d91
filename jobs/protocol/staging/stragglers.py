"""Stragglers: rows that appear in the source after the slice of their arrival was run. Counts them by
slice, from the versions that the live runs have read.

Reads the source's log and the arrival column of single files; never the windows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slackwater.jobs.engines.rows.judge import in_milliseconds
from slackwater.jobs.engines.source.batches import read
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.slices import Slice, iso
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import Input, LedgerRow
from slackwater.windowing.times import to_ms

Int64s = npt.NDArray[np.int64]


def input_of(row: LedgerRow | None, table: str) -> Input | None:
    """What a run has pinned of the source `table`; None where it has read none."""
    return None if row is None else next((item for item in row.inputs if item.table == table), None)


def version_of(row: LedgerRow | None, table: str) -> int | None:
    """The version of the source `table` that a run has pinned; None where it has read none."""
    read = input_of(row, table)
    return None if read is None else read.version


def without_erased(source: PinnedSource, table: str, ledger: LedgerReader) -> PinnedSource:
    """The source `table` as runs of the lineage see it: rows that an erasure has recorded as deleted count as
    never written.
    """
    return source.without(ledger.erasing_versions(table, source.table_id))


def other_table_of(rows: Iterable[LedgerRow], table: str, table_id: str) -> str | None:
    """The id of the table that one of `rows` has read as the source `table`, where that is not `table_id`;
    None where all have read it, as far as it is known."""
    read = (input_of(row, table) for row in rows)
    return next(
        (item.table_id for item in read if item is not None and item.table_id not in (None, table_id)), None
    )


def restated_since(
    ledger: LedgerReader, head: LedgerRow, owner: LedgerRow | None, table: str
) -> tuple[ReadRange, ...]:
    """What live runs of `head` have read at newer versions of the source `table` than `owner`, the run that
    the next one continues.
    """
    pinned = version_of(owner, table)
    if (
        pinned is None or len(head.live) < 2
    ):  # runs of one branch never pin an earlier version than the run before
        return ()
    return tuple(
        stretch for stretch in stretches_of(ledger.live_runs(head), table) if stretch.version > pinned
    )


def stretches_of(runs: Iterable[LedgerRow], table: str) -> list[ReadRange]:
    """At which version of the source `table` each of `runs` has read its slice."""
    stretches = []
    for row in runs:
        version = version_of(row, table)
        if version is not None and row.slice_start is not None and row.slice_end is not None:
            stretches.append(ReadRange(to_ms(row.slice_start), to_ms(row.slice_end), version))
    return stretches


@dataclass(frozen=True)
class Stragglers:
    """Rows that no live run has read, in one live slice.

    Attributes:
        slice: the slice of their arrival.
        rows: how many.
    """

    slice: Slice
    rows: int


def find(
    source: PinnedSource,
    live: Sequence[ReadRange],
    arrival: str,
    *,
    folds: bool | Sequence[bool],
    since: int | None = None,
) -> list[Stragglers] | None:
    """Rows of `source` that arrived in one of the slices `live`, which follow each other, and that its run
    has not read.

    `folds` says whether later runs have folded in what they found, of all or of each of `live`: what they
    have is left out. With `since` those are left out that this version had already. None where the source's
    log does not say which rows are new, or its files can't be read without Spark.
    """
    if not live:
        return []
    folding = [folds] * len(live) if isinstance(folds, bool) else folds
    # What live runs have read of each slice: their own version, or the newest of all runs from it on that
    # fold.
    read_at = [
        max(
            item.version
            for item, takes in zip(live[place:], [True, *folding[place + 1 :]], strict=True)
            if takes
        )
        for place in range(len(live))
    ]
    oldest = min(read_at) if since is None else since
    added_files = source.added_since(replace(source, version=oldest), read_at)
    if added_files is None or source.why_not_direct is not None:
        return [] if source.version == oldest else None
    start_ms, end_ms = live[0].from_ms, live[-1].to_ms
    starts, versions = np.array([item.from_ms for item in live], np.int64), np.array(read_at, np.int64)
    counts: Counter[int] = Counter()
    for file in source.files(end_ms, end_ms, arrival, replace(source, version=oldest)):
        if not file.may_hold_unread:
            continue
        times, _ = arrivals(source, file, arrival)
        places = np.searchsorted(starts, times[(times >= start_ms) & (times < end_ms)], side="right") - 1
        counts.update(places[versions[places] < added_files[file.path]].tolist())
    return [
        Stragglers(Slice(live[place].from_ms, live[place].to_ms), counts[place]) for place in sorted(counts)
    ]


def arrivals(source: PinnedSource, file: InputFile, arrival: str) -> tuple[Int64s, int]:
    """The arrivals in a file, in milliseconds, floored; and how many rows have none."""
    times, is_undated = in_milliseconds(read(source.uri, file, source.schema, (arrival,)).column(arrival))
    return times[~is_undated], int(is_undated.sum())


def told(pipeline: str, found: Sequence[Stragglers] | None) -> str:
    """What a person is told who must restate them; None: nobody could count them."""
    if found is None:
        return (
            "rows may have appeared in slices that were run before; the source can't say which. "
            f"`slackwater backfill {pipeline}` restates"
        )
    first, last = iso(found[0].slice.from_ms), iso(found[-1].slice.to_ms)
    rows = sum(item.rows for item in found)
    return (
        f"{rows:,} rows appeared after their slices were run, in [{first}, {last}); restate them with "
        f"`slackwater backfill {pipeline} "
        f"--from {first} --to {last}`"
    )


def to_be_restated(
    pipeline: Pipeline, ledger: LedgerReader, head: LedgerRow | None, owner: LedgerRow | None, scan: SliceScan
) -> list[validation.Check]:
    """The check that no rows have to be restated, where the pipeline wants them to be and `scan` may have met
    some.
    """
    if pipeline.stragglers == "fold" or head is None or not head.live or not scan.holds_unread():
        return []
    table = pipeline.source.table
    live = stretches_of(ledger.live_runs(head), table)
    stragglers = find(scan.source, live, scan.arrival, folds=False, since=version_of(owner, table))
    return (
        []
        if stragglers == []
        else [validation.warning("no rows are to be restated", told(pipeline.name, stragglers))]
    )
