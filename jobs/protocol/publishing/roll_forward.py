"""The roll-forward: carries committed ledger rows into `corrections` and then into `published`. This part
of publishing may die at any moment and is repeated.

    ledger        1  2  3  4    the commit points
    corrections   1  2  3       rolled forward to 3
    published     1  2          rolled forward to 2: the next step brings row 3

A step is one Delta commit with the row's seq as its application transaction. The log of a table thus says
how far it has come, and a step that another process has taken is skipped. `published` of a row follows
from the `corrections` of that row alone, so a death between the two is harmless; a death within a step
leaves files that no commit names.

A run that continues the live set decides about the windows of its own panes, which are their newest
firings. A row that changes the live set decides about the windows of all runs that enter or leave it, by
the panes of all live runs. Both go portion by portion of the key groups: memory does not grow with a run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.publishing.corrections import (
    BEFORE,
    RUN,
    Identity,
    Publication,
    dates_of,
    days_of,
    repeated,
)
from slackwater.jobs.protocol.publishing.portions import KEY_GROUP, Portion, portions
from slackwater.jobs.protocol.publishing.uniqueness import CORRECTIONS, PUBLISHED, Uniqueness
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.parts import Parts
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within, files_within
from slackwater.jobs.tables.delta.written_files import WrittenFile, of_type
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.erasures import ErasedRows
from slackwater.jobs.tables.ledger.lineage_rows import cause_of, is_rebuild
from slackwater.jobs.tables.ledger.row_kinds import RUN_KINDS, RowKind
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.run_files.rewriting import put_all_in_place, put_in_place
from slackwater.jobs.tables.schemas import Shape
from slackwater.jobs.tables.warehouse import APPLICATION, Tables

# Texts of corrections that are few: as dictionaries they are read and written faster, and take less memory.
_REPEATING = ("run_id", "kind", "op", "cause")


class Draft(NamedTuple):
    """Files of what a row inserts into `published`, written and not yet part of it.

    Attributes:
        files: the files.
        is_all: whether the row changes and withdraws nothing besides.
    """

    files: list[WrittenFile]
    is_all: bool


Step = Callable[[Folder, DeltaTable, LedgerRow, Transaction], Draft | None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        tables: the pipeline's tables.
        publication: what replaces what in `published`.
        portion_rows: about so many rows are held at once, whatever a run has; those of one key group at
            least.
    """

    tables: Tables
    publication: Publication
    portion_rows: int = 1 << 20

    @property
    def uniqueness(self) -> Uniqueness:
        """Looks for doubled rows in the tables."""
        return Uniqueness(self.tables, self.publication, self.portion_rows)

    @classmethod
    def of(cls, pipeline: Pipeline, tables: Tables, shape: Shape) -> "RollForward":
        """That of a pipeline whose tables have the columns of `shape`."""
        identity = (
            Identity.RUN
            if pipeline.keyed_process is not None
            else Identity.FIRING
            if pipeline.purges
            else Identity.WINDOW
        )
        return cls(tables, Publication(shape, identity))

    @classmethod
    def of_stored(cls, pipeline: Pipeline, tables: Tables) -> "RollForward":
        """That of a pipeline whose tables are stored: their columns say the types, so the source is not
        needed.
        """
        published = tables["published"].schema
        keys = tuple((key, published.field(key).type) for key in pipeline.keys)
        results = tuple((result, published.field(result).type) for result in pipeline.results)
        return cls.of(pipeline, tables, Shape(keys=keys, results=results, parts=(), source=()))

    def pending(self) -> list[LedgerRow]:
        """Rows of main that `published` has not seen yet, oldest first."""
        with self.tables["published"].handle() as published:
            last_seq = rolled_forward_to(published)
        return [row for row in self.tables.ledger.rows(since=last_seq) if row.branch == MAIN]

    def finish(self) -> list[LedgerRow]:
        """Do what is pending; returns the rows that were rolled forward. Several processes may do this at
        once: each step happens once.

        Raises:
            DoubledRows: a table holds rows several times; nothing is carried on from them.
        """
        self.uniqueness.require_at_a_glance()
        rows = self.pending()
        for row in rows:
            if row.kind == RowKind.ERASE:
                self._erase(row)
                continue
            draft = self._once(self.tables["corrections"], row, self._correct)
            self._once(self.tables["published"], row, partial(self._publish, draft=draft))
        return rows

    def _erase(self, row: LedgerRow) -> None:
        """Put in place what an erasure has left of each table."""
        by_table: dict[str, list[ErasedRows]] = {}
        for item in row.erased:
            by_table.setdefault(item.table, []).append(item)
        for name, items in by_table.items():
            if name not in (CORRECTIONS, PUBLISHED):
                put_all_in_place(self.tables[name], items)
        for name in (CORRECTIONS, PUBLISHED):
            self._once(self.tables[name], row, partial(_put_in_place, by_table.get(name, ())))

    def would_change(self, row: LedgerRow) -> bool:
        """Whether the roll-forward of a row that changes what is live would change `published`, which stands
        as of the row before it.
        """
        return any(changes.num_rows for changes in self._of_lineage(row))

    def _once(self, folder: Folder, row: LedgerRow, step: Step) -> Draft | None:
        while True:
            table = folder.ensure()
            if rolled_forward_to(table) >= row.seq:
                return None
            try:
                draft = step(folder, table, row, Transaction(APPLICATION, row.seq))
            except CommitConflict:
                continue
            with folder.handle() as committed:
                last_seq = rolled_forward_to(committed)
            if last_seq < row.seq:
                raise AssertionError(f"{folder.uri}: the commit of run {row.seq} left no transaction")
            return draft

    def _correct(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> Draft:
        """What is inserted into `published` is written from the same pass."""
        is_all = True
        with Parts(folder) as corrections, Parts(self.tables["published"]) as published:
            for changes in self._of_run(row) if row.kind in RUN_KINDS else self._of_lineage(row):
                rows = self._corrections(row, changes)
                corrections.add(rows)
                is_insert = pc.equal(rows.column("op"), "insert")
                if not pc.all(is_insert, min_count=0).as_py():
                    rows, is_all = rows.filter(is_insert), False
                published.add(self.publication.fresh(rows))
            files, drafted = corrections.close(), published.close()
        folder.commit_files(files, expected_table=table, transaction=transaction)
        return Draft(drafted, is_all)

    def _corrections(self, row: LedgerRow, changes: pa.Table) -> pa.Table:
        schema = self.tables["corrections"].schema
        constants = {"seq": row.seq, "at": row.committed_at}
        columns = {
            name: pa.repeat(pa.scalar(value, schema.field(name).type), changes.num_rows)
            for name, value in constants.items()
        }
        columns |= {
            "run_id": self._run_ids(row, changes),
            **{name: changes.column(name) for name in changes.schema.names},
        }
        columns = {
            name: _repeating(columns[name]) if name in _REPEATING else columns[name] for name in schema.names
        }
        return pa.table({field.name: of_type(columns[field.name], field.type) for field in schema})

    def _run_ids(self, row: LedgerRow, changes: pa.Table) -> pa.Array:
        """The row's own; for rows that stand for themselves a withdrawal names the run whose row is
        withdrawn.
        """
        if self.publication.identity is not Identity.RUN:
            return repeated(row.run_id, changes.num_rows)
        seqs_before = changes.column(BEFORE)
        seqs = seqs_before.drop_null().unique()
        run_ids = pa.array([self.tables.ledger.row(seq).run_id for seq in seqs.to_pylist()], pa.string())
        return pc.coalesce(run_ids.take(pc.index_in(seqs_before, value_set=seqs)), pa.scalar(row.run_id))

    def _of_run(self, row: LedgerRow) -> Iterator[pa.Table]:
        """What one run decides, which continues what was live: its own panes. They are the newest of their
        windows; in the global window, which is never collected, firings stand side by side and none comes
        twice."""
        publication, cause = self.publication, cause_of(row)
        panes = self._panes([row.run_id])
        for portion in portions([panes.files.actions], self.portion_rows):
            rows = panes.read(portion, publication.of_inserts)
            if (
                publication.identity is not Identity.RUN
                and (published_rows := self._standing(rows, portion, dates_of(rows) - {None})).num_rows
            ):
                panes_of_portion = panes.read(portion)
                panes_of_portion = panes_of_portion.filter(
                    publication.among(panes_of_portion, published_rows)
                )
                yield publication.changes(panes_of_portion, panes_of_portion, published_rows, cause)
                rows = rows.filter(pc.invert(publication.among(rows, published_rows)))
            yield publication.inserts(rows, cause)

    def _of_lineage(self, row: LedgerRow) -> Iterator[pa.Table]:
        """What a change of the live set decides: the windows of all runs that enter or leave it, by the panes
        of those that are live. A rebuild changes nothing of it, and looks at the windows of all."""
        ledger = self.tables.ledger
        assert row.parent_seq is not None
        before, after = ledger.live_runs(ledger.row(row.parent_seq)), ledger.live_runs(row)
        stay = set[int]() if is_rebuild(row) else {run.seq for run in before} & {run.seq for run in after}
        entering = self._panes([run.run_id for run in after if run.seq not in stay])
        leaving = self._panes(
            [] if is_rebuild(row) else [run.run_id for run in before if run.seq not in stay]
        )
        older = self._panes([run.run_id for run in after if run.seq in stay])
        positions = pa.array([run.run_id for run in after], pa.string())
        for portion in portions([entering.files.actions, leaving.files.actions], self.portion_rows):
            enters = entering.read(portion)
            moved = pa.concat_tables([enters, leaving.read(portion)])
            log = pa.concat_tables([enters, self._among(older, portion, moved)])
            order = pc.index_in(log.column("run_id"), value_set=positions).cast(pa.int64())
            log = log.set_column(log.schema.get_field_index(RUN), RUN, order)
            yield self.publication.changes(
                log, moved, self._standing(moved, portion, dates_of(moved)), cause_of(row)
            )

    def _panes(self, run_ids: list[str]) -> "_Panes":
        within = Within("run_id", min(run_ids, default=""), max(run_ids, default=""))
        return _Panes(
            replace(self.tables["panes"].files(within), dictionary_columns=("kind",)), tuple(run_ids)
        )

    def _among(self, panes: "_Panes", portion: Portion, moved: pa.Table) -> pa.Table:
        """Panes of the windows of `moved`."""
        where = _within("window_start", moved) | _within("timestamp", moved)
        parts = [
            part.filter(self.publication.among(part, moved))
            for part in panes.scan(portion, where, self.portion_rows)
        ]
        return pa.concat_tables([panes.empty(), *parts])

    def _standing(self, panes: pa.Table, portion: Portion, days: set[date | None]) -> pa.Table:
        """Rows of `published` on `days` of the windows of `panes`, all in `portion`."""
        folder = self.tables["published"]
        where = portion.where & (_within("window_start", panes) | pc.field("window_start").is_null())
        files = self._published_of(days)
        if not panes.column("window_start").null_count:
            files = files.within(*_spanned(_least_and_greatest(panes.column("window_start"))))
        scanned = files.scan(folder.schema.names, where, self.portion_rows)
        parts = (part.filter(self.publication.among(part, panes)) for part in scanned)
        published_rows = pa.concat_tables([folder.schema.empty_table(), *parts])
        self.uniqueness.require_once(PUBLISHED, published_rows)
        return published_rows

    def _publish(
        self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction, draft: Draft | None
    ) -> None:
        """Follows from the corrections alone; `draft`: as far as it is made already.

        What is inserted gets files of its own. Only files in which rows change are written anew: a run whose
        late elements change windows of the one before writes no older rows again. Several such files of a day
        become one, as long as it is not large.
        """
        corrections = replace(
            self.tables["corrections"].files(Within.only("seq", row.seq)), dictionary_columns=_REPEATING
        )
        mine, is_insert = pc.field("seq") == row.seq, pc.field("op") == "insert"
        if draft is None:
            draft = Draft(self._inserted(corrections, mine & is_insert), is_all=False)
        if draft.is_all:
            folder.commit_files(draft.files, expected_table=table, transaction=transaction)
            return
        touched, rewritten = self._rewritten(table, corrections, mine & ~is_insert)
        folder.commit_files([*draft.files, *rewritten], touched, table, transaction)

    def _inserted(self, corrections: StoredFiles, inserting: pc.Expression) -> list[WrittenFile]:
        with Parts(self.tables["published"]) as parts:
            for portion in portions([corrections.actions], self.portion_rows):
                inserts = corrections.read(corrections.schema.names, inserting & portion.where)
                self.uniqueness.require_once(CORRECTIONS, inserts)
                parts.add(self.publication.fresh(inserts))
            return parts.close()

    def _rewritten(
        self, table: DeltaTable, corrections: StoredFiles, changing: pc.Expression
    ) -> tuple[StoredFiles, list[WrittenFile]]:
        """The files of `published` in which rows change or are withdrawn, and those that take their place."""
        touched, spread = self._touched(table, corrections, changing)
        with Parts(self.tables["published"]) as parts:
            for portion in portions([spread, touched.actions], self.portion_rows):
                changes = corrections.read(corrections.schema.names, changing & portion.where)
                published_rows = touched.read(touched.schema.names, portion.where)
                self.uniqueness.require_once(CORRECTIONS, changes)
                parts.add(self.publication.apply(changes, published_rows, self.names_of(changes)))
            return touched, parts.close()

    def _touched(
        self, table: DeltaTable, corrections: StoredFiles, changing: pc.Expression
    ) -> tuple[StoredFiles, pa.Table]:
        """The files of `published` that may hold a row that is changed or withdrawn, and how many of such
        corrections there are, with their key groups, as `portions` has it of a file."""
        bounds: dict[date | None, list[datetime]] = {}
        count, groups = 0, set[int]()
        for part in corrections.scan([KEY_GROUP, "window_start", "timestamp"], changing, self.portion_rows):
            count += part.num_rows
            groups.update(_least_and_greatest(part.column(KEY_GROUP)))
            starts = part.column("window_start").combine_chunks()
            by_day = (
                pa.table({"day": days_of(part), "start": starts})
                .group_by("day")
                .aggregate([("start", "min"), ("start", "max")])
            )
            for bounds_of_day in by_day.to_pylist():
                bounds.setdefault(bounds_of_day["day"], []).extend(
                    start
                    for start in (bounds_of_day["start_min"], bounds_of_day["start_max"])
                    if start is not None
                )
        files = self._published_of(set(bounds), table)
        actions_by_day = [
            files_within(_of_day(files.actions, day), *_spanned(starts)) for day, starts in bounds.items()
        ]
        actions = pa.concat_tables(actions_by_day) if actions_by_day else files.actions
        spread = pa.table(
            {
                "num_records": [count],
                f"min.{KEY_GROUP}": [min(groups, default=0)],
                f"max.{KEY_GROUP}": [max(groups, default=0)],
            }
        )
        return replace(files, actions=actions, dictionary_columns=("kind",)), spread

    def names_of(self, corrections: pa.Table) -> pa.Table:
        """(run_id, seq) of the ledger rows that corrections name, where that tells rows apart."""
        if self.publication.identity is not Identity.RUN:
            return _names({})
        rows = (
            self.tables.ledger.by_run_id(run_id)
            for run_id in corrections.column("run_id").unique().to_pylist()
        )
        return _names({row.run_id: row.seq for row in rows if row is not None})

    def _published_of(self, days: set[date | None], table: DeltaTable | None = None) -> StoredFiles:
        """The files of `days`."""
        dates = sorted(day for day in days if day is not None)
        bounds = [] if None in days or not dates else [Within("window_date", dates[0], dates[-1])]
        files = self.tables["published"].files(*bounds, table=table)
        column = "partition.window_date"
        if not files.actions.num_rows:
            return files
        return replace(
            files,
            actions=files.actions.filter(
                pc.is_in(files.actions.column(column), value_set=pa.array(days, pa.date32()))
            ),
        )


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


def _put_in_place(
    erased: Sequence[ErasedRows], folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction
) -> None:
    """The step of an erasure in a table that says how far it was rolled forward."""
    put_in_place(folder, erased, table, transaction)


def _repeating(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _at_0(panes: pa.Table) -> pa.Table:
    return panes.append_column(RUN, pa.repeat(pa.scalar(0, pa.int64()), panes.num_rows))


def _least_and_greatest(column: pa.ChunkedArray) -> list[Any]:
    """The bounds of a column; none where it has no values."""
    return [bound for bound in pc.min_max(column).as_py().values() if bound is not None]


def _of_day(actions: pa.Table, day: date | None) -> pa.Table:
    if not actions.num_rows:
        return actions
    column = actions.column("partition.window_date")
    return actions.filter(
        pc.is_null(column) if day is None else pc.equal(column, pa.scalar(day, column.type))
    )


def _spanned(starts: list[datetime]) -> list[Within]:
    """Bounds of the window starts; none for windows without."""
    return [Within("window_start", min(starts), max(starts))] if starts else []


def _names(seqs: dict[str, int]) -> pa.Table:
    return pa.table(
        {"run_id": pa.array(list(seqs), pa.string()), "seq": pa.array(list(seqs.values()), pa.int64())}
    )


def _within(name: str, panes: pa.Table) -> pc.Expression:
    """Whether a time lies between the least and the greatest of `panes`."""
    bounds = pc.min_max(panes.column(name))
    if not bounds["min"].is_valid:
        return pc.scalar(False)
    return (pc.field(name) >= bounds["min"]) & (pc.field(name) <= bounds["max"])


def rolled_forward_to(table: DeltaTable | None) -> int:
    """The seq that a table has been rolled forward to; 0 for none."""
    return 0 if table is None else table.transaction_version(APPLICATION) or 0
