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

from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.staging.collected_mark import Latenesses, collects, marks
from slackwater.jobs.protocol.staging.lease import only_upkeep
from slackwater.jobs.tables.delta.stored_files import Within
from slackwater.jobs.tables.delta.upkeep import TableUpkeep
from slackwater.jobs.tables.ledger.attempts import AttemptsWriter
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.ledger.spans import seqs_of
from slackwater.jobs.tables.schemas import TIME
from slackwater.jobs.tables.warehouse import Tables
from slackwater.windowing.times import to_datetime

HORIZON = "slackwater history"


class HistoryDropped(UsageError):
    """What would be needed to go back was dropped. Facts: seq, the last run whose history was."""


def horizon_of(tables: Tables) -> int | None:
    """The seq of the last run behind which nobody may go back; None where nothing was dropped."""
    with tables["panes"].handle() as panes:
        seq = None if panes is None else panes.transaction_version(HORIZON)
    return None if seq is None else int(seq)


def require_history(pipeline: str, tables: Tables, live: Sequence[int]) -> None:
    """Refuse to make `live`, seqs of runs, what main's live runs are, if that takes back a run whose history
    was dropped.

    Raises:
        HistoryDropped: with the moment behind which it can be restated.
    """
    seq = horizon_of(tables)
    if seq is None or seq in live:
        return
    raise HistoryDropped(
        f"{pipeline}: panes and corrections up to run {seq} were dropped (`keep_history`), and what "
        "`published` shows of them can't be "
        f"worked out again. What arrived from {tables.ledger.row(seq).slice_end:%Y-%m-%dT%H:%M:%SZ} on can "
        "be restated and restored; "
        "what lies before, in a pipeline of another name.",
        seq=seq,
    )


@contextmanager
def while_history_stays(
    pipeline: str, tables: Tables, live: Sequence[int], clock: Callable[[], datetime], *, drops_history: bool
) -> Iterator[None]:
    """The block as `require_history` allows it. Where upkeep `drops_history`, it does not meanwhile.

    Raises:
        HistoryDropped: see `require_history`.
        LeaseHeld: upkeep is at work.
    """
    with only_upkeep(pipeline, AttemptsWriter(tables["attempts"]), clock) if drops_history else nullcontext():
        require_history(pipeline, tables, live)
        yield


@dataclass(frozen=True)
class Dropped:
    """What goes of a table: the rows for which `where` holds, all of which stand within the bounds; the
    commit is `transaction`.
    """

    table: str
    where: pc.Expression
    within: Within
    transaction: Transaction | None = None


@dataclass(frozen=True)
class History:
    """The history of one pipeline's lineage."""

    pipeline: Pipeline
    tables: Tables

    def horizon(self) -> tuple[LedgerRow, datetime] | None:
        """The last run whose history may go, and the end of the last window that the lineage had collected by
        then.
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

    def droppable(self) -> list[Dropped]:
        """What `drop` would take away now."""
        horizon = self.horizon()
        if horizon is None:
            return []
        row, end = horizon
        assert row.slice_end is not None
        ends = pc.field("window_end") <= pa.scalar(end, TIME)
        until = Within("window_end", None, end)
        old = [
            run.run_id
            for run in self.tables.ledger.rows()
            if run.slice_end is not None and run.slice_end <= row.slice_end
        ]
        of_old_runs = pc.field("run_id").isin(pa.array(old, pa.string()))
        return [
            Dropped("panes", ends, until, Transaction(HORIZON, row.seq)),
            Dropped("late_events", of_old_runs, Within("run_id", min(old), max(old))),
            Dropped("corrections", ends, until),
        ]

    def rows(self, dropped: Dropped) -> int:
        """How many rows go."""
        return TableUpkeep(self.tables[dropped.table]).count(dropped.where, dropped.within)

    def drop(self, dropped: Dropped) -> int:
        """Take them away, and say in the log of `panes` how far; returns how many rows."""
        return TableUpkeep(self.tables[dropped.table]).delete(
            dropped.where, dropped.within, dropped.transaction
        )
