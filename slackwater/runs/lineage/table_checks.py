"""The check of a pipeline's tables against its ledger: hashes and counts of each live run, and `published`
with its corrections and the panes.

Nothing is replayed and nothing written. Rows that somebody has deleted, added or edited are noticed, and
damaged files: a check that meets one says so, and the next check goes on. At last every byte of every file is
checked, since a reader of rows passes by what does not matter to it, such as the heads of pages.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import SlackwaterError
from slackwater.runs.lineage.erasure import describe_erasure
from slackwater.runs.lineage.history import horizon_of
from slackwater.runs.publishing.portion_tasks import seqs_of_runs
from slackwater.runs.publishing.roll_forward import RollForward, rolled_forward_to
from slackwater.runs.publishing.uniqueness import CORRECTIONS, LEDGER, PUBLISHED
from slackwater.runs.staging.slices import end_of
from slackwater.tables.damaged_tables import explain_damage
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.errors import DamagedFile
from slackwater.tables.ledger.lineage_rows import rebuild_row
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import is_kept, snapshot_files, stored_hash, ways_on
from slackwater.tables.run_files.staging import as_hashed
from slackwater.tables.schemas import SNAPSHOT_TABLES, SOURCE_FILES, side_table
from slackwater.tables.sql import query
from slackwater.tables.stores import map_concurrently
from slackwater.tables.warehouse import Tables
from slackwater.windowing.snapshot import ContentHash

SNAPSHOT = "window_state, keyed_state, timers, source_progress"
_READABLE = ("attempts", "validations", "overrides")
_FILES, _WRITTEN = "its files", "as written"
_BROKEN_LINKS = """
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
    """One comparison of the `recorded` value (of the ledger or another table) with the `stored` one.

    Attributes:
        table: the table, or several with one hash in the ledger.
        seq: of the run; None where the fact is of no single run.
        step: what to do where the two differ.
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
    """Checks the tables of one pipeline, also of its side outputs with the tags `sides`."""

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    sides: tuple[str, ...] = ()
    _damaged_places: set[tuple[str, str]] = field(default_factory=set, init=False, repr=False)

    def facts(self) -> Iterator[TableFact]:
        yield from self._foreign_commits()
        yield from self._facts_unless_damaged(LEDGER, None, self._uniqueness)
        runs = self._live_runs()
        complete_runs = self._with_history(runs)
        yield from self._counts("late_events", complete_runs, "rows_late")
        yield from self._counts("quarantine", runs, "rows_quarantined")
        for row in runs:
            if row in complete_runs:
                yield from self._facts_unless_damaged("panes", row, partial(self._output, row))
            yield from self._facts_unless_damaged(SNAPSHOT, row, partial(self._snapshot, row))
        yield from self._facts_unless_damaged(CORRECTIONS, None, self._chains)
        yield from self._facts_unless_damaged(PUBLISHED, None, self._by_corrections)
        yield from self._facts_unless_damaged(PUBLISHED, None, self._by_panes)
        for name in _READABLE:
            yield from self._facts_unless_damaged(name, None, partial(self._readable, name))
        for name, folder in self.tables.folders.items():
            yield from self._facts_unless_damaged(name, None, partial(self._contents, name, folder))
        for uri in self.tables.records_of_sources():
            yield from self._facts_unless_damaged(SOURCE_FILES, None, partial(self._record, uri))

    def _foreign_commits(self) -> list[TableFact]:
        step = (
            f"`slackwater publish {self.pipeline} --rebuild` takes the table back to what runs have written."
        )
        return [
            _fact_of_table(
                commit.uri.rsplit("/", 1)[-1],
                f"commits of others: version {commit.version}, {commit.operation} by {commit.engine}",
                0,
                1,
                step,
            )
            for commit in self.tables.foreign_commits()
        ]

    def notes(self) -> list[str]:
        """What a reader should know besides: what was erased on purpose."""
        return [describe_erasure(row) for row in self.tables.ledger.erasures()]

    def _facts_unless_damaged(
        self, table: str, row: LedgerRow | None, check: Callable[[], list[TableFact]]
    ) -> list[TableFact]:
        try:
            return check()
        except DamagedFile as error:
            self._damaged_places.add(_place(error))
            step = explain_damage(error)
        except SlackwaterError as error:
            step = error.message
        except pa.ArrowException as error:  # another writer has stored a column with another type
            step = (
                "Another writer has made a file: RESTORE the table to the version before. "
                f"({' '.join(str(error).split())})"
            )
        return [_unreadable(table, None if row is None else row.seq, step)]

    def _live_runs(self) -> list[LedgerRow]:
        ledger = self.tables.ledger
        heads = [ledger.head(), *(branch.head for branch in ledger.branches())]
        runs = {run.seq: run for head in heads if head is not None for run in ledger.live_runs(head)}
        return [runs[seq] for seq in sorted(runs)]

    def _with_history(self, runs: list[LedgerRow]) -> list[LedgerRow]:
        """The runs whose panes and late rows upkeep has not dropped."""
        horizon = horizon_of(self.tables)
        if horizon is None:
            return runs
        horizon_end = end_of(self.tables.ledger.row(horizon))
        return [row for row in runs if end_of(row) > horizon_end]

    def _uniqueness(self) -> list[TableFact]:
        return [
            _fact_of_table(
                name,
                "rows too many",
                0,
                self.roll_forward.uniqueness.surplus_of(name),
                f"`slackwater publish {self.pipeline} --rebuild` removes the copies.",
            )
            for name in (LEDGER, CORRECTIONS, PUBLISHED)
        ]

    def _counts(self, table: str, runs: list[LedgerRow], count: str) -> list[TableFact]:
        """Rows of each live run against a count of the ledger. Of the table the run ids alone are read."""

        def check() -> list[TableFact]:
            folder, counts, remainders = self.tables[table], dict[str, int](), self.tables.ledger.remainders()
            for rows in folder.files().scan(["run_id"], None, self.roll_forward.portion_rows):
                for value in rows.column("run_id").value_counts().to_pylist():
                    counts[value["values"]] = counts.get(value["values"], 0) + value["counts"]
            return [
                self._fact(
                    table,
                    row,
                    count,
                    getattr(row, count) - remainders.rows(row.run_id, table),
                    counts.get(row.run_id, 0),
                )
                for row in runs
            ]

        return self._facts_unless_damaged(table, None, check)

    def _output(self, row: LedgerRow) -> list[TableFact]:
        total = ContentHash()
        for name in ("panes", *map(side_table, self.sides)):
            folder = self.tables[name]
            names = [column for column in folder.schema.names if column != "run_id"]
            files = folder.files(Within.only("run_id", row.run_id))
            for rows in files.scan(names, pc.field("run_id") == row.run_id, self.roll_forward.portion_rows):
                total.add(name, as_hashed(name, rows), without=())
        return [self._fact("panes", row, "output_hash", row.output_hash, str(total))]

    def _snapshot(self, row: LedgerRow) -> list[TableFact]:
        """Snapshots that retention has dropped have nothing to compare."""
        if not is_kept(self.tables, row):
            return []
        state = {name: snapshot_files(self.tables, name, row) for name in SNAPSHOT_TABLES}
        return [self._fact(SNAPSHOT, row, "state_hash", row.state_hash, str(stored_hash(self.tables, state)))]

    def _fact(
        self, table: str, row: LedgerRow, what: str, recorded_value: Any, stored_value: Any
    ) -> TableFact:
        is_equal = recorded_value == stored_value
        return TableFact(
            table=table,
            seq=row.seq,
            what=what,
            recorded=recorded_value,
            stored=stored_value,
            step="" if is_equal else ways_on(self.tables, self.pipeline, row),
        )

    def _chains(self) -> list[TableFact]:
        """The corrections of a row are a chain: the old values of each are the new values of the one
        before it, and its revision is the next.
        """
        files, broken_links = self.tables[CORRECTIONS].files(), 0
        unique = self.roll_forward.uniqueness
        for portion in unique.portions(files.actions):
            rows = files.read(files.schema.names, portion.where)
            identity = unique.publication.identity_of(rows, "run_id")
            names = ", ".join(f'"__{name}"' for name in identity.column_names)
            links = pa.table(
                {f"__{name}": identity.column(name) for name in identity.column_names}
                | {name: rows.column(name) for name in ("seq", "op", "revision", "old", "new")}
            )
            [row] = query(_BROKEN_LINKS.format(identity=names), corrections=links).to_pylist()
            broken_links += row["count"]
        step = (
            "Somebody has changed rows there: RESTORE the table to the version before. What `published` "
            "holds is compared below."
        )
        return [
            _fact_of_table(
                CORRECTIONS, "corrections that do not follow from those before them", 0, broken_links, step
            )
        ]

    def _by_corrections(self) -> list[TableFact]:
        """Compares `published` with the rows that its corrections make. Where upkeep has dropped history,
        rows without a correction count as they are published.
        """
        forward, folder = self.roll_forward, self.tables[PUBLISHED]
        table = folder.open()
        files, corrections = folder.files(table=table), self.tables[CORRECTIONS].files()
        until, names = pc.field("seq") <= rolled_forward_to(table), sorted(folder.schema.names)
        rebuilt_hash, published_hash = ContentHash(), ContentHash()
        # Where history was dropped the rebuilding starts from what is published, else from no rows.
        has_all_corrections = horizon_of(self.tables) is None
        for portion in forward.uniqueness.portions(files.actions, corrections.actions):
            changes = corrections.read(corrections.schema.names, until & portion.where)
            published_rows = files.read(folder.schema.names, portion.where)
            base_rows = published_rows.slice(0, 0) if has_all_corrections else published_rows
            seqs = seqs_of_runs(self.tables, forward.publication, changes)
            rebuilt_rows = forward.publication.rebuild(changes, base_rows, seqs)
            rebuilt_hash.add(PUBLISHED, rebuilt_rows.select(names), without=())
            published_hash.add(PUBLISHED, published_rows.select(names), without=())
        step = (
            f"`slackwater publish {self.pipeline} --rebuild` makes it what its corrections and the panes say."
        )
        return [
            _fact_of_table(
                PUBLISHED, "rows that its corrections make", str(rebuilt_hash), str(published_hash), step
            )
        ]

    def _by_panes(self) -> list[TableFact]:
        """Whether `published` holds what the live panes say; not checked while a roll-forward is open."""
        ledger = self.tables.ledger
        head = ledger.head()
        if head is None or self.roll_forward.pending():
            return []
        row = rebuild_row(head, ledger.snapshot_owner(head), ledger.start_of(head))
        differs = self.roll_forward.would_change(replace(row, seq=head.seq + 1))
        step = (
            f"`slackwater publish {self.pipeline} --rebuild` corrects it by the panes, once these are right."
        )
        return [_fact_of_table(PUBLISHED, "what the panes of the live runs say", True, not differs, step)]

    def _readable(self, name: str) -> list[TableFact]:
        files = self.tables[name].files()
        count = sum(
            rows.num_rows for rows in files.scan(files.schema.names, None, self.roll_forward.portion_rows)
        )
        return [_fact_of_table(name, "rows of its files", files.rows, count)]

    def _record(self, uri: str) -> list[TableFact]:
        """A record of a source's files has nothing to be compared with."""
        record = Folder.existing_at(uri)
        return [] if record is None else self._contents(SOURCE_FILES, record)

    def _contents(self, name: str, folder: Folder) -> list[TableFact]:
        """A fact for each damaged file of a table that no other check has met; one where none is damaged."""
        files = folder.files().one_by_one()
        damages = [damage for damage in map_concurrently(_damage, files) if damage is not None]
        if damages:
            return [
                _unreadable(name, None, explain_damage(damage))
                for damage in damages
                if _place(damage) not in self._damaged_places
            ]
        return [_fact_of_table(name, _FILES, _WRITTEN, _WRITTEN)]


def _fact_of_table(table: str, what: str, recorded: Any, stored: Any, step: str = "") -> TableFact:
    return TableFact(table=table, seq=None, what=what, recorded=recorded, stored=stored, step=step)


def _damage(file: StoredFiles) -> DamagedFile | None:
    try:
        file.check_contents()
    except DamagedFile as error:
        return error
    return None


def _place(damage: DamagedFile) -> tuple[str, str]:
    return str(damage.facts["uri"]), str(damage.facts["path"])


def _unreadable(table: str, seq: int | None, step: str) -> TableFact:
    return TableFact(table=table, seq=seq, what=_FILES, recorded=_WRITTEN, stored="can't be read", step=step)
