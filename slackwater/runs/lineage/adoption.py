"""The adoption: declares that the table that has replaced a source is the one that live runs have read, after
a check of its rows.

Where the old table can still be read (a REPLACE keeps its versions), the rows of each slice are compared;
where it can't, how many there are. The ledger records which of the two was compared. Reads the source file by
file in this process; rows that no run has covered are not looked at.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.judge import in_milliseconds
from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import SourceReplaced, VersionGone, pin, place_of
from slackwater.errors import RejectedError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.slice_replay import how_to_restate_all
from slackwater.runs.staging.slices import Slice, end_of, start_of
from slackwater.runs.staging.stragglers import input_of, other_table_of
from slackwater.tables.ledger.lineage_rows import adopt_row
from slackwater.tables.ledger.overrides import MovedRows, OverridesReader, moved_rows_by_run
from slackwater.tables.ledger.rows import MAIN, Input, LedgerRow
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.sql import query
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_ms

log = logging.getLogger("slackwater")

_PLACE = "__place"
_OUTSIDE = -2
# The place of rows without an arrival time, behind which the slices are counted from 0.
_NOWHERE = -1
_SHOWN = 5


class OtherRows(RejectedError):
    """The table does not hold the rows that runs have read. Facts: slices."""


class CannotCompare(UsageError):
    """The rows of the table can't be read without Spark."""


class OnlyCounted(RejectedError):
    """The old table is gone, so that only numbers of rows were compared, and nobody has accepted that."""


class RowTally(NamedTuple):
    """Some rows: how many, and the sum of a hash of each; None where only their number is known."""

    rows: int
    values: int | None


@dataclass(frozen=True)
class AdoptionResult:
    """An adoption that was recorded.

    Attributes:
        row: its ledger row.
        rows: how many rows were compared.
        by_values: whether their values were, or their number alone.
    """

    row: LedgerRow
    rows: int
    by_values: bool


