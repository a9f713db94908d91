"""The rows of the source that caused a change of a published row: the rows that its run took into the window.
For a restatement they are the rows that only one of the two lineages has in the window, so a corrected row
shows as one left out and one taken in.

Sources are not keyed, so every row of the slices in question is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slackwater.inspection.changes.published_change import PublishedChange, without
from slackwater.inspection.windows.lineage_as_of import KeyRows, LineageAsOf
from slackwater.inspection.windows.source_rows import RowOfWindow, rows_of_run
from slackwater.pipelines import Pipeline
from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.warehouse import Tables, Warehouse


class CausingRow(NamedTuple):
    """A row of the source that caused a change: taken into the window, or left out."""

    is_taken: bool
    row: RowOfWindow


@dataclass(frozen=True)
class CausingRows:
    """Finds the rows that caused the changes of one window. Each run is read once."""

    pipeline: Pipeline
    tables: Tables
    warehouse: Warehouse
    key_rows: KeyRows
    _rows_of_runs: dict[int, list[RowOfWindow]] = field(default_factory=dict, repr=False)

    def of(self, change: PublishedChange) -> Sequence[CausingRow]:
        """The rows that caused a change, by arrival. Raises NeedsSpark: a source has deletion vectors or
        renamed columns; CannotRepeat, SnapshotGone: what a run has read is not there any more.
        """
        if change.is_of_a_run:
            return [CausingRow(True, row) for row in self._accepted_rows(change, change.brought_by)]
        row = change.brought_by
        assert row.parent_seq is not None
        parent = self.tables.ledger.row(row.parent_seq)
        before, after = (self._runs_of(change, head) for head in (parent, row))
        common_seqs = {run.seq for run in before} & {run.seq for run in after}
        rows_before, rows_after = (
            [row for run in runs if run.seq not in common_seqs for row in self._accepted_rows(change, run)]
            for runs in (before, after)
        )
        changes = [
            *(CausingRow(True, row) for row in without(rows_after, rows_before, _content)),
            *(CausingRow(False, row) for row in without(rows_before, rows_after, _content)),
        ]
        return sorted(changes, key=lambda one: (one.row.arrival_time, one.row.event_time, one.is_taken))

    def _runs_of(self, change: PublishedChange, head: LedgerRow) -> list[LedgerRow]:
        """The runs of a lineage in which rows of the window may have arrived, up to the run whose pane was
        published before or after the change.
        """
        start = change.window["window_start"]
        first = None if start is None else start - self.pipeline.max_ahead
        ends = [run.slice_end for run in (change.run_before, change.run_after) if run is not None]
        last = max((end for end in ends if end is not None), default=None)
        return [
            run
            for run in self.tables.ledger.live_runs(head, since=first)
            if run.kind == RowKind.RUN
            and (last is None or (run.slice_start is not None and run.slice_start < last))
        ]

    def _accepted_rows(self, change: PublishedChange, run: LedgerRow) -> list[RowOfWindow]:
        if run.seq not in self._rows_of_runs:
            lineage = LineageAsOf(self.pipeline, run, self.key_rows, run.seq)
            rows = rows_of_run(lineage, self.warehouse, run, change.window)
            self._rows_of_runs[run.seq] = [row for row in rows if not row.is_late]
        return self._rows_of_runs[run.seq]


def _content(row: RowOfWindow) -> str:
    """What makes two rows the same, whichever run has read them."""
    return repr((row.event_time, sorted(row.values.items())))
