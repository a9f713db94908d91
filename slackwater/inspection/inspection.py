"""Answers the questions of the inspection verbs from the stored tables alone: no JVM, no declaration of the
pipeline. Reads only; an unfinished roll-forward is reported and left unfinished.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UsageError
from slackwater.inspection import snapshot_diff
from slackwater.readable import time_text
from slackwater.runs.publishing.change_summary import change_summaries
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.ledger.rows import MAIN, RUN_KINDS, Branch, LedgerRow, noun_of
from slackwater.tables.ledger.spans import Span, Spans, seqs_of
from slackwater.tables.named_keys import is_key, key_scalars
from slackwater.tables.run_files.snapshots import snapshot_files, stored_snapshot
from slackwater.tables.run_files.staging import declaration_of, read_staged
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse
from slackwater.windowing.columnar.arrays.key_hashes import key_groups

# Of rows that are filtered so many are held at once.
_ROWS_AT_ONCE = 1 << 17
# So many spans of live runs are shown at the beginning and at the end.
_SPANS_AT_AN_END = 4


class LiveRows(NamedTuple):
    """Rows of a staged table, and beside them their runs' seqs: a source may have columns of any name."""

    rows: pa.Table
    seqs: pa.ChunkedArray

    def take(self, places: pa.Array) -> "LiveRows":
        return LiveRows(self.rows.take(places), self.seqs.take(places))


