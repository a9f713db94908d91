"""The roll-forward: carries committed ledger rows into `corrections` and then into `published`. It may be
killed at any moment, and the next command goes on with it.

    ledger        1  2  3  4    the commit points
    corrections   1  2  3       rolled forward to 3
    published     1  2          rolled forward to 2: the next step brings row 3

A step is one Delta commit with the row's seq as its application transaction. The log of a table thus says
how far it has come, and a step that another process has taken is skipped. `published` of a row follows
from the `corrections` of that row alone, so a death between the two is harmless; a death within a step
leaves files that no commit names.

`pane_changes` computes the corrections of a row. Rows are read and written portion by portion of the key
groups, so that memory does not grow with a run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.window_columns import declared_columns, own_window_class_of
from slackwater.jobs.protocol.publishing.correction_sql import BEFORE
from slackwater.jobs.protocol.publishing.corrections import Identity, Publication, days_of, repeat_text
from slackwater.jobs.protocol.publishing.pane_changes import PaneChanges
from slackwater.jobs.protocol.publishing.portions import KEY_GROUP, portions
from slackwater.jobs.protocol.publishing.published_files import files_of_starts, least_and_greatest
from slackwater.jobs.protocol.publishing.uniqueness import CORRECTIONS, PUBLISHED, Uniqueness
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.parts import Parts
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.delta.written_files import WrittenFile, of_type
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.grown_columns import results_of
from slackwater.jobs.tables.ledger.erasures import ErasedRows
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.run_files.rewriting import put_all_in_place, put_in_place
from slackwater.jobs.tables.schemas import Shape
from slackwater.jobs.tables.warehouse import APPLICATION, Tables

# Columns of corrections with few different texts: as dictionaries they are read and written faster, and take
# less memory.
_DICTIONARY_COLUMNS = ("run_id", "kind", "op", "cause")


class Draft(NamedTuple):
    """Files with the rows that a ledger row inserts into `published`, written and not yet committed.

    Attributes:
        files: the files.
        is_all: whether the ledger row only inserts, so that these files are all that it changes.
    """

    files: list[WrittenFile]
    is_all: bool


Step = Callable[[Folder, DeltaTable, LedgerRow, Transaction], Draft | None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        tables: the pipeline's tables.
        publication: which rows replace each other in `published`.
        portion_rows: about so many rows are held at once, however many a run has; at least those of one key
            group.
    """

    tables: Tables
    publication: Publication
    portion_rows: int = 1 << 20

    @property
    def uniqueness(self) -> Uniqueness:
        """The look for doubled rows in the tables."""
        return Uniqueness(self.tables, self.publication, self.portion_rows)

    @property
    def pane_changes(self) -> PaneChanges:
        """Computes the corrections of a ledger row."""
        return PaneChanges(self.tables, self.publication, self.portion_rows)

    @classmethod
    def of(cls, pipeline: Pipeline, tables: Tables, shape: Shape) -> "RollForward":
        """The roll-forward of a pipeline whose tables exist, and have the keys of `shape`."""
        identity = (
            Identity.RUN
            if pipeline.keyed_process is not None
            else Identity.FIRING
            if pipeline.purges
            else Identity.WINDOW
        )
        results = results_of(tables[CORRECTIONS].schema)
        return cls(tables, Publication(tables.shape(replace(shape, results=results)), identity))

    @classmethod
    def of_stored(cls, pipeline: Pipeline, tables: Tables) -> "RollForward":
        """The roll-forward of a pipeline whose tables exist. Their schemas give the types, so the source is
        not needed.
        """
        schema = tables[PUBLISHED].schema
        keys = tuple((key, schema.field(key).type) for key in pipeline.keys)
        windows = tuple((column, schema.field(column).type) for column in declared_columns(pipeline))
        has_own = own_window_class_of(pipeline) is not None
        shape = Shape(keys=keys, results=(), parts=(), source=(), windows=windows if has_own else None)
        return cls.of(pipeline, tables, shape)

    def pending(self) -> list[LedgerRow]:
        """The rows of main that were not rolled forward into `published` yet, oldest first."""
        with self.tables[PUBLISHED].handle() as table:
            last_seq = rolled_forward_to(table)
        return [row for row in self.tables.ledger.rows(since=last_seq) if row.branch == MAIN]

    def finish(self) -> list[LedgerRow]:
        """Roll the pending rows forward, and return them. Several processes may do this at once: each step
        happens once.

        Raises:
            DoubledRows: a table holds rows several times; nothing that follows from them is written.
        """
        self.uniqueness.require_at_a_glance()
        rows = self.pending()
        for row in rows:
            if row.kind == RowKind.ERASE:
                self._erase(row)
                continue
            draft = self.take_step(self.tables[CORRECTIONS], row, self._correct)
            self.take_step(self.tables[PUBLISHED], row, partial(self._publish, draft=draft))
        return rows

    def _erase(self, row: LedgerRow) -> None:
        """Put the files in place that an erasure has written of each table without the erased rows."""
        by_table: dict[str, list[ErasedRows]] = {}
        for item in row.erased:
            by_table.setdefault(item.table, []).append(item)
        for name, items in by_table.items():
            if name not in (CORRECTIONS, PUBLISHED):
                put_all_in_place(self.tables[name], items)
        for name in (CORRECTIONS, PUBLISHED):
            self.take_step(self.tables[name], row, partial(_put_in_place, by_table.get(name, ())))

    def would_change(self, row: LedgerRow) -> bool:
        """Whether the roll-forward of a row that changes the live set would change `published`, which is as
        of the row before it.
        """
        return any(changes.num_rows for changes in self.pane_changes.of_lineage(row))

    def take_step(self, folder: Folder, row: LedgerRow, step: Step) -> Draft | None:
        """Roll one table forward to one row, unless it has come so far already. Another process that commits
        meanwhile makes the step be tried again.
        """
        while True:
            table = folder.ensure()
            if rolled_forward_to(table) >= row.seq:
                return None
            try:
                draft = step(folder, table, row, Transaction(APPLICATION, row.seq))
            except CommitConflict:
                continue
            with folder.handle() as newest_table:
                last_seq = rolled_forward_to(newest_table)
            if last_seq < row.seq:
                raise AssertionError(f"{folder.uri}: the commit of run {row.seq} left no transaction")
            return draft

    def _correct(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> Draft:
        """The step of `corrections`. The rows that it inserts into `published` are written from the same
        pass, because they are at hand.
        """
        is_all = True
        with Parts(folder) as corrections, Parts(self.tables[PUBLISHED]) as published_parts:
            for changes in self.pane_changes.of_row(row):
                rows = self._corrections(row, changes)
                corrections.add(rows)
                is_insert = pc.equal(rows.column("op"), "insert")
                if not pc.all(is_insert, min_count=0).as_py():
                    rows, is_all = rows.filter(is_insert), False
                published_parts.add(self.publication.new_rows(rows))
            files, draft_files = corrections.close(), published_parts.close()
        folder.commit_files(files, expected_table=table, transaction=transaction)
        return Draft(draft_files, is_all)

    def _corrections(self, row: LedgerRow, changes: pa.Table) -> pa.Table:
        """`changes` with all columns of `corrections`."""
        schema = self.tables[CORRECTIONS].schema
        constants = {"seq": row.seq, "at": row.committed_at}
        columns = {
            name: pa.repeat(pa.scalar(value, schema.field(name).type), changes.num_rows)
            for name, value in constants.items()
        }
        columns |= {
            "run_id": self._run_id_of_each(row, changes),
            **{name: changes.column(name) for name in changes.schema.names},
        }
        columns = {
            name: _as_dictionary(columns[name]) if name in _DICTIONARY_COLUMNS else columns[name]
            for name in schema.names
        }
        return pa.table({field.name: of_type(columns[field.name], field.type) for field in schema})

    def _run_id_of_each(self, row: LedgerRow, changes: pa.Table) -> pa.Array:
        """The run id of each correction: that of the ledger row, but of a withdrawal from a process function
        that of the run whose row is withdrawn.
        """
        if self.publication.identity is not Identity.RUN:
            return repeat_text(row.run_id, changes.num_rows)
        seqs_before = changes.column(BEFORE)
        seqs = seqs_before.drop_null().unique()
        run_ids = pa.array([self.tables.ledger.row(seq).run_id for seq in seqs.to_pylist()], pa.string())
        return pc.coalesce(run_ids.take(pc.index_in(seqs_before, value_set=seqs)), pa.scalar(row.run_id))

    def _publish(
        self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction, draft: Draft | None
    ) -> None:
        """The step of `published`, from the corrections of the row alone.

        Inserted rows get files of their own. Only files in which rows change are written anew: a run whose
        late elements change windows of the run before writes no older rows again. Several such files of a day
        become one, as long as it is not large.

        Args:
            folder, table, row, transaction: as of a `Step`.
            draft: the inserted rows, where the step of `corrections` has just written them.
        """
        corrections = replace(
            self.tables[CORRECTIONS].files(Within.only("seq", row.seq)),
            dictionary_columns=_DICTIONARY_COLUMNS,
        )
        is_of_row, is_insert = pc.field("seq") == row.seq, pc.field("op") == "insert"
        if draft is None:
            draft = Draft(self._write_inserts(corrections, is_of_row & is_insert), is_all=False)
        if draft.is_all:
            folder.commit_files(draft.files, expected_table=table, transaction=transaction)
            return
        old_files, new_files = self._rewrite_files(table, corrections, is_of_row & ~is_insert)
        folder.commit_files([*draft.files, *new_files], old_files, table, transaction)

    def _write_inserts(self, corrections: StoredFiles, inserting: pc.Expression) -> list[WrittenFile]:
        with Parts(self.tables[PUBLISHED]) as parts:
            for portion in portions([corrections.actions], self.portion_rows):
                inserts = corrections.read(corrections.schema.names, inserting & portion.where)
                self.uniqueness.require_once(CORRECTIONS, inserts)
                parts.add(self.publication.new_rows(inserts))
            return parts.close()

    def _rewrite_files(
        self, table: DeltaTable, corrections: StoredFiles, changing: pc.Expression
    ) -> tuple[StoredFiles, list[WrittenFile]]:
        """The files of `published` in which rows change or are withdrawn, and the files that take their
        place.
        """
        old_files, spread = self._files_to_rewrite(table, corrections, changing)
        with Parts(self.tables[PUBLISHED]) as parts:
            for portion in portions([spread, old_files.actions], self.portion_rows):
                changes = corrections.read(corrections.schema.names, changing & portion.where)
                published_rows = old_files.read(old_files.schema.names, portion.where)
                self.uniqueness.require_once(CORRECTIONS, changes)
                parts.add(self.publication.apply(changes, published_rows, self.seqs_of_runs(changes)))
            return old_files, parts.close()

    def _files_to_rewrite(
        self, table: DeltaTable, corrections: StoredFiles, changing: pc.Expression
    ) -> tuple[StoredFiles, pa.Table]:
        """The files of `published` that may hold a row that changes or is withdrawn; and the spread of such
        corrections over the key groups, as one row of the form in which `portions` takes files.
        """
        starts_by_day: dict[date | None, list[datetime]] = {}
        count, groups = 0, set[int]()
        for part in corrections.scan(
            [KEY_GROUP, "window_start", "window_end", "timestamp"], changing, self.portion_rows
        ):
            count += part.num_rows
            groups.update(least_and_greatest(part.column(KEY_GROUP)))
            starts = part.column("window_start").combine_chunks()
            by_day = (
                pa.table({"day": days_of(part), "start": starts})
                .group_by("day")
                .aggregate([("start", "min"), ("start", "max")])
            )
            for bounds_of_day in by_day.to_pylist():
                starts_by_day.setdefault(bounds_of_day["day"], []).extend(
                    start
                    for start in (bounds_of_day["start_min"], bounds_of_day["start_max"])
                    if start is not None
                )
        files = files_of_starts(self.tables[PUBLISHED], starts_by_day, table)
        spread = pa.table(
            {
                "num_records": [count],
                f"min.{KEY_GROUP}": [min(groups, default=0)],
                f"max.{KEY_GROUP}": [max(groups, default=0)],
            }
        )
        return replace(files, dictionary_columns=("kind",)), spread

    def seqs_of_runs(self, corrections: pa.Table) -> pa.Table:
        """(run_id, seq) of the ledger rows that corrections name; empty where the run does not identify a
        row.
        """
        if self.publication.identity is not Identity.RUN:
            return _table_of_seqs({})
        rows = (
            self.tables.ledger.by_run_id(run_id)
            for run_id in corrections.column("run_id").unique().to_pylist()
        )
        return _table_of_seqs({row.run_id: row.seq for row in rows if row is not None})


def _put_in_place(
    erasures: Sequence[ErasedRows],
    folder: Folder,
    table: DeltaTable,
    row: LedgerRow,
    transaction: Transaction,
) -> None:
    """The step of an erasure, in a table whose log says how far it was rolled forward."""
    put_in_place(folder, erasures, table, transaction)


def _as_dictionary(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _table_of_seqs(seqs: dict[str, int]) -> pa.Table:
    return pa.table(
        {"run_id": pa.array(list(seqs), pa.string()), "seq": pa.array(list(seqs.values()), pa.int64())}
    )


def rolled_forward_to(table: DeltaTable | None) -> int:
    """The seq up to which a table has been rolled forward; 0 before the first row."""
    return 0 if table is None else table.transaction_version(APPLICATION) or 0
