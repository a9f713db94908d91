"""Answers the questions of the inspection verbs from the stored tables, without a JVM and without the pipeline's declaration.

Reads only; says when a roll-forward is open, and leaves it open.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import UsageError
from jobs.tables.ledger import MAIN, LedgerRow
from jobs.tables.staging import read_staged
from jobs.tables.warehouse import Tables, Warehouse

ROLLED_FORWARD = "slackwater"


@dataclass(frozen=True)
class Inspection:
    """The stored tables of one pipeline, for reading."""

    pipeline: str
    tables: Tables

    @classmethod
    def of(cls, pipeline: str, warehouse: str | None) -> "Inspection":
        """The tables of `pipeline` in a warehouse.

        Raises:
            NoRuns: there are none.
        """
        return cls(pipeline, Warehouse.at(warehouse).stored(pipeline))

    def say_if_unfinished(self) -> None:
        """Say on stderr when `published` lags the ledger."""
        head = self.tables.ledger.head()
        done = self._rolled_forward()
        if head is not None and head.seq > done:
            print(
                f"{self.pipeline}: `published` is as of run {done}, the ledger at {head.seq}; the next writing command, for example "
                f"`slackwater publish {self.pipeline}`, finishes the roll-forward.",
                file=sys.stderr,
            )

    def runs(self, since: int) -> list[tuple[LedgerRow, list[str]]]:
        """Ledger rows after `since`, each with the window dates that it changed in `published`: none until that has rolled it forward."""
        rows = self.tables.ledger.rows(since)
        touched: dict[int, set[str]] = {row.seq: set() for row in rows}
        changed = (pc.field("seq") > since) & (pc.field("seq") <= self._rolled_forward())
        changes = self.tables["corrections"].read(["seq", "window_start"], changed)
        for seq, start in zip(changes.column("seq").to_pylist(), changes.column("window_start").to_pylist(), strict=True):
            touched.setdefault(seq, set()).add("" if start is None else start.strftime("%Y-%m-%d"))
        return [(row, sorted(touched[row.seq])) for row in rows]

    def _rolled_forward(self) -> int:
        """The seq of the newest ledger row that `published` shows; 0 for none."""
        published = self.tables["published"].find()
        return 0 if published is None else published.transaction_version(ROLLED_FORWARD) or 0

    def run(self, seq: int | None) -> LedgerRow:
        """The ledger row of `seq`, or main's head.

        Raises:
            NoRuns: there is none of that seq.
            UsageError: there is none at all.
        """
        if seq is not None:
            return self.tables.ledger.row(seq)
        head = self.tables.ledger.head(MAIN)
        if head is None:
            raise UsageError(f"{self.pipeline} has no committed run yet; `slackwater runs {self.pipeline}` shows its attempts.")
        return head

    def checks(self, seq: int) -> list[dict[str, Any]]:
        """The validations of a run."""
        return self.tables["validations"].read(where=pc.field("run_id") == self.run(seq).run_id).to_pylist()

    def open_attempts(self) -> list[dict[str, Any]]:
        """Attempts that the ledger does not have, oldest first. One that died between its commit and its record is none of them."""
        committed = {row.run_id for row in self.tables.ledger.rows()}
        return [asdict(row) for row in self.tables.attempts.standing() if row.run_id not in committed]

    def snapshot(self, table: str, seq: int | None) -> pa.Table:
        """Rows of a snapshot table as of a run (default: main's head), without run_id."""
        owner = self.tables.ledger.snapshot_owner(self.run(seq))
        return read_staged(self.tables, table, () if owner is None else owner.files.get(table, ()))

    def live(self, table: str) -> pa.Table:
        """Rows of a staged table that main's live runs make up, each with its seq, oldest run first."""
        head = self.run(None)
        seqs = {row.run_id: row.seq for row in self.tables.ledger.live_runs(head)}
        rows = self.tables[table].read(where=pc.field("run_id").isin(pa.array(list(seqs), pa.string())))
        rows = rows.append_column("seq", pa.array([seqs[run_id] for run_id in rows.column("run_id").to_pylist()], pa.int64()))
        return rows.sort_by("seq")

    def key_columns(self) -> list[str]:
        """The pipeline's key columns, from the stored table."""
        names = self.tables["timers"].schema.names
        return names[names.index("key_group") + 1 : names.index("window_start")]
