"""What the slices of a plan read of the source: the files that each opens, and the rows of the range in them.

Rows are counted by reading the arrival, time and key columns of those files in this process. Where a run
would refuse the source, the plan says so instead of failing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.rows.columns_read import columns_of_points
from slackwater.jobs.engines.rows.derived_columns import add_derived_columns
from slackwater.jobs.engines.rows.judge import in_milliseconds
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.pinned_source import SourceRewritten
from slackwater.jobs.engines.source.pinning import pin
from slackwater.jobs.engines.source.row_changes import kept_row_by_row
from slackwater.jobs.pipelines.sources import Source
from slackwater.jobs.protocol.planning import touched_windows
from slackwater.jobs.protocol.planning.plan import SlicePlan
from slackwater.jobs.protocol.planning.plan_inputs import PlanInputs
from slackwater.jobs.protocol.staging.slice_replay import how_to_restate_or_adopt
from slackwater.jobs.protocol.staging.slices import Slice, iso
from slackwater.jobs.protocol.staging.stragglers import (
    Stragglers,
    find_stragglers,
    input_of,
    newer_reads_since,
    of_all_sources,
    other_table_of,
    read_ranges_of,
)
from slackwater.jobs.tables.ledger.rows import LedgerRow

# What is read of a source may be this many times what is used before a plan warns.
WASTE = 2


@dataclass(frozen=True)
class SourceReads:
    """The source as a plan's slices read it.

    Attributes:
        slices: of the plan, with the sizes of what they read.
        files: of each slice.
        points: for each file read, the keys of the range's rows and the times by which windows take them
            (see `touched_windows.points`); none where only Spark can read the source.
        warnings: sentences on what would be refused, can't be counted, or is read in vain.
    """

    slices: tuple[SlicePlan, ...]
    files: tuple[list[InputFile], ...]
    points: tuple[pa.Table, ...]
    warnings: tuple[str, ...]


def read_source(inputs: PlanInputs, slices: Sequence[Slice], owner: LedgerRow | None) -> SourceReads:
    """What `slices` read, the first of which continues the snapshot of the run `owner` (None: of no run)."""
    files, refusals = _files_of_each(inputs, slices, owner)
    arrivals, points, obstacles = _rows_of_range(inputs, slices, files)
    slice_plans = tuple(
        _slice_plan(item, files_of_slice, arrivals)
        for item, files_of_slice in zip(slices, files, strict=True)
    )
    warnings = (*refusals, *obstacles, *_waste(inputs, slice_plans))
    return SourceReads(slice_plans, tuple(files), tuple(points), warnings)


def stragglers_of(inputs: PlanInputs) -> tuple[Stragglers, ...] | None:
    """Rows that appeared in slices of main after these were run; None where the source does not say."""
    folds, stragglers_of_each = inputs.pipeline.stragglers == "fold", []
    for declaration, source in zip(inputs.pipeline.sources, inputs.sources.each, strict=True):
        if other_table_of(inputs.live, declaration.table, source.table_id) is not None:
            return None
        reads = read_ranges_of(inputs.live, declaration.table)
        stragglers_of_each.append(find_stragglers(source, reads, declaration.arrival_time, folds=folds))
    stragglers = of_all_sources(stragglers_of_each)
    return None if stragglers is None else tuple(stragglers)


def _files_of_each(
    inputs: PlanInputs, slices: Sequence[Slice], owner: LedgerRow | None
) -> tuple[list[list[InputFile]], list[str]]:
    """The files that each slice reads, and why the first would be refused."""
    files: list[list[InputFile]] = [[] for _ in slices]
    refusals: list[str] = []
    for number, declaration in enumerate(inputs.pipeline.sources):
        files_of_source, refusals_of_source = _files_of_source(inputs, slices, owner, number, declaration)
        refusals += refusals_of_source
        for place, files_of_slice in enumerate(files_of_source):
            files[place] += [replace(file, source=number) for file in files_of_slice]
    return files, refusals


def _files_of_source(
    inputs: PlanInputs,
    slices: Sequence[Slice],
    owner: LedgerRow | None,
    number: int,
    declaration: Source,
) -> tuple[list[list[InputFile]], list[str]]:
    """The files of source `number` that each slice reads, and why the first would be refused. The first is
    read on from the version that `owner` has pinned; those after it follow at the newest version.
    """
    source, arrival = inputs.sources.each[number], declaration.arrival_time
    refusals = _other_table(inputs, owner, declaration, source.table_id)
    owner_input = None if refusals else input_of(owner, declaration.table)
    before = (
        None
        if owner_input is None
        else pin(
            declaration, source.place, owner_input.version, may_be_empty=len(inputs.pipeline.sources) > 1
        )
    )
    newer_reads: tuple[ReadRange, ...] = ()
    if before is not None and inputs.tables is not None and inputs.head is not None:
        newer_reads = newer_reads_since(inputs.tables.ledger, inputs.head, owner, declaration.table)
    try:
        if before is not None and slices:
            source = kept_row_by_row(source, before, slices[0].from_ms, arrival, newer_reads)
    except SourceRewritten as error:
        least_ms = error.facts["least_ms"]
        from_ms = max(least_ms, inputs.start_ms) if isinstance(least_ms, int) else inputs.start_ms
        greatest_ms = error.facts["greatest_ms"]
        end = f"to {iso(greatest_ms + 1)}" if isinstance(greatest_ms, int) else "on"
        refusals.append(f"it would be refused: {error.message} Restate them, from {iso(from_ms)} {end}")
    files = []
    for item in slices:
        files.append(source.files(item.from_ms, item.to_ms, arrival, before, newer_reads=newer_reads))
        before, newer_reads = source, ()
    return files, refusals


def _other_table(
    inputs: PlanInputs, owner: LedgerRow | None, declaration: Source, table_id: str
) -> list[str]:
    """The refusal of a run that would continue one that has read another table than `table_id`; none where it
    has not.
    """
    table = declaration.table
    if owner is None or other_table_of([owner], table, table_id) is None:
        return []
    ways = how_to_restate_or_adopt(inputs.pipeline.name, inputs.start_ms, inputs.end_ms)
    return [
        f"it would be refused: source {table!r} was dropped and made again, or replaced, since run "
        f"{owner.seq}. {ways}"
    ]


def _rows_of_range(
    inputs: PlanInputs, slices: Sequence[Slice], files: Sequence[Sequence[InputFile]]
) -> tuple[np.ndarray | None, list[pa.Table], list[str]]:
    """Arrivals of the range, sorted, in milliseconds (None: they can't be counted, with the reason as the
    last value), and the points of its rows, one table a file.
    """
    sources, roles = inputs.sources, inputs.pipeline.roles
    if sources.why_not_direct is not None:
        reason = (
            "rows and windows can't be counted without Spark, which has to read this source "
            f"({sources.why_not_direct})"
        )
        return None, [], [reason]
    columns = columns_of_points(inputs.pipeline)
    arrivals, points = [np.zeros(0, np.int64)], []
    for file in {(file.source, file.path): file for of_slice in files for file in of_slice}.values():
        rows = sources.read(file, columns)
        times, is_undated = in_milliseconds(rows.column(roles.arrival_time))
        is_inside = ~is_undated & (times >= slices[0].from_ms) & (times < slices[-1].to_ms)
        arrivals.append(times[is_inside])
        rows, _ = add_derived_columns(inputs.pipeline, rows.filter(pa.array(is_inside)))
        points.append(touched_windows.points(inputs.pipeline, rows))
    return np.sort(np.concatenate(arrivals)), points, []


def _slice_plan(item: Slice, files: Sequence[InputFile], arrivals: np.ndarray | None) -> SlicePlan:
    counts = [file.rows for file in files]
    rows_in_files = None if None in counts else sum(count for count in counts if count is not None)
    rows = None
    if arrivals is not None:
        low, high = np.searchsorted(arrivals, [item.from_ms, item.to_ms])
        rows = int(high - low)
    return SlicePlan(item, len(files), sum(file.bytes for file in files), rows_in_files, rows)


def _waste(inputs: PlanInputs, slices: Sequence[SlicePlan]) -> list[str]:
    """A warning where far more rows would be read than used."""
    if any(item.rows is None or item.rows_in_files is None for item in slices):
        return []
    rows_in_files, rows = (
        sum(item.rows_in_files or 0 for item in slices),
        sum(item.rows or 0 for item in slices),
    )
    if rows_in_files <= WASTE * rows:
        return []
    return [
        f"it would read {rows_in_files:,} rows to use {rows:,}: files hold rows of many slices. Partition "
        f"the source by the day of {inputs.pipeline.roles.arrival_time!r}, or sort its rows by it"
    ]