@dataclass(frozen=True)
class Adoption:
    """Declares the source of one pipeline the same.

    Attributes:
        warehouse, pipeline: where and what.
        tables: its tables.
        roll_forward: finished first, as by every writing command.
        version: of the product, recorded in the ledger.
        clock: the wall clock.
        source: which of the pipeline's sources is declared the same; None: the first that was replaced.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    tables: Tables
    roll_forward: RollForward
    version: str
    clock: Callable[[], datetime] = wall_clock
    source: Source | None = None

    def run(self, accept: str | None = None) -> AdoptionResult | None:
        """Compare and record. None where live runs have read the very table that is there. `accept`: why
        numbers of rows are enough.

        Raises:
            OtherRows, CannotCompare, OnlyCounted: nothing was changed.
            LostRaceError: main moved meanwhile.
        """
        self.roll_forward.finish()
        results = (replace(self, source=source)._adopt(accept) for source in self.pipeline.sources)
        return next((result for result in results if result is not None), None)

    @property
    def _declaration(self) -> Source:
        """The source that is declared the same."""
        return self.pipeline.sources[0] if self.source is None else self.source

    def _adopt(self, accept: str | None) -> AdoptionResult | None:
        """Compare and record one source."""
        name, source = self.pipeline.name, self._declaration
        ledger = LedgerWriter(self.tables["runs"])
        head = ledger.head(MAIN)
        live = [] if head is None else ledger.live_runs(head)
        place = place_of(self.warehouse, self.pipeline, source)
        newest = pin(source, place, may_be_empty=len(self.pipeline.sources) > 1)
        if head is None or other_table_of(live, source.table, newest.table_id) is None:
            return None
        if newest.why_not_direct is not None:
            raise CannotCompare(
                f"{name}: the rows of source {source.table!r} can't be compared without Spark "
                f"({newest.why_not_direct}). "
                f"{how_to_restate_all(name, start_of(live[0]), end_of(live[-1]))}"
            )
        rows, by_values = self._compare(newest, live)
        if not by_values and accept is None:
            raise OnlyCounted(
                f"{name}: the table that runs have read can't be read any more. The one that is there has as "
                "many rows in each slice as "
                f"they have read ({rows:,} in all); whether the values are the same can't be known. Nothing "
                "was changed. `slackwater "
                f"state adopt {name} --accept REASON` records it all the same; a backfill of everything "
                "makes sure.",
                rows=rows,
            )
        verdict = (
            "adopted: rows compared"
            if by_values
            else f"adopted: numbers of rows compared; accepted: {accept}"
        )
        adopted_input = Input(
            table=source.table,
            table_id=newest.table_id,
            version=newest.version,
            files=newest.actions.num_rows,
            rows=rows,
            bytes=0,
        )
        row = adopt_row(
            head,
            ledger.snapshot_owner(head),
            ledger.start_of(head),
            adopted_input,
            verdict=verdict,
            version=self.version,
        )
        [bound] = ledger.commit(MAIN, head.seq, [row], self.clock)
        log.info("adopt", extra={"pipeline": name, "seq": bound.seq, "run_id": bound.run_id})
        self.roll_forward.finish()
        return AdoptionResult(bound, rows, by_values)

    def _compare(self, newest: PinnedSource, live: Sequence[LedgerRow]) -> tuple[int, bool]:
        """How many rows of `live` were compared, and whether their values were.

        Raises:
            OtherRows: the table does not hold them.
        """
        adopted_tallies, stored_tallies = self._tallies(newest, live), self._tallies_as_read(newest, live)
        if stored_tallies is None and len(self.pipeline.sources) > 1:
            raise CannotCompare(
                f"{self.pipeline.name}: the table that runs have read as {self._declaration.table!r} "
                "can't be read any more, and of several sources the ledger does not say which rows were "
                f"folded in. {how_to_restate_all(self.pipeline.name, start_of(live[0]), end_of(live[-1]))}"
            )
        if stored_tallies is None:
            differing = self._differing_counts(live, adopted_tallies)
        else:
            differing = [
                place
                for place in adopted_tallies.keys() | stored_tallies.keys()
                if adopted_tallies.get(place) != stored_tallies.get(place)
            ]
        if differing:
            raise self._other_rows(live, sorted(differing))
        return sum(tally.rows for tally in adopted_tallies.values()), stored_tallies is not None

    def _tallies(self, source: PinnedSource, live: Sequence[LedgerRow]) -> dict[int, RowTally]:
        """The rows of each slice of `live`, by its place, and those without an arrival."""
        arrival, names = self._declaration.arrival_time, tuple(sorted(source.schema.names))
        bounds = np.array([start_of(row) for row in live] + [end_of(live[-1])], np.int64)
        column_list = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        tallies: dict[int, RowTally] = {}
        for file in source.files(int(bounds[0]), int(bounds[-1]), arrival, None):
            rows = read_columns(source.uri, file, source.schema, names)
            times, is_undated = in_milliseconds(rows.column(arrival))
            places = np.searchsorted(bounds, times, side="right") - 1
            places[(places < 0) | (places >= len(live))] = _OUTSIDE
            places[is_undated] = _NOWHERE
            inside = rows.append_column(_PLACE, pa.array(places, pa.int64()))
            counts = query(
                f"SELECT {_PLACE}, count(*), sum(hash({column_list})) FROM inside "
                f"WHERE {_PLACE} > {_OUTSIDE} GROUP BY 1",
                inside=inside,
            )
            for place, count, values in zip(*(column.to_pylist() for column in counts.columns), strict=True):
                tally = tallies.get(place, RowTally(0, 0))
                tallies[place] = RowTally(tally.rows + count, (tally.values or 0) + int(values))
        tallies.pop(_OUTSIDE, None)
        return tallies

    def _tallies_as_read(
        self, adopted_source: PinnedSource, live: Sequence[LedgerRow]
    ) -> dict[int, RowTally] | None:
        """The rows that live runs have read of each slice, counted in the old table at the versions that they
        read; None where it can't be read any more.
        """
        declaration = self._declaration
        inputs = [item for item in (input_of(row, declaration.table) for row in live) if item is not None]
        # Rows of earlier slices that a later run has folded in were in its version.
        newest = [max(item.version for item in inputs[place:]) for place in range(len(inputs))]
        versions = newest if self.pipeline.stragglers == "fold" else [item.version for item in inputs]
        if len({item.table_id for item in inputs}) > 1 or len(inputs) < len(live):
            return None
        recorded_tallies: dict[int, RowTally] = {}
        try:
            for version in sorted(set(versions)):
                source = pin(declaration, adopted_source.place, version, inputs[0].table_id)
                if source.why_not_direct is not None or not _has_same_columns(source, adopted_source):
                    return None
                tallies = self._tallies(source, live)
                places = {place for place, read_at in enumerate(versions) if read_at == version}
                places |= {_NOWHERE} if version == max(versions) else set()
                recorded_tallies |= {place: tally for place, tally in tallies.items() if place in places}
        except (VersionGone, SourceReplaced, FileNotFoundError):
            return None
        return recorded_tallies

    def _differing_counts(self, live: Sequence[LedgerRow], tallies: dict[int, RowTally]) -> list[int]:
        """The slices of which the adopted table holds not as many rows as runs have read. The ledger does not
        say to which slices folded rows belong: they count for slices that hold more rows than their runs have
        read.
        """
        quarantined_rows = self.tables["quarantine"].read(
            ["run_id"], pc.field("reason_code") == "null_arrival"
        )
        ids = quarantined_rows.column("run_id").to_pylist()
        overrides = OverridesReader(self.tables["overrides"]).rows()
        surplus: dict[int, int] = {}
        moved_by_run = moved_rows_by_run(self.tables.ledger, live, overrides)
        for place, row in enumerate(live):
            rows_of_slice = row.rows_read - row.rows_folded - ids.count(row.run_id)
            surplus[place] = (
                tallies.get(place, RowTally(0, None)).rows
                + _moved_rows(row, moved_by_run[place])
                - rows_of_slice
            )
        of_live = sum(ids.count(row.run_id) for row in live)
        differing = [place for place, rows in surplus.items() if rows < 0]
        if sum(surplus.values()) != sum(row.rows_folded for row in live):
            differing = [place for place, rows in surplus.items() if rows]
        return differing + [_NOWHERE] * (tallies.get(_NOWHERE, RowTally(0, None)).rows != of_live)

    def _other_rows(self, live: Sequence[LedgerRow], places: Sequence[int]) -> OtherRows:
        name = self.pipeline.name
        slices = [
            str(Slice(start_of(live[place]), end_of(live[place]))) for place in places if place != _NOWHERE
        ]
        slice_names = slices[:_SHOWN] + ([f"and {len(slices) - _SHOWN} more"] if len(slices) > _SHOWN else [])
        slice_names += ["rows without an arrival time"] * (_NOWHERE in places)
        return OtherRows(
            f"{name}: source {self._declaration.table!r} does not hold the rows that runs have read; they "
            f"differ in {', '.join(slice_names)}. "
            f"Nothing was changed. {how_to_restate_all(name, start_of(live[0]), end_of(live[-1]))}",
            slices=slices,
        )


def _has_same_columns(one: PinnedSource, other: PinnedSource) -> bool:
    return {field.name: field.type for field in one.schema} == {
        field.name: field.type for field in other.schema
    }


def _moved_rows(row: LedgerRow, moved_rows: MovedRows) -> int:
    """How many more rows a run has read of its slice than arrived in it, because their arrivals were
    changed.
    """
    overrides = moved_rows.values()
    inside = Slice(start_of(row), end_of(row))
    into = sum(inside.from_ms <= to_ms(override.arrival_time) < inside.to_ms for override in overrides)
    return into - sum(inside.from_ms <= to_ms(override.true_arrival) < inside.to_ms for override in overrides)