@dataclass(frozen=True)
class Inspection:
    pipeline: str
    tables: Tables

    @classmethod
    def of(cls, pipeline: str, warehouse: str | None) -> "Inspection":
        return cls(pipeline, Warehouse.at(warehouse).stored_tables(pipeline))

    def say_if_unfinished(self) -> None:
        """Say on stderr when `published` lags the ledger."""
        head = self.tables.ledger.head()
        published_seq = self.published_seq()
        if head is not None and head.seq > published_seq:
            print(
                f"{self.pipeline}: `published` is as of run {published_seq}, the ledger at {head.seq}; the "
                f"next writing command, for example `slackwater publish {self.pipeline}`, finishes the "
                "roll-forward.",
                file=sys.stderr,
            )

    def seqs(self, since: int) -> list[int]:
        return sorted(seq for seq in self.tables.ledger.seqs_by_run_id().values() if seq > since)

    def runs(self, since: int) -> list[LedgerRow]:
        return self.tables.ledger.rows(since)

    def touched_dates(self, rows: Sequence[LedgerRow]) -> dict[int, list[str]]:
        """By seq: the window dates that each row changed in `published`; none for a row that is not rolled
        forward yet. A published row without a start has the date of its window's last instant, one without a
        window that of its timestamp; "" for a row without any.
        """
        published_seq = self.published_seq()
        summaries = change_summaries(self.tables, [row for row in rows if row.seq <= published_seq])
        return {
            row.seq: sorted("" if day is None else day.isoformat() for day in summaries[row.seq].days)
            if row.seq in summaries
            else []
            for row in rows
        }

    def published_seq(self) -> int:
        """The seq of the newest ledger row that `published` shows; 0 for none."""
        table = self.tables["published"].find()
        return 0 if table is None else table.transaction_version(APPLICATION) or 0

    def run(self, seq: int | None) -> LedgerRow:
        """The ledger row of `seq`, or main's head."""
        if seq is not None:
            return self.tables.ledger.row(seq)
        head = self.tables.ledger.head(MAIN)
        if head is None:
            raise UsageError(
                f"{self.pipeline} has no committed run yet; `slackwater runs {self.pipeline}` shows its "
                "attempts."
            )
        return head

    def place_text(self, row: LedgerRow) -> str:
        """The ledger row of an answer and where its lineage ends: `run 5, up to 2013-01-06 00:00`."""
        last_seq = next(reversed(seqs_of(row.live)), None)
        newest_run = row if last_seq in (None, row.seq) else self.tables.ledger.row(last_seq)
        end = newest_run.slice_end
        return f"{noun_of(row.kind)} {row.seq}" + ("" if end is None else f", up to {time_text(end)}")

    def at(self, name: str) -> LedgerRow:
        """The ledger row that a person names: a seq, `main` for its head, or a branch."""
        if name.isdecimal() or name == MAIN:
            return self.run(int(name) if name.isdecimal() else None)
        branch = self.tables.ledger.branch(name)
        if branch is None:
            names = ", ".join((MAIN, *(branch.name for branch in self.branches())))
            raise UsageError(f"{self.pipeline}: there is no branch {name}; name a seq, or one of {names}.")
        return branch.head

    def branches(self) -> list[Branch]:
        return self.tables.ledger.branches()

    def branch_runs(self) -> list[tuple[Branch, Sequence[LedgerRow], bool]]:
        """Each branch with the runs that were made on it, and whether main has taken all of them."""
        ledger, main = self.tables.ledger, self.tables.ledger.head()
        live_seqs = set(() if main is None else seqs_of(main.live))
        branch_runs = []
        for branch in self.branches():
            runs: Sequence[LedgerRow] = ledger.runs_on(branch)
            is_live = bool(runs) and live_seqs.issuperset(run.seq for run in runs)
            branch_runs.append((branch, runs, is_live))
        return branch_runs

    def lineage_of(self, rows: Sequence[LedgerRow]) -> dict[int, str | None]:
        """By seq: for a run the branch in which it is live now (main before others), or None; for another row
        the runs that it made live.
        """
        main, branches = self.tables.ledger.head(), self.branches()
        heads = [*([] if main is None else [main]), *(branch.head for branch in branches)]
        live_seqs = {head.branch: set(seqs_of(head.live)) for head in heads}
        lineages: dict[int, str | None] = {}
        for row in rows:
            if row.kind in RUN_KINDS:
                lineages[row.seq] = next((name for name, seqs in live_seqs.items() if row.seq in seqs), None)
            else:
                lineages[row.seq] = _spans_text(row.live) or None
        return lineages

    def differences(
        self, left_name: str, right_name: str, most: int | None = None, key: str | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """Where the snapshots as of two ledger rows (see `at`) differ, everywhere or at the key that a person
        names: what `slackwater.inspection.snapshot_diff.differences` gives. Raises NotAKey: the text names no
        key.
        """
        owners = [self.tables.ledger.snapshot_owner(self.at(name)) for name in (left_name, right_name)]
        sides = [
            {table: stored_snapshot(self.tables[table], owner) for table in snapshot_diff.TABLES}
            for owner in owners
        ]
        names, schema = self.key_columns(), self.tables["timers"].schema
        types = {name: schema.field(name).type for name in names}
        scalars = None if key is None else key_scalars(list(types.items()), key)
        return snapshot_diff.differences(
            sides[0],
            sides[1],
            names,
            self.window_columns(),
            most=most,
            key=scalars,
            key_group=None if scalars is None else self.key_group(self.at(right_name), scalars),
        )

    def key_group(self, row: LedgerRow, key: Mapping[str, pa.Scalar]) -> int | None:
        """The key group of a key as of a ledger row; None where its declarations were not recorded."""
        owner = self.tables.ledger.snapshot_owner(row)
        declaration = None if owner is None else declaration_of(self.tables.attempts, owner.run_id)
        max_parallelism = None if declaration is None else declaration.get("max_parallelism")
        columns = [pa.array([value]) for value in key.values()]
        return None if max_parallelism is None else int(key_groups(columns, max_parallelism)[0])

    def checks(self, seq: int) -> list[dict[str, Any]]:
        return self.checks_of(self.run(seq).run_id)

    def checks_of(self, run_id: str) -> list[dict[str, Any]]:
        return (
            self.tables["validations"]
            .read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
            .to_pylist()
        )

    def open_attempts(self) -> list[dict[str, Any]]:
        """Attempts whose runs are not in the ledger, oldest first. A committed run is left out even where its
        process died before it could record that.
        """
        committed_run_ids = self.tables.ledger.seqs_by_run_id()
        return [
            {**asdict(row), "reason": row.reason}
            for row in self.tables.attempts.newest_rows(without=committed_run_ids)
        ]

    def open_attempt(self, run_id: str) -> dict[str, Any]:
        attempt = next((item for item in self.open_attempts() if item["run_id"] == run_id), None)
        if attempt is None:
            raise UsageError(
                f"{self.pipeline}: no run has the id {run_id}. Give a seq or a run id that `slackwater runs "
                f"{self.pipeline} --wide` lists."
            )
        return attempt

    def snapshot(self, table: str, seq: int | None) -> pa.Table:
        """Rows of a snapshot table as of a run (default: main's head), without run_id."""
        owner = self.tables.ledger.snapshot_owner(self.run(seq))
        return read_staged(self.tables, table, snapshot_files(self.tables, table, owner))

    def live(self, table: str, key: str | None = None, seq: int | None = None) -> LiveRows:
        """The rows that main's live runs have staged in a table, in the order of the runs' seqs; with `key`
        or `seq` only rows of one key or run, and no others are held in memory.
        """
        head = self.run(None)
        run_ids_and_seqs = self.tables.ledger.live_values(head, "run_id", "seq")
        seqs = {run_id: its_seq for run_id, its_seq in run_ids_and_seqs if seq in (None, its_seq)}
        files = self.tables[table].files(Within("run_id", min(seqs, default=""), max(seqs, default="")))
        where = pc.field("run_id").isin(pa.array(list(seqs), pa.string()))
        keys = self.key_columns()
        parts = [
            part if key is None else part.filter(is_key(part, keys, key))
            for part in files.scan(files.schema.names, where, _ROWS_AT_ONCE)
        ]
        rows = pa.concat_tables([files.schema.empty_table(), *parts])
        seq_of_each = pa.chunked_array(
            [[seqs[run_id] for run_id in rows.column("run_id").to_pylist()]], pa.int64()
        )
        return LiveRows(rows, seq_of_each).take(pc.sort_indices(seq_of_each))

    def late(self, key: str | None = None, seq: int | None = None) -> LiveRows:
        """Late rows of main's live runs, oldest first; `key` and `seq` as in `live`."""
        late_rows = self.live("late_events", key, seq)
        by = pa.table({"seq": late_rows.seqs, "arrival": late_rows.rows.column("arrival_time")})
        return late_rows.take(pc.sort_indices(by, [("seq", "ascending"), ("arrival", "ascending")]))

    def key_columns(self) -> list[str]:
        names = self.tables["timers"].schema.names
        return names[names.index("key_group") + 1 : names.index("window_start")]

    def window_columns(self) -> list[str]:
        names = self.tables["timers"].schema.names
        return names[names.index("window_start") : names.index("service")]


def _spans_text(live: Spans) -> str:
    if len(live) <= 2 * _SPANS_AT_AN_END:
        return ", ".join(map(_span, live))
    first, last = live[:_SPANS_AT_AN_END], live[-_SPANS_AT_AN_END:]
    others = f"… {len(live) - len(first) - len(last):,} more …"
    return ", ".join((*map(_span, first), others, *map(_span, last)))


def _span(span: Span) -> str:
    return str(span.first_seq) if span.first_seq == span.last_seq else f"{span.first_seq}-{span.last_seq}"
