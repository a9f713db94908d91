"""Compares what stands in a pipeline's tables with what the ledger says of it: hashes and counts of each live
run, and `published` with its corrections and the panes.

Nothing is replayed and nothing written. Rows that somebody has deleted, added or edited are noticed as well
as damaged files, about which each check goes on to the next one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.errors import SlackwaterError
from slackwater.jobs.protocol.lineage.erasure import erasure_told
from slackwater.jobs.protocol.lineage.history import horizon_of
from slackwater.jobs.protocol.publishing.portions import portions
from slackwater.jobs.protocol.publishing.roll_forward import RollForward, rolled_forward_to
from slackwater.jobs.protocol.publishing.uniqueness import CORRECTIONS, LEDGER, PUBLISHED
from slackwater.jobs.protocol.staging.slices import end_of
from slackwater.jobs.tables.delta.stored_files import Within
from slackwater.jobs.tables.errors import DamagedFile
from slackwater.jobs.tables.inspection.damaged_tables import explained
from slackwater.jobs.tables.ledger.lineage_rows import rebuild_row
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.run_files.snapshots import is_kept, snapshot_files, stored_hash, ways_on
from slackwater.jobs.tables.schemas import SNAPSHOT_TABLES, side_table
from slackwater.jobs.tables.sql import query
from slackwater.jobs.tables.warehouse import Tables
from slackwater.windowing.snapshot import ContentHash

SNAPSHOT = "window_state, keyed_state, timers, source_progress"
_READABLE = ("attempts", "validations", "overrides")
_UNREADABLE = "can't be read"
_BROKEN = """
    SELECT count(*) AS count FROM (
        SELECT op, revision, old, lag(op) OVER rows_before AS op_before,
            lag(revision) OVER rows_before AS revision_before,
            lag(new) OVER rows_before AS new_before
        FROM corrections WINDOW rows_before AS (PARTITION BY {identity} ORDER BY seq, op DESC)
    ) WHERE CASE op WHEN 'insert' THEN op_before IN ('insert', 'update') OR revision <> 1
        ELSE op_before IS NULL OR op_before = 'withdraw' OR revision <> revision_before + 1
            OR old IS DISTINCT FROM new_before END
