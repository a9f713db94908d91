"""The horizon of a lineage's history: which panes, corrections and late rows upkeep may drop, and which
moves are refused because they would go back behind it.

    main     |-- run 1 --|-- run 2 --|-- run 3 --|-- run 4 --|
                                     ^ horizon   |keep_history|
    dropped  panes and corrections of windows collected by run 2; late rows of runs 1 and 2

With `Pipeline.keep_history` the horizon is the newest live run whose slice ended that long before the
newest run's, and behind which every branch forks. No run behind it touches a window that was collected by
then, so nothing of `published` rests on what is dropped. A restatement, a restore or a branch that would
take the lineage back behind the horizon is refused. The log of `panes` records which run it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction

from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.staging.collected_mark import Latenesses, collects, marks
from slackwater.runs.staging.lease import only_upkeep
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.errors import new_lineage
from slackwater.tables.ledger.attempts import AttemptsWriter
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.schemas import TIME
from slackwater.tables.warehouse import Tables
from slackwater.windowing.times import to_datetime

HORIZON = "slackwater history"


class HistoryDropped(UsageError):
    """The history that a move back would need was dropped. Facts: seq, the last run whose history was."""


def horizon_of(tables: Tables) -> int | None:
    panes = tables["panes"].find()
    seq = None if panes is None else panes.transaction_version(HORIZON)
    return None if seq is None else int(seq)


def require_history(pipeline: str, tables: Tables, live: Sequence[int]) -> None:
    """Refuse to make the runs `live` (seqs) main's live runs, if that takes back a run whose history was
    dropped. Raises HistoryDropped: with the moment behind which it can be restated.
    """
    seq = horizon_of(tables)
    if seq is None or seq in live:
        return
    raise HistoryDropped(
        f"{pipeline}: panes and corrections up to run {seq} were dropped (`keep_history`), and what "
        "`published` shows of them can't be "
        f"worked out again. What arrived from {tables.ledger.row(seq).slice_end:%Y-%m-%dT%H:%M:%SZ} on can "
        f"be restated and restored. To replay what lies before, {new_lineage(pipeline)}.",
        seq=seq,
    )


@contextmanager
def while_history_stays(
    pipeline: str, tables: Tables, live: Sequence[int], clock: Callable[[], datetime], *, drops_history: bool
) -> Iterator[None]:
    """Run the block if `require_history` allows it. Where upkeep `drops_history`, its lease keeps it out of
    the block. Raises HistoryDropped, LeaseHeld.
    """
    with only_upkeep(pipeline, AttemptsWriter(tables["attempts"]), clock) if drops_history else nullcontext():
        require_history(pipeline, tables, live)
        yield


@dataclass(frozen=True)
class OldRows:
    """The rows of a table before the horizon. `within` bounds their files; the commit that drops them
    records `transaction`.
    """

    table: str
    where: pc.Expression
    within: Within
    transaction: Transaction | None = None


@dataclass(frozen=True)
class History:
    """The history of one pipeline's lineage. `delivered_seq` is the ledger row up to which every sink has
    its corrections; None without sinks.
    """

    pipeline: Pipeline
    tables: Tables
    delivered_seq: int | None = None

    def horizon(self) -> tuple[LedgerRow, datetime] | None:
        """The last run whose history may go, and the end of the last window that the lineage had collected
        by then. None where no history may go.
        """
        head = self.tables.ledger.head(MAIN)
        if self.pipeline.keep_history is None or head is None or not head.live or not collects(self.pipeline):
            return None
        live = self.tables.ledger.live_runs(head)
        kept_by_branches = [set(seqs_of(branch.fork.live)) for branch in self.tables.ledger.branches()]
        newest = live[-1].slice_end
        assert newest is not None
        horizon = None
        for row, mark in zip(live, marks(live, Latenesses(self.tables.attempts, self.pipeline)), strict=True):
            assert row.slice_end is not None
            is_old = row.slice_end <= newest - self.pipeline.keep_history and row.seq != live[-1].seq
            if is_old and mark is not None and all(row.seq in seqs for seqs in kept_by_branches):
                horizon = row, to_datetime(mark + 1)
        return horizon

    def old_rows(self) -> list[OldRows]:
        horizon = self.horizon()
        if horizon is None:
            return []
        row, end = horizon
        assert row.slice_end is not None
        ends = pc.field("window_end") <= pa.scalar(end, TIME)
        until = Within("window_end", None, end)
        old_run_ids = [
            run.run_id
            for run in self.tables.ledger.rows()
            if run.slice_end is not None and run.slice_end <= row.slice_end
        ]
        # Corrections that a sink still lacks stay, however old they are.
        is_delivered = (
            pc.scalar(True) if self.delivered_seq is None else pc.field("seq") <= self.delivered_seq
        )
        is_of_old_run = pc.field("run_id").isin(pa.array(old_run_ids, pa.string()))
        return [
            OldRows("panes", ends, until, Transaction(HORIZON, row.seq)),
            OldRows("late_events", is_of_old_run, Within("run_id", min(old_run_ids), max(old_run_ids))),
            OldRows("corrections", ends & is_delivered, until),
        ]

    def count(self, old_rows: OldRows) -> int:
        return TableUpkeep(self.tables[old_rows.table]).count(old_rows.where, old_rows.within)

    def drop(self, old_rows: OldRows) -> int:
        """Delete them, and record the horizon in the log of `panes`; returns how many rows they were."""
        return TableUpkeep(self.tables[old_rows.table]).delete(
            old_rows.where, old_rows.within, old_rows.transaction
        )
