"""The corrections that a ledger row brings, computed from panes and the rows of `published` as of the row
before.

A run that continues the live set decides about the windows of its own panes, which are their newest firings.
A row that changes the live set decides about the windows of all runs that enter or leave it, by the panes of
all live runs:

    live before   1  2  3       runs 2 and 3 leave, run 4 enters:
    live after    1  4          their windows are touched, and runs 1 and 4 have the panes that count

Both go portion by portion of the key groups, so that memory does not grow with a run. Reads tables and writes
none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.protocol.publishing.correction_sql import RUN
from slackwater.jobs.protocol.publishing.corrections import Identity, Publication, dates_of
from slackwater.jobs.protocol.publishing.portions import Portion, portions
from slackwater.jobs.protocol.publishing.published_files import (
    bounds_of_starts,
    files_of_days,
    least_and_greatest,
)
from slackwater.jobs.protocol.publishing.uniqueness import PUBLISHED, Uniqueness
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.ledger.lineage_rows import cause_of, is_rebuild
from slackwater.jobs.tables.ledger.row_kinds import RUN_KINDS
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.warehouse import Tables


@dataclass(frozen=True)
class PaneChanges:
    """Computes the corrections of ledger rows of one pipeline.

    Attributes:
        tables: the pipeline's tables.
        publication: which rows replace each other in `published`.
        portion_rows: about so many rows are held at once.
    """

    tables: Tables
    publication: Publication
    portion_rows: int

    def of_row(self, row: LedgerRow) -> Iterator[pa.Table]:
        """The corrections of a ledger row, as of `Publication.changes`, portion by portion."""
        return self.of_run(row) if row.kind in RUN_KINDS else self.of_lineage(row)

    def of_run(self, row: LedgerRow) -> Iterator[pa.Table]:
        """The corrections of a run that continues the live set. Its panes are the newest of their windows.

        Rows of process functions are only inserted. So are those of the global window, which has no day: it
        is never collected, so its firings are numbered through, and stand side by side.
        """
        publication, cause = self.publication, cause_of(row)
        panes = self._panes_of([row.run_id])
        for portion in portions([panes.files.actions], self.portion_rows):
            rows = panes.read(portion, publication.columns_of_inserts)
            if (
                publication.identity is not Identity.RUN
                and (published_rows := self._published_rows(rows, portion, self._days_of(rows))).num_rows
            ):
                refired_panes = panes.read(portion)
                refired_panes = refired_panes.filter(publication.is_among(refired_panes, published_rows))
                yield publication.changes(refired_panes, refired_panes, published_rows, cause)
                rows = rows.filter(pc.invert(publication.is_among(rows, published_rows)))
            yield publication.inserts(rows, cause)

    def of_lineage(self, row: LedgerRow) -> Iterator[pa.Table]:
        """The corrections of a row that changes the live set: a publish, a restore, or a rebuild. A rebuild
        changes no live run, and touches the windows of all.
        """
        ledger = self.tables.ledger
        assert row.parent_seq is not None
        before, after = ledger.live_runs(ledger.row(row.parent_seq)), ledger.live_runs(row)
        staying_seqs = (
            set[int]() if is_rebuild(row) else {run.seq for run in before} & {run.seq for run in after}
        )
        entering = self._panes_of([run.run_id for run in after if run.seq not in staying_seqs])
        leaving = self._panes_of(
            [] if is_rebuild(row) else [run.run_id for run in before if run.seq not in staying_seqs]
        )
        staying = self._panes_of([run.run_id for run in after if run.seq in staying_seqs])
        positions = pa.array([run.run_id for run in after], pa.string())
        for portion in portions([entering.files.actions, leaving.files.actions], self.portion_rows):
            entering_panes = entering.read(portion)
            touched_panes = pa.concat_tables([entering_panes, leaving.read(portion)])
            log = pa.concat_tables([entering_panes, self._panes_among(staying, portion, touched_panes)])
            order = pc.index_in(log.column("run_id"), value_set=positions).cast(pa.int64())
            log = log.set_column(log.schema.get_field_index(RUN), RUN, order)
            published_rows = self._published_rows(touched_panes, portion, dates_of(touched_panes))
            yield self.publication.changes(log, touched_panes, published_rows, cause_of(row))

    def _days_of(self, panes: pa.Table) -> set[date | None]:
        """The days on which rows that `panes` replace may be published."""
        days = dates_of(panes)
        return days if self.publication.shape.windows is not None else days - {None}

    def _panes_of(self, run_ids: list[str]) -> "_Panes":
        within = Within("run_id", min(run_ids, default=""), max(run_ids, default=""))
        files = replace(self.tables["panes"].files(within), dictionary_columns=("kind",))
        return _Panes(files, tuple(run_ids))

    def _panes_among(self, panes: "_Panes", portion: Portion, touched_panes: pa.Table) -> pa.Table:
        """Those of `panes` that are of the windows of `touched_panes`."""
        where = _is_within("window_start", touched_panes) | _is_within("timestamp", touched_panes)
        if self.publication.shape.windows is not None and touched_panes.column("window_start").null_count:
            where |= pc.field("window_start").is_null()
        parts = [
            part.filter(self.publication.is_among(part, touched_panes))
            for part in panes.scan(portion, where, self.portion_rows)
        ]
        return pa.concat_tables([panes.empty(), *parts])

    def _published_rows(self, panes: pa.Table, portion: Portion, days: set[date | None]) -> pa.Table:
        """The rows of `published` on `days` that are of the windows of `panes`, all in `portion`."""
        folder = self.tables[PUBLISHED]
        where = portion.where & (_is_within("window_start", panes) | pc.field("window_start").is_null())
        files = files_of_days(folder, days)
        if not panes.column("window_start").null_count:
            files = files.within(*bounds_of_starts(least_and_greatest(panes.column("window_start"))))
        parts = (
            part.filter(self.publication.is_among(part, panes))
            for part in files.scan(folder.schema.names, where, self.portion_rows)
        )
        published_rows = pa.concat_tables([folder.schema.empty_table(), *parts])
        Uniqueness(self.tables, self.publication, self.portion_rows).require_once(PUBLISHED, published_rows)
        return published_rows


@dataclass(frozen=True)
class _Panes:
    """The panes of some runs, with the position `RUN` 0."""

    files: StoredFiles
    run_ids: tuple[str, ...]

    def read(self, portion: Portion, columns: list[str] | None = None) -> pa.Table:
        return _at_0(self.files.read(columns or self.files.schema.names, self._where(portion)))

    def scan(self, portion: Portion, where: pc.Expression, most: int) -> Iterator[pa.Table]:
        return map(_at_0, self.files.scan(self.files.schema.names, self._where(portion) & where, most))

    def empty(self) -> pa.Table:
        return _at_0(self.files.read_schema.empty_table())

    def _where(self, portion: Portion) -> pc.Expression:
        run_ids = pa.array(self.run_ids, pa.string())
        return (
            portion.where
            if self.files.have_only("run_id", run_ids)
            else pc.field("run_id").isin(run_ids) & portion.where
        )


def _at_0(panes: pa.Table) -> pa.Table:
    return panes.append_column(RUN, pa.repeat(pa.scalar(0, pa.int64()), panes.num_rows))


def _is_within(name: str, panes: pa.Table) -> pc.Expression:
    """Whether the time `name` lies between the least and the greatest of `panes`."""
    bounds = pc.min_max(panes.column(name))
    if not bounds["min"].is_valid:
        return pc.scalar(False)
    return (pc.field(name) >= bounds["min"]) & (pc.field(name) <= bounds["max"])