"""


@dataclass(frozen=True)
class TableFact:
    """One thing compared.

    Attributes:
        table: the table, or several of which the ledger has one hash.
        seq: the run, where it is one's.
        what: what is compared.
        recorded, stored: as the ledger (or the table that it follows from) has it, and as it stands.
        step: how to go on, where the two differ.
    """

    table: str
    seq: int | None
    what: str
    recorded: Any
    stored: Any
    step: str = ""

    @property
    def is_equal(self) -> bool:
        return bool(self.recorded == self.stored)


@dataclass(frozen=True)
class TableChecks:
    """Checks the tables of one pipeline.

    Attributes:
        pipeline: its name.
        tables: its tables.
        roll_forward: what replaces what in `published`.
        sides: tags of its side outputs.
    """

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    sides: tuple[str, ...] = ()

    def facts(self) -> Iterator[TableFact]:
        """Everything that can be compared, table by table."""
        yield from self._told(LEDGER, None, self._uniqueness)
        runs = self._live_runs()
        complete_runs = self._with_history(runs)
        yield from self._counts("late_events", complete_runs, "rows_late")
        yield from self._counts("quarantine", runs, "rows_quarantined")
        for row in runs:
            if row in complete_runs:
                yield from self._told("panes", row, partial(self._output, row))
            yield from self._told(SNAPSHOT, row, partial(self._snapshot, row))
        yield from self._told(CORRECTIONS, None, self._chains)
        yield from self._told(PUBLISHED, None, self._by_corrections)
        yield from self._told(PUBLISHED, None, self._by_panes)
        for name in _READABLE:
            yield from self._told(name, None, partial(self._readable, name))

    def notes(self) -> list[str]:
        """What a reader should know besides: what was erased on purpose."""
        return [erasure_told(row) for row in self.tables.ledger.erasures()]

    def _told(
        self, table: str, row: LedgerRow | None, check: Callable[[], list[TableFact]]
    ) -> list[TableFact]:
        """What a check finds; where a file keeps it from its work, that is what it finds."""
        try:
            return check()
        except DamagedFile as error:
            return [
                TableFact(
                    table,
                    None if row is None else row.seq,
                    "its files",
                    "as written",
                    _UNREADABLE,
                    explained(error),
                )
            ]
        except SlackwaterError as error:
            return [
                TableFact(
                    table,
                    None if row is None else row.seq,
                    "its files",
                    "as written",
                    _UNREADABLE,
                    error.message,
                )
            ]
        except pa.ArrowException as error:  # of a writer that stores a column otherwise
            step = (
                "Another writer has made a file: RESTORE the table to the version before. "
                f"({' '.join(str(error).split())})"
            )
            return [
                TableFact(
                    table, None if row is None else row.seq, "its files", "as written", _UNREADABLE, step
                )
            ]

    def _live_runs(self) -> list[LedgerRow]:
        """The live runs of main and of branches, each once, by seq."""
        ledger = self.tables.ledger
        heads = [ledger.head(), *(branch.head for branch in ledger.branches())]
        runs = {run.seq: run for head in heads if head is not None for run in ledger.live_runs(head)}
        return [runs[seq] for seq in sorted(runs)]

    def _with_history(self, runs: list[LedgerRow]) -> list[LedgerRow]:
        """Those of which upkeep has dropped no panes and no late rows."""
        horizon = horizon_of(self.tables)
        return (
            runs
            if horizon is None
            else [row for row in runs if end_of(row) > end_of(self.tables.ledger.row(horizon))]
        )

    def _uniqueness(self) -> list[TableFact]:
        unique, step = (
            self.roll_forward.uniqueness,
            f"`slackwater publish {self.pipeline} --rebuild` removes the copies.",
        )
        return [
            TableFact(name, None, "rows too many", 0, unique.surplus_of(name), step)
            for name in (LEDGER, CORRECTIONS, PUBLISHED)
        ]

    def _counts(self, table: str, runs: list[LedgerRow], count: str) -> list[TableFact]:
        """Rows of each live run against a count of the ledger. Of the table the run ids alone are read."""

        def check() -> list[TableFact]:
            folder, counts, remainders = self.tables[table], dict[str, int](), self.tables.ledger.remainders()
            for rows in folder.files().scan(["run_id"], None, self.roll_forward.portion_rows):
                for value in rows.column("run_id").value_counts().to_pylist():
                    counts[value["values"]] = counts.get(value["values"], 0) + value["counts"]
            stored = (
                (row, getattr(row, count) - remainders.rows(row.run_id, table), counts.get(row.run_id, 0))
                for row in runs
            )
            return [
                TableFact(table, row.seq, count, recorded, present, self._step(row, recorded == present))
                for row, recorded, present in stored
            ]

        return self._told(table, None, check)

    def _output(self, row: LedgerRow) -> list[TableFact]:
        total = ContentHash()
        for name in ("panes", *map(side_table, self.sides)):
            folder = self.tables[name]
            names = [column for column in folder.schema.names if column != "run_id"]
            files = folder.files(Within.only("run_id", row.run_id))
            for rows in files.scan(names, pc.field("run_id") == row.run_id, self.roll_forward.portion_rows):
                total.add(name, rows, without=())
        return [self._compared("panes", row, "output_hash", row.output_hash, str(total))]

    def _snapshot(self, row: LedgerRow) -> list[TableFact]:
        """Snapshots that retention has dropped have nothing to compare."""
        if not is_kept(self.tables, row):
            return []
        state = {name: snapshot_files(self.tables, name, row) for name in SNAPSHOT_TABLES}
        return [
            self._compared(SNAPSHOT, row, "state_hash", row.state_hash, str(stored_hash(self.tables, state)))
        ]

    def _compared(self, table: str, row: LedgerRow, what: str, recorded: Any, stored: Any) -> TableFact:
        return TableFact(table, row.seq, what, recorded, stored, self._step(row, recorded == stored))

    def _step(self, row: LedgerRow, is_equal: bool) -> str:
        return "" if is_equal else ways_on(self.tables, self.pipeline, row)

    def _chains(self) -> list[TableFact]:
        """Every correction goes on from the one before it of its row: from what that made, with the next
        revision.
        """
        files, broken = self.tables[CORRECTIONS].files(), 0
        unique = self.roll_forward.uniqueness
        for portion in portions([files.actions], self.roll_forward.portion_rows):
            rows = files.read(files.schema.names, portion.where)
            identity = unique.publication.identity_of(rows, "run_id")
            names = ", ".join(f'"__{name}"' for name in identity.column_names)
            told = pa.table(
                {f"__{name}": identity.column(name) for name in identity.column_names}
                | {name: rows.column(name) for name in ("seq", "op", "revision", "old", "new")}
            )
            [found] = query(_BROKEN.format(identity=names), corrections=told).to_pylist()
            broken += found["count"]
        step = (
            "Somebody has changed rows there: RESTORE the table to the version before. What `published` "
            "holds is compared below."
        )
        return [
            TableFact(
                CORRECTIONS, None, "corrections that do not follow from those before them", 0, broken, step
            )
        ]

    def _by_corrections(self) -> list[TableFact]:
        """`published` as its corrections make it, against what stands there. Where upkeep has dropped
        history, rows that no correction is about are taken as they stand."""
        forward, folder = self.roll_forward, self.tables[PUBLISHED]
        table = folder.open()
        files, corrections = folder.files(table=table), self.tables[CORRECTIONS].files()
        until, right, there = pc.field("seq") <= rolled_forward_to(table), ContentHash(), ContentHash()
        names, taken = sorted(folder.schema.names), 0 if horizon_of(self.tables) is None else None
        for portion in portions([files.actions, corrections.actions], forward.portion_rows):
            changes = corrections.read(corrections.schema.names, until & portion.where)
            standing = files.read(folder.schema.names, portion.where)
            made = forward.publication.rebuilt(changes, standing.slice(0, taken), forward.names_of(changes))
            right.add(PUBLISHED, made.select(names), without=())
            there.add(PUBLISHED, standing.select(names), without=())
        step = (
            f"`slackwater publish {self.pipeline} --rebuild` makes it what its corrections and the panes say."
        )
        return [TableFact(PUBLISHED, None, "rows that its corrections make", str(right), str(there), step)]

    def _by_panes(self) -> list[TableFact]:
        """Whether what the panes of the live runs say is published, as far as the roll-forward has come."""
        ledger = self.tables.ledger
        head = ledger.head()
        if head is None or self.roll_forward.pending():
            return []
        row = rebuild_row(head, ledger.snapshot_owner(head), ledger.start_of(head))
        differs = self.roll_forward.would_change(replace(row, seq=head.seq + 1))
        step = (
            f"`slackwater publish {self.pipeline} --rebuild` corrects it by the panes, once these are right."
        )
        return [TableFact(PUBLISHED, None, "what the panes of the live runs say", True, not differs, step)]

    def _readable(self, name: str) -> list[TableFact]:
        files = self.tables[name].files()
        count = sum(
            rows.num_rows for rows in files.scan(files.schema.names, None, self.roll_forward.portion_rows)
        )
        return [TableFact(name, None, "rows of its files", files.rows, count)]
