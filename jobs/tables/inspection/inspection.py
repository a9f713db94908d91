"""Answers the questions of the inspection verbs from the stored tables, without a JVM and without the
pipeline's declaration.

Reads only; says when a roll-forward is open, and leaves it open.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.errors import UsageError
from slackwater.jobs.tables.delta.stored_files import Within
from slackwater.jobs.tables.inspection import snapshot_diff
from slackwater.jobs.tables.ledger.row_kinds import RUN_KINDS
from slackwater.jobs.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.jobs.tables.ledger.spans import Span
from slackwater.jobs.tables.named_keys import is_key
from slackwater.jobs.tables.run_files.snapshots import snapshot_files
from slackwater.jobs.tables.run_files.staging import read_staged
from slackwater.jobs.tables.warehouse import APPLICATION, Tables, Warehouse


class LiveRows(NamedTuple):
    """Rows of a staged table, and for each the seq of its run: beside them, for a column of the source may
    have any name.
    """

    rows: pa.Table
    seqs: pa.ChunkedArray

    def take(self, places: pa.Array) -> "LiveRows":
        """The rows at `places`, in that order."""
        return LiveRows(self.rows.take(places), self.seqs.take(places))

    def filter(self, mask: pa.ChunkedArray) -> "LiveRows":
        """The rows for which `mask` is true."""
        return LiveRows(self.rows.filter(mask), self.seqs.filter(mask))


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
        return cls(pipeline, Warehouse.at(warehouse).stored_tables(pipeline))

    def say_if_unfinished(self) -> None:
        """Say on stderr when `published` lags the ledger."""
        head = self.tables.ledger.head()
        done = self._rolled_forward()
        if head is not None and head.seq > done:
            print(
                f"{self.pipeline}: `published` is as of run {done}, the ledger at {head.seq}; the next "
                "writing command, for example "
                f"`slackwater publish {self.pipeline}`, finishes the roll-forward.",
                file=sys.stderr,
            )

    def runs(self, since: int) -> list[tuple[LedgerRow, list[str]]]:
        """Ledger rows after `since`, each with the window dates that it changed in `published`: none until
        that has rolled it forward. Without a window, the date of a row's timestamp; "" where it has neither.
        """
        rows = self.tables.ledger.rows(since)
        touched: dict[int, set[str]] = {row.seq: set() for row in rows}
        changed = (pc.field("seq") > since) & (pc.field("seq") <= self._rolled_forward())
        changes = self.tables["corrections"].read(
            ["seq", "window_start", "timestamp"], changed, Within("seq", since + 1, None)
        )
        days = pc.coalesce(changes.column("window_start"), changes.column("timestamp")).to_pylist()
        for seq, day in zip(changes.column("seq").to_pylist(), days, strict=True):
            touched.setdefault(seq, set()).add("" if day is None else day.strftime("%Y-%m-%d"))
        return [(row, sorted(touched[row.seq])) for row in rows]

    def _rolled_forward(self) -> int:
        """The seq of the newest ledger row that `published` shows; 0 for none."""
        published = self.tables["published"].find()
        return 0 if published is None else published.transaction_version(APPLICATION) or 0

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
            raise UsageError(
                f"{self.pipeline} has no committed run yet; `slackwater runs {self.pipeline}` shows its "
                "attempts."
            )
        return head

    def at(self, name: str) -> LedgerRow:
        """The ledger row that a person names: a seq, `main` for its head, or a branch.

        Raises:
            NoRuns: there is no such row.
            UsageError: there is no such branch, or no run at all.
        """
        if name.isdecimal() or name == MAIN:
            return self.run(int(name) if name.isdecimal() else None)
        branch = self.tables.ledger.branch(name)
        if branch is None:
            there = ", ".join((MAIN, *(found.name for found in self.branches())))
            raise UsageError(f"{self.pipeline}: there is no branch {name}; name a seq, or one of {there}.")
        return branch.head

    def branches(self) -> list[Branch]:
        """The branches beside main that were not dropped, oldest first."""
        return self.tables.ledger.branches()

    def branch_runs(self) -> list[tuple[Branch, list[LedgerRow], bool]]:
        """Each branch with the runs that were made on it, and whether main has taken all of them."""
        ledger, main = self.tables.ledger, self.tables.ledger.head()
        found = []
        for branch in self.branches():
            runs = [run for run in ledger.live_runs(branch.head) if run.seq in branch.own_seqs]
            is_live = bool(runs) and main is not None and all(run.is_live_in(main) for run in runs)
            found.append((branch, runs, is_live))
        return found

    def lineage_of(self, rows: Sequence[LedgerRow]) -> dict[int, str | None]:
        """By seq, of a run: the branch in which it is live now, main before others, or None. Of another row:
        the runs that it made live.
        """
        heads = [
            head
            for head in (self.tables.ledger.head(), *(branch.head for branch in self.branches()))
            if head is not None
        ]
        found: dict[int, str | None] = {}
        for row in rows:
            if row.kind in RUN_KINDS:
                found[row.seq] = next((head.branch for head in heads if row.is_live_in(head)), None)
            else:
                found[row.seq] = ", ".join(_span(span) for span in row.live) or None
        return found

    def differences(self, left: str, right: str) -> list[dict[str, Any]]:
        """Where the snapshots as of two ledger rows (see `at`) differ; columns as of
        `slackwater.jobs.tables.inspection.snapshot_diff.differences`.
        """
        sides = [
            {table: self._snapshot_of(self.at(name), table) for table in snapshot_diff.TABLES}
            for name in (left, right)
        ]
        return snapshot_diff.differences(sides[0], sides[1], self.key_columns())

    def checks(self, seq: int) -> list[dict[str, Any]]:
        """The validations of a run."""
        run_id = self.run(seq).run_id
        return (
            self.tables["validations"]
            .read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
            .to_pylist()
        )

    def open_attempts(self) -> list[dict[str, Any]]:
        """Attempts that the ledger does not have, oldest first. One that died between its commit and its
        record is none of them.
        """
        committed = {row.run_id for row in self.tables.ledger.rows()}
        return [asdict(row) for row in self.tables.attempts.standing() if row.run_id not in committed]

    def snapshot(self, table: str, seq: int | None) -> pa.Table:
        """Rows of a snapshot table as of a run (default: main's head), without run_id."""
        return self._snapshot_of(self.run(seq), table)

    def _snapshot_of(self, row: LedgerRow, table: str) -> pa.Table:
        owner = self.tables.ledger.snapshot_owner(row)
        return read_staged(self.tables, table, snapshot_files(self.tables, table, owner))

    def live(self, table: str) -> LiveRows:
        """Rows of a staged table that main's live runs make up, oldest run first."""
        head = self.run(None)
        seqs = {row.run_id: row.seq for row in self.tables.ledger.live_runs(head)}
        within = Within("run_id", min(seqs, default=""), max(seqs, default=""))
        rows = self.tables[table].read(
            where=pc.field("run_id").isin(pa.array(list(seqs), pa.string())), within=within
        )
        of_each = pa.chunked_array(
            [[seqs[run_id] for run_id in rows.column("run_id").to_pylist()]], pa.int64()
        )
        return LiveRows(rows, of_each).take(pc.sort_indices(of_each))

    def late(self, key: str | None = None, seq: int | None = None) -> LiveRows:
        """Late rows of main's live runs, oldest first; of one key (see `named_keys`) or one run if asked for.

        Raises:
            NotAKey: `key` names none.
        """
        found = self.live("late_events")
        by = pa.table({"seq": found.seqs, "arrival": found.rows.column("arrival_time")})
        found = found.take(pc.sort_indices(by, [("seq", "ascending"), ("arrival", "ascending")]))
        if seq is not None:
            found = found.filter(pc.equal(found.seqs, seq))
        return found if key is None else found.filter(is_key(found.rows, self.key_columns(), key))

    def key_columns(self) -> list[str]:
        """The pipeline's key columns, from the stored table."""
        names = self.tables["timers"].schema.names
        return names[names.index("key_group") + 1 : names.index("window_start")]


def _span(span: Span) -> str:
    return str(span.first_seq) if span.first_seq == span.last_seq else f"{span.first_seq}-{span.last_seq}"
