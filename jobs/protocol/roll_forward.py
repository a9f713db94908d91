"""Carries committed runs from the ledger into `corrections` and `published`: the part of publishing that may die and be done again.

For each ledger row of main, in seq order, first `corrections`, then `published`, each in one Delta commit with the seq as its application
transaction. `published` follows from the corrections alone, so a death between the two is harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from jobs.protocol.corrections import BEFORE, RUN, Identity, Publication, dates_of
from jobs.tables.delta import Folder
from jobs.tables.errors import CommitConflict
from jobs.tables.ledger import MAIN, RUN_KINDS, LedgerRow
from jobs.tables.lineage import cause_of
from jobs.tables.reading import Within
from jobs.tables.warehouse import Tables

APPLICATION = "slackwater"

Step = Callable[[Folder, DeltaTable, LedgerRow, Transaction], None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        tables: the pipeline's tables.
        publication: what replaces what in `published`.
    """

    tables: Tables
    publication: Publication

    def pending(self) -> list[LedgerRow]:
        """Rows of main that `published` has not seen yet, oldest first."""
        done = _transaction(self.tables["published"].find())
        return [row for row in self.tables.ledger.rows(since=done) if row.branch == MAIN]

    def finish(self) -> list[LedgerRow]:
        """Do what is pending; returns the rows that were rolled forward. Several processes may do this at once: each step happens once."""
        rows = self.pending()
        for row in rows:
            self._once(self.tables["corrections"], row, self._correct)
            self._once(self.tables["published"], row, self._publish)
        return rows

    def _once(self, folder: Folder, row: LedgerRow, step: Step) -> None:
        while True:
            table = folder.ensure()
            if _transaction(table) >= row.seq:
                return
            try:
                step(folder, table, row, Transaction(APPLICATION, row.seq))
            except CommitConflict:
                continue
            if _transaction(folder.open()) < row.seq:
                raise AssertionError(f"{folder.uri}: the commit of run {row.seq} left no transaction")
            return

    def _correct(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> None:
        log, moved, published = self._of_run(row) if row.kind in RUN_KINDS else self._of_lineage(row)
        changes = self.publication.changes(log, moved, published, cause_of(row))
        run_ids = {seq: self.tables.ledger.row(seq).run_id for seq in self._withdrawn_runs(changes)}
        names = [run_ids.get(before, row.run_id) for before in changes.column(BEFORE).to_pylist()]
        whole = {"seq": row.seq, "at": row.committed_at}
        columns = {name: pa.repeat(pa.scalar(value, folder.schema.field(name).type), len(names)) for name, value in whole.items()}
        columns |= {"run_id": pa.array(names, pa.string()), **{name: changes.column(name) for name in changes.schema.names}}
        corrections = pa.table({name: columns[name] for name in folder.schema.names})
        folder.append(corrections.cast(folder.schema), expected=table, transaction=transaction)

    def _of_run(self, row: LedgerRow) -> tuple[pa.Table, pa.Table, pa.Table]:
        """What one run decides, which continues what was live: its own panes. Firings that stand side by side change no older ones."""
        panes = self._panes([row.run_id])
        replaces = self.publication.identity is Identity.WINDOW
        return panes, panes, self._published_of(dates_of(panes) - {None} if replaces else set())

    def _of_lineage(self, row: LedgerRow) -> tuple[pa.Table, pa.Table, pa.Table]:
        """What a change of the live set decides: the windows of all runs that enter or leave it, by the panes of those that are live."""
        ledger = self.tables.ledger
        assert row.parent_seq is not None
        before, after = ledger.live_runs(ledger.row(row.parent_seq)), ledger.live_runs(row)
        stay = {run.seq for run in before} & {run.seq for run in after}
        entering = self._panes([run.run_id for run in after if run.seq not in stay])
        leaving = self._panes([run.run_id for run in before if run.seq not in stay])
        moved = pa.concat_tables([entering, leaving])
        older = self._panes([run.run_id for run in after if run.seq in stay], among=moved)
        log = pa.concat_tables([entering, older])
        position = {run.run_id: number for number, run in enumerate(after)}
        order = pa.array([position[run_id] for run_id in log.column("run_id").to_pylist()], pa.int64())
        return log.set_column(log.schema.get_field_index(RUN), RUN, order), moved, self._published_of(dates_of(moved))

    def _panes(self, run_ids: list[str], among: pa.Table | None = None) -> pa.Table:
        """Panes of runs; with `among` only those of the times in which its panes lie. All at position 0."""
        where = pc.field("run_id").isin(pa.array(run_ids, pa.string()))
        if among is not None:
            where = where & (_within("window_start", among) | _within("timestamp", among))
        within = Within("run_id", min(run_ids, default=""), max(run_ids, default=""))
        panes = self.tables["panes"].read(where=where, within=within)
        return panes.append_column(RUN, pa.array([0] * panes.num_rows, pa.int64()))

    def _withdrawn_runs(self, changes: pa.Table) -> list[int]:
        """For rows that stand for themselves: the ledger rows whose rows are withdrawn; a withdrawal names that row's run."""
        return changes.column(BEFORE).drop_null().unique().to_pylist() if self.publication.identity is Identity.RUN else []

    def _publish(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> None:
        corrections = self.tables["corrections"].read(where=pc.field("seq") == row.seq, within=Within.only("seq", row.seq))
        inserts_only = pc.all(pc.equal(corrections.column("op"), "insert"), min_count=0).as_py()
        if inserts_only:
            fresh = self.publication.apply(corrections, folder.schema.empty_table(), _names({}))
            folder.append(fresh.cast(folder.schema), expected=table, transaction=transaction)
            return
        dates = dates_of(corrections)
        after = self.publication.apply(corrections, self._published_of(dates), self._names_of(corrections))
        known = ", ".join(f"'{day}'" for day in sorted(day for day in dates if day is not None))
        where = [*([f"window_date IN ({known})"] if known else []), *(["window_date IS NULL"] if None in dates else [])]
        folder.replace(after.cast(folder.schema), " OR ".join(where), table, transaction)

    def _names_of(self, corrections: pa.Table) -> pa.Table:
        """(run_id, seq) of the ledger rows that corrections name, where that tells rows apart."""
        if self.publication.identity is not Identity.RUN:
            return _names({})
        found = (self.tables.ledger.by_run_id(run_id) for run_id in corrections.column("run_id").unique().to_pylist())
        return _names({row.run_id: row.seq for row in found if row is not None})

    def _published_of(self, dates: set[date | None]) -> pa.Table:
        folder = self.tables["published"]
        if not dates:
            return folder.schema.empty_table()
        days = pa.array([day for day in dates if day is not None], pa.date32())
        where = pc.field("window_date").isin(days)
        if None in dates:
            return folder.read(where=where | pc.field("window_date").is_null())
        return folder.read(where=where, within=Within("window_date", pc.min(days).as_py(), pc.max(days).as_py()))


def _names(seqs: dict[str, int]) -> pa.Table:
    return pa.table({"run_id": pa.array(list(seqs), pa.string()), "seq": pa.array(list(seqs.values()), pa.int64())})


def _within(name: str, panes: pa.Table) -> pc.Expression:
    """Whether a time lies between the least and the greatest of `panes`."""
    bounds = pc.min_max(panes.column(name))
    if not bounds["min"].is_valid:
        return pc.scalar(False)
    return (pc.field(name) >= bounds["min"]) & (pc.field(name) <= bounds["max"])


def _transaction(table: DeltaTable | None) -> int:
    """The seq that a table has been rolled forward to; 0 for none."""
    return 0 if table is None else table.transaction_version(APPLICATION) or 0
