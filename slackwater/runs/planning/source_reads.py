"""The inputs of a plan: the declared pipeline, its sources as they are now, main with its tables, and what
the slices read of the sources: the files that each opens, and the rows of the range in them.

Opened once for a plan; reads the ledger and the sources' logs, and writes nothing. Rows are counted by
reading the arrival, time and key columns of those files in this process, some row groups at a time; before
the first run, when no window can be touched, the arrivals alone. Where a run would refuse the source, the
plan says so instead of failing.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slackwater.engine.replaying.task_memory import rows_in
from slackwater.engine.rows.columns_read import columns_of_points
from slackwater.engine.rows.derived_columns import add_derived_columns
from slackwater.engine.rows.judge import in_milliseconds
from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.lost_history import notes_on_parts
from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.row_changes import kept_row_by_row
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.runs.planning import touched_windows
from slackwater.runs.planning.plan import SlicePlan
from slackwater.runs.planning.touched_windows import KeyGroupSample
from slackwater.runs.staging.input_checks import other_unit
from slackwater.runs.staging.pins import how_to_restate_all
from slackwater.runs.staging.shapes import checked_sources
from slackwater.runs.staging.slices import Slice, end_of, iso, start_of
from slackwater.runs.staging.stragglers import (
    Stragglers,
    find_stragglers,
    input_of,
    merge_stragglers,
    newer_reads_since,
    other_table_of,
    without_erased,
)
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.ledger_files import NO_RUNS, LiveRuns
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Tables, Warehouse

_NEWEST_ROWS = 200


@dataclass(frozen=True)
class PlanInputs:
    """The declared pipeline, its sources pinned at their newest versions, and main's live runs in slice
    order. `tables` and `head` are None before the first run.
    """

    pipeline: Pipeline
    sources: PinnedSources
    tables: Tables | None = None
    head: LedgerRow | None = None
    live: LiveRuns = NO_RUNS

    @classmethod
    def of(cls, warehouse: Warehouse, pipeline: Pipeline) -> "PlanInputs":
        """Open the inputs of a pipeline, whose tables need not exist yet. Raises UsageError: the source does
        not suit; ShapeChanged: the stored tables have other columns.
        """
        sources, shape = checked_sources(warehouse, pipeline)
        try:
            tables = warehouse.stored_tables(pipeline.name)
        except NoRuns:
            return cls(pipeline, sources)
        warehouse.tables(pipeline.name, shape).check()
        ledger = tables.ledger
        head = ledger.head()
        each = tuple(
            without_erased(source, declaration.table, ledger)
            for declaration, source in zip(pipeline.sources, sources.each, strict=True)
        )
        return cls(
            pipeline,
            replace(sources, each=each),
            tables,
            head,
            NO_RUNS if head is None else ledger.live_runs(head),
        )

    @property
    def start_ms(self) -> int:
        return start_of(self.live[0])

    @property
    def end_ms(self) -> int:
        return end_of(self.live[-1])

    def live_reads(self, table: str) -> pa.Table | None:
        """`LedgerReader.live_reads` of main for the source `table`; None without runs."""
        if self.tables is None or self.head is None:
            return None
        return self.tables.ledger.live_reads(self.head, table)

    def newest_rows(self) -> list[LedgerRow]:
        if self.tables is None or self.head is None:
            return []
        return self.tables.ledger.rows(since=max(0, self.head.seq - _NEWEST_ROWS))


# What is read of a source may be this many times what is used before a plan warns.
WASTE = 2


@dataclass(frozen=True)
class SourceReads:
    """The source as a plan's slices read it.

    Attributes:
        files: of each slice.
        points: for each file read, see `touched_windows.points`; none where only Spark can read the source.
        sample: the key groups of `points`.
        warnings: sentences on what would be refused, can't be counted, or is read in vain.
    """

    slices: tuple[SlicePlan, ...]
    files: tuple[list[InputFile], ...]
    points: tuple[pa.Table, ...]
    sample: KeyGroupSample
    warnings: tuple[str, ...]


def read_source(inputs: PlanInputs, slices: Sequence[Slice], owner: LedgerRow | None) -> SourceReads:
    """What `slices` read; the first continues the snapshot of `owner` (None: of no run)."""
    files, refusals = _files_of_each(inputs, slices, owner)
    sample = KeyGroupSample.all_of(inputs.pipeline).for_rows(sum(map(rows_in, files)))
    counts, points, obstacles = _rows_of_range(inputs, slices, files, sample)
    slice_plans = tuple(
        _slice_plan(item, files_of_slice, None if counts is None else int(counts[number]))
        for number, (item, files_of_slice) in enumerate(zip(slices, files, strict=True))
    )
    warnings = (*refusals, *obstacles, *_waste(inputs, slice_plans), *_other_units(inputs, slices))
    return SourceReads(slice_plans, tuple(files), tuple(points), sample, warnings)


def _other_units(inputs: PlanInputs, slices: Sequence[Slice]) -> list[str]:
    sentences = []
    for declaration, source in zip(inputs.pipeline.sources, inputs.sources.each, strict=True):
        column = f"max.{declaration.event_time}"
        if slices and column in source.actions.column_names:
            times, is_missing = in_milliseconds(source.actions.column(column))
            sentence = other_unit(int(times[~is_missing].max(initial=0)), slices[-1].to_ms)
            sentences += [] if sentence is None else [sentence]
    return sentences


def stragglers_of(inputs: PlanInputs) -> tuple[Stragglers, ...] | None:
    """Rows that appeared in slices of main after these were run; None where the source does not say."""
    folds, stragglers_of_each = inputs.pipeline.stragglers == "fold", []
    for declaration, source in zip(inputs.pipeline.sources, inputs.sources.each, strict=True):
        reads = inputs.live_reads(declaration.table)
        if reads is None:
            continue
        if set(reads.column("table_id").unique().to_pylist()) - {None, source.table_id}:
            return None
        stragglers_of_each.append(find_stragglers(source, reads, declaration.arrival_time, folds=folds))
    stragglers = merge_stragglers(stragglers_of_each)
    return None if stragglers is None else tuple(stragglers)


def _files_of_each(
    inputs: PlanInputs, slices: Sequence[Slice], owner: LedgerRow | None
) -> tuple[list[list[InputFile]], list[str]]:
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
    """The files of source `number` that each slice reads, and sentences on them: why the first slice would
    be refused, what could not be checked, and what is read as it was before. The first slice reads on from
    the version of `owner`, the next ones at the newest version.
    """
    source, arrival = inputs.sources.each[number], declaration.arrival_time
    refusals = _other_table(inputs, owner, declaration, source.table_id)
    owner_input = None if refusals else input_of(owner, declaration.table)
    before, may_be_empty = None, len(inputs.pipeline.sources) > 1
    if owner_input is not None:
        before = pin(declaration, source.place, owner_input.version, may_be_empty=may_be_empty)
    newer_reads: tuple[ReadRange, ...] = ()
    if before is not None and inputs.tables is not None and inputs.head is not None:
        newer_reads = newer_reads_since(inputs.tables.ledger, inputs.head, owner, declaration.table)
    try:
        if before is not None and slices:
            source = kept_row_by_row(source, before, slices[0].from_ms, arrival, newer_reads)
            refusals += source.notes
    except SourceRewritten as error:
        least_ms = error.facts["least_ms"]
        from_ms = max(least_ms, inputs.start_ms) if isinstance(least_ms, int) else inputs.start_ms
        greatest_ms = error.facts["greatest_ms"]
        end = f"to {iso(greatest_ms + 1)}" if isinstance(greatest_ms, int) else "on"
        refusals.append(f"it would be refused: {error.message} Restate them, from {iso(from_ms)} {end}")
    files: list[list[InputFile]] = []
    for item in slices:
        files.append(source.files(item.from_ms, item.to_ms, arrival, before, newer_reads=newer_reads))
        before, newer_reads = source, ()
    return files, [*refusals, *notes_on_parts(source, itertools.chain(*files))]


def _other_table(
    inputs: PlanInputs, owner: LedgerRow | None, declaration: Source, table_id: str
) -> list[str]:
    """The refusal of a run that would continue one that has read another table than `table_id`."""
    table = declaration.table
    if owner is None or other_table_of([owner], table, table_id) is None:
        return []
    ways = how_to_restate_all(inputs.pipeline.name, inputs.start_ms, inputs.end_ms)
    return [
        f"it would be refused: source {table!r} was dropped and made again, or replaced, since run "
        f"{owner.seq}. {ways}"
    ]


def _rows_of_range(
    inputs: PlanInputs,
    slices: Sequence[Slice],
    files: Sequence[Sequence[InputFile]],
    sample: KeyGroupSample,
) -> tuple[np.ndarray | None, list[pa.Table], list[str]]:
    """How many rows of the range arrived in each slice (None: they can't be counted, with the reason as
    the last value), and their points in `sample`, table by table.
    """
    sources, arrival = inputs.sources, inputs.pipeline.roles.arrival_time
    if sources.why_not_direct is not None:
        reason = (
            "rows and windows can't be counted without Spark, which has to read this source "
            f"({sources.why_not_direct})"
        )
        return None, [], [reason]
    has_windows = inputs.tables is not None
    columns = columns_of_points(inputs.pipeline) if has_windows else (arrival,)
    starts, ends = np.array([[one.from_ms, one.to_ms] for one in slices], np.int64).reshape(-1, 2).T
    counts, points = np.zeros(len(slices), np.int64), list[pa.Table]()
    for file in {(file.source, file.path): file for file in itertools.chain(*files)}.values():
        for rows in sources.batches(file, columns, arrival, slices[0].from_ms, slices[-1].to_ms):
            times, is_undated = in_milliseconds(rows.column(arrival))
            places = np.searchsorted(starts, times, side="right") - 1
            is_inside = ~is_undated & (places >= 0) & (times < ends[places])
            counts += np.bincount(places[is_inside], minlength=len(slices))
            if has_windows:
                rows, _ = add_derived_columns(inputs.pipeline, rows.filter(pa.array(is_inside)))
                points.append(touched_windows.points(inputs.pipeline, rows, sample))
    return counts, points, []


def _slice_plan(item: Slice, files: Sequence[InputFile], rows: int | None) -> SlicePlan:
    counts = [file.rows for file in files]
    rows_in_files = None if None in counts else sum(count for count in counts if count is not None)
    return SlicePlan(item, len(files), sum(file.bytes for file in files), rows_in_files, rows)


def _waste(inputs: PlanInputs, slices: Sequence[SlicePlan]) -> list[str]:
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
