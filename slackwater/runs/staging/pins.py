"""The pins of a slice: the version at which it reads each source, what live runs have read of it before, and
the overrides that it honours; and the next step where a source has changed under a lineage.

Reads logs of sources and the ledger's rows that the caller has; records nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.parquet_folder import FolderPlace
from slackwater.engine.source.pinned_source import NewRowsNotKnown, PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import (
    EmptySource,
    SourceReplaced,
    VersionGone,
    as_recorded,
    pin,
    pin_both,
    place_of,
)
from slackwater.engine.source.row_changes import as_rewritten, kept_row_by_row
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.runs.staging.slices import Slice, iso
from slackwater.runs.staging.stragglers import without_erased
from slackwater.tables.errors import new_lineage
from slackwater.tables.ledger.overrides import (
    INPUT as OVERRIDES,
)
from slackwater.tables.ledger.overrides import (
    MovedRows,
    Override,
    count_known_to,
    moved_rows_from,
    moved_rows_on,
)
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.times import to_datetime, to_ms

# The table of a source → the slices that live runs have read of it at newer versions than the parent's.
NewerReads = Mapping[str, tuple[ReadRange, ...]]


class SourceChanged(UsageError):
    """The pipeline reads another table than its lineage so far."""


@dataclass(frozen=True)
class SourcePin:
    """One source as a slice reads it.

    Attributes:
        source: at the version that the slice reads.
        before: as the parent run has read it; None at the start of a lineage.
        newer_reads: the slices that live runs have read at newer versions than `before`.
    """

    declaration: Source
    source: PinnedSource
    before: PinnedSource | None = None
    newer_reads: tuple[ReadRange, ...] = ()


@dataclass(frozen=True)
class Pins:
    """The versions from which a slice is replayed: replays with equal pins and equal parents leave equal
    rows.

    Attributes:
        source_pins: in the order of the pipeline's sources.
        overrides: the changed arrivals that the slice honours, one a row.
        overrides_known: how many overrides had been recorded by then.
    """

    source_pins: tuple[SourcePin, ...]
    overrides: tuple[Override, ...] = ()
    overrides_known: int = 0

    @property
    def sources(self) -> tuple[PinnedSource, ...]:
        return tuple(item.source for item in self.source_pins)

    @classmethod
    def newest(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        *,
        owner: LedgerRow | None,
        from_ms: int,
        newer_reads: NewerReads,
        overrides: Sequence[Override],
        moved_rows: MovedRows,
        ledger: LedgerReader,
    ) -> "Pins":
        """The newest version of each source, for a slice that starts at `from_ms` on the snapshot of `owner`,
        in a lineage that has moved `moved_rows`; `overrides` are all that there are.

        Raises:
            SourceChanged: the parent has read another table.
            SourceReplaced: the parent has read a table that is not there any more.
            SourceRewritten: rows that runs have read are not there any more.
        """
        may_be_empty, pins = len(pipeline.sources) > 1, []
        for declaration in pipeline.sources:
            place = place_of(warehouse, pipeline, declaration)
            owner_input = _input_of(pipeline, declaration, () if owner is None else owner.inputs)
            before: PinnedSource | None = None
            if owner_input is None:
                source = pin(declaration, place, may_be_empty=may_be_empty, records=True)
            else:
                version, table_id = owner_input.version, owner_input.table_id
                source, before = pin_both(declaration, place, version, table_id, may_be_empty=may_be_empty)
            newer: tuple[ReadRange, ...] = ()
            if before is None or before.version != source.version:
                source = without_erased(source, declaration.table, ledger)
            if before is not None:
                reads = newer_reads.get(declaration.table, ())
                newer = tuple(read for read in reads if read.version > before.version)
                source = kept_row_by_row(source, before, from_ms, declaration.arrival_time, newer)
            pins.append(SourcePin(declaration, source, before, newer))
        moved_rows = moved_rows_from(moved_rows, overrides, to_datetime(from_ms))
        return cls(tuple(pins), tuple(moved_rows.values()), len(overrides))

    @classmethod
    def recorded_by(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        row: LedgerRow,
        *,
        owner: LedgerRow | None,
        newer_reads: NewerReads,
        overrides: Sequence[Override],
        ledger: LedgerReader,
    ) -> "Pins":
        """The versions to which the run `row`, on the snapshot of `owner`, was pinned.

        Raises:
            SourceChanged: it has read another table than the pipeline declares now.
            VersionGone: a version has been cleaned up.
            SourceReplaced: the table that it has read is gone.
        """
        may_be_empty, pins = len(pipeline.sources) > 1, []
        for declaration in pipeline.sources:
            place = place_of(warehouse, pipeline, declaration)
            run_input = _input_of(pipeline, declaration, row.inputs)
            assert run_input is not None, f"run {row.seq} has no input"
            source = pin(declaration, place, run_input.version, run_input.table_id, may_be_empty=may_be_empty)
            source = as_recorded(without_erased(source, run_input.table, ledger))
            owner_input = _input_of(pipeline, declaration, () if owner is None else owner.inputs)
            if owner_input is None:
                before = None
            elif owner_input.version == run_input.version:
                before = source
            else:
                before = pin(
                    declaration, place, owner_input.version, owner_input.table_id, may_be_empty=may_be_empty
                )
            newer = newer_reads.get(declaration.table, ())
            if before is not None and before is not source:
                source = _as_the_run_read_it(source, before, row, declaration, newer)
            pins.append(SourcePin(declaration, source, before, newer))
        override_count = count_known_to(row)
        moved_rows = moved_rows_on(ledger, row, overrides) if override_count else {}
        return cls(tuple(pins), tuple(moved_rows.values()), override_count)


def _as_the_run_read_it(
    source: PinnedSource,
    before: PinnedSource,
    row: LedgerRow,
    declaration: Source,
    newer_reads: Sequence[ReadRange],
) -> PinnedSource:
    """The source of a run that went on from `before`. Where its files do not show that all rows were kept,
    the run has compared rows, which may be gone by now.
    """
    assert row.slice_start is not None
    try:
        source.check_kept(before, to_ms(row.slice_start), declaration.arrival_time, newer_reads)
    except SourceRewritten:
        return as_rewritten(source, before)
    return source


def pin_newest(pipeline: Pipeline, warehouse: Warehouse) -> tuple[PinnedSource, ...]:
    """Each source of the pipeline at its newest version. A table may have no rows yet. Raises
    NotADeltaTable, EmptySource, LogDamaged: what is there can't be read as a source.
    """
    places = [(source, place_of(warehouse, pipeline, source)) for source in pipeline.sources]
    may_be_empty = len(places) > 1
    pinned_sources = tuple(pin(source, place, may_be_empty=may_be_empty) for source, place in places)
    if all(
        isinstance(place, FolderPlace) and not source.actions.num_rows
        for (_, place), source in zip(places, pinned_sources, strict=True)
    ):
        tables = ", ".join(repr(source.table) for source, _ in places)
        raise EmptySource(
            f"the folders {tables} are all empty: there is nothing to replay yet. Write files into one of "
            "them, then repeat the command.",
            uri=pinned_sources[0].uri,
        )
    return pinned_sources


def _input_of(pipeline: Pipeline, source: Source, inputs: Iterable[Input]) -> Input | None:
    tables = {item.table: item for item in inputs}
    if not tables:
        return None
    table = source.table
    if table not in tables:
        read_tables = ", ".join(name for name in tables if name != OVERRIDES)
        raise SourceChanged(
            f"{pipeline.name}: the run before read {read_tables}, the pipeline now declares {table}. A "
            f"lineage keeps its source: undo the change, or {new_lineage(pipeline.name)}.",
            table=table,
        )
    return tables[table]


def how_to_restate_all(pipeline: str, start_ms: int, end_ms: int) -> str:
    """The next step where the source was replaced by another table and main has run [start, end)."""
    return (
        f"Restate everything from the table that is there: `slackwater backfill {pipeline} --from "
        f"{iso(start_ms)} --to {iso(end_ms)}`."
    )


@contextmanager
def with_next_step(pipeline: str, lineage: Slice) -> Iterator[None]:
    """Add the next step to the errors of a source in the block. `lineage` is what was run before."""
    try:
        yield
    except (SourceReplaced, VersionGone) as error:
        next_step = how_to_restate_all(pipeline, lineage.from_ms, lineage.to_ms)
        raise type(error)(f"{pipeline}: {error.message} {next_step}", **error.facts) from error
    except SourceRewritten as error:
        next_step = _how_to_restate_rows(pipeline, lineage, error)
        raise type(error)(f"{pipeline}: {error.message} {next_step}", **error.facts) from error


def _how_to_restate_rows(pipeline: str, lineage: Slice, error: SourceRewritten) -> str:
    least, greatest = (cast("int | None", error.facts[name]) for name in ("least_ms", "greatest_ms"))
    first = lineage.from_ms if least is None else max(least, lineage.from_ms)
    end = lineage.to_ms if greatest is None else min(greatest + 1, lineage.to_ms)
    command = f"`slackwater backfill {pipeline} --from {iso(first)} --to {iso(end)}`"
    if isinstance(error, NewRowsNotKnown):
        return f"A restatement reads all of them: {command}."
    return (
        f"What rests on them has to be restated: {command}; or put the rows back (RESTORE version "
        f"{error.facts['before']}, append only); or, if a law has demanded it, `slackwater erase {pipeline}` "
        "records it and takes them out of the tables, too."
    )
