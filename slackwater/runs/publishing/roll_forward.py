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
groups, so that memory does not grow with a run; of a large run by tasks (`portion_tasks`). Here are the
steps and their commits, which handle lists of files alone.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow.compute as pc
from deltalake import Transaction

from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.engine.transport.job_names import jobs_called
from slackwater.pipelines import Pipeline
from slackwater.pipelines.window_columns import declared_columns, own_window_class_of
from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.runs.publishing.pane_changes import PaneChanges, parts_of
from slackwater.runs.publishing.portion_tasks import (
    DICTIONARY_COLUMNS,
    CorrectPortion,
    InsertPortion,
    PortionTask,
    PortionTasks,
    RewritePortion,
    WrittenPortions,
    files_that_change,
    write_portions,
)
from slackwater.runs.publishing.portions import Portion
from slackwater.runs.publishing.uniqueness import (
    CORRECTIONS,
    LEDGER,
    PUBLISHED,
    UNIQUE_TABLES,
    Uniqueness,
)
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.errors import CommitConflict
from slackwater.tables.grown_columns import results_of
from slackwater.tables.ledger.erasures import ErasedRows
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import MAIN, LedgerRow, RowKind
from slackwater.tables.run_files.rewriting import put_all_in_place, put_in_place
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import APPLICATION, Tables


class Draft(NamedTuple):
    """Files with the rows that a ledger row inserts into `published`, written and not yet committed.
    `is_all`: the ledger row only inserts, so these files are all that it changes. `rows_by_op`: how many rows
    it changes how; empty where that is not known.
    """

    files: list[WrittenFile]
    is_all: bool
    rows_by_op: Mapping[str, int]


Step = Callable[[Folder, OpenTable, Transaction], Draft | None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        portion_rows: about so many rows are held at once, at least the rows of one key group.
        tasks: write large runs; None: this process writes all.
    """

    tables: Tables
    publication: Publication
    portion_rows: int = 1 << 20
    tasks: PortionTasks | None = None

    @property
    def uniqueness(self) -> Uniqueness:
        return Uniqueness(self.tables, self.publication, self.portion_rows)

    @property
    def pane_changes(self) -> PaneChanges:
        return PaneChanges(self.tables, self.publication, self.portion_rows)

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        tables: Tables,
        shape: Shape,
        tasks: PortionTasks | None = None,
    ) -> "RollForward":
        identity = Identity.FIRING if pipeline.purges else Identity.WINDOW
        if pipeline.keyed_process is not None:
            identity = Identity.RUN
        results = results_of(tables[CORRECTIONS].schema)
        shape = tables.shape(replace(shape, results=results, published=None))
        publication = Publication(shape, identity, PublishedForm.of(pipeline))
        return cls(tables, publication, tasks=tasks)

    @classmethod
    def from_stored(
        cls, pipeline: Pipeline, tables: Tables, tasks: PortionTasks | None = None
    ) -> "RollForward":
        """The roll-forward of a pipeline from the schemas of its tables, so the source is not needed."""
        schema = tables[PUBLISHED].schema
        keys = tuple((key, schema.field(key).type) for key in pipeline.keys)
        windows = tuple((column, schema.field(column).type) for column in declared_columns(pipeline))
        has_own = own_window_class_of(pipeline) is not None
        shape = Shape(keys=keys, results=(), parts=(), source=(), windows=windows if has_own else None)
        return cls.of(pipeline, tables, shape, tasks)

    def pending(self) -> list[LedgerRow]:
        """The rows of main that are not rolled forward into `published` yet, oldest first."""
        return self._pending(self.tables[PUBLISHED].find(), self.tables.ledger)

    def _pending(self, published: OpenTable | None, ledger: LedgerReader) -> list[LedgerRow]:
        return [row for row in ledger.rows(since=rolled_forward_to(published)) if row.branch == MAIN]

    def finish(self) -> list[LedgerRow]:
        """Roll the pending rows forward, each once whatever the number of processes; returns them. Raises
        DoubledRows: a table holds rows several times; nothing that follows from them is written.
        """
        return self._finish({name: self.tables[name].find() for name in UNIQUE_TABLES})

    def finish_known(self) -> list[LedgerRow]:
        """As `finish`, without a look at what others have committed since the caller opened the tables or
        committed a row. They roll that forward themselves, and so does the next `finish`.
        """
        return self._finish({name: self.tables[name].newest_known() for name in UNIQUE_TABLES})

    def _finish(self, tables: Mapping[str, OpenTable | None]) -> list[LedgerRow]:
        """Roll those rows forward that the ledger of `tables` has and their `published` lacks."""
        self.uniqueness.require_at_a_glance(tables)
        rows = self._pending(tables[PUBLISHED], LedgerReader(self.tables[LEDGER], tables[LEDGER]))
        for row in rows:
            if row.kind == RowKind.ERASE:
                self._erase(row)
                continue
            draft = self.take_step(self.tables[CORRECTIONS], row, partial(self._correct, row))
            self.take_step(self.tables[PUBLISHED], row, partial(self._publish, row, draft))
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
            self.take_step(self.tables[name], row, partial(put_in_place, by_table.get(name, ())))

    def would_change(self, row: LedgerRow) -> bool:
        self.tables[PUBLISHED].find()  # what is known of it is as of now
        return any(part.num_rows for part in parts_of(self.pane_changes.for_lineage(row)))

    def take_step(self, folder: Folder, row: LedgerRow, step: Step) -> Draft | None:
        """Roll one table forward to one row, unless it is there; tried again after others' commits."""
        table = folder.newest_known_or_made()
        while True:
            if rolled_forward_to(table) >= row.seq:
                return None
            try:
                place = "/".join(folder.uri.rsplit("/", 2)[1:])
                with jobs_called(f"{place}: roll forward run {row.seq}", row.run_id):
                    draft = step(folder, table, Transaction(APPLICATION, row.seq))
            except CommitConflict:
                table = folder.ensure()
                continue
            if rolled_forward_to(folder.newest_known()) < row.seq:
                raise AssertionError(f"{folder.uri}: the commit of run {row.seq} left no transaction")
            return draft

    def _correct(self, row: LedgerRow, folder: Folder, table: OpenTable, transaction: Transaction) -> Draft:
        """The step of `corrections`. The rows that it inserts into `published` are written on the way."""
        changes = self.pane_changes.for_row(row)
        task = CorrectPortion(row, changes, self.tables, self.publication)
        written_portions = self._write(changes.portions, task, CORRECTIONS, PUBLISHED)
        corrections, facts = written_portions.files[CORRECTIONS], written_portions.changes.to_facts()
        folder.commit_files(corrections, expected_table=table, transaction=transaction, facts=facts)
        rows_by_op = written_portions.changes.rows_by_op
        is_all = written_portions.changes.total == rows_by_op.get("insert", 0)
        return Draft(written_portions.files[PUBLISHED], is_all, rows_by_op)

    def _write(self, portions: Sequence[Portion], task: PortionTask, *names: str) -> WrittenPortions:
        folders = {name: self.tables[name] for name in names}
        return write_portions(folders, portions, task, self.tasks)

    def _publish(
        self, row: LedgerRow, draft: Draft | None, folder: Folder, table: OpenTable, transaction: Transaction
    ) -> None:
        """The step of `published`, from the corrections of the row alone.

        Inserted rows get files of their own, unless `draft` has them. Only files in which rows change are
        written anew: a late element of a large day writes the rows of its band again, and no older rows.
        Several small files of a day become one.
        """
        corrections = replace(
            self.tables[CORRECTIONS].files(
                Within.only("seq", row.seq), table=self.tables[CORRECTIONS].newest_known()
            ),
            dictionary_columns=DICTIONARY_COLUMNS,
        )
        is_of_row, is_insert = pc.field("seq") == row.seq, pc.field("op") == "insert"
        if draft is None:
            draft = Draft(self._write_inserts(corrections, is_of_row & is_insert), False, {})
        facts = {"userMetadata": _history_of(row, draft.rows_by_op)}
        if draft.is_all:
            folder.commit_files(draft.files, expected_table=table, transaction=transaction, facts=facts)
            return
        old_files, new_files = self._rewrite_files(table, corrections, is_of_row & ~is_insert)
        folder.commit_files([*draft.files, *new_files], old_files, table, transaction, facts=facts)

    def _write_inserts(self, corrections: StoredFiles, inserting: pc.Expression) -> list[WrittenFile]:
        task = InsertPortion(corrections, inserting, self.uniqueness)
        return self._write(self.uniqueness.portions(corrections.actions), task, PUBLISHED).files[PUBLISHED]

    def _rewrite_files(
        self, table: OpenTable, corrections: StoredFiles, changing: pc.Expression
    ) -> tuple[StoredFiles, list[WrittenFile]]:
        """The files of `published` in which rows change or are withdrawn, and the files that replace them."""
        published = replace(self.tables[PUBLISHED].files(table=table), dictionary_columns=("kind",))
        old_files, spread = files_that_change(
            published, corrections, changing, self.uniqueness.portions(corrections.actions), self.tasks
        )
        task = RewritePortion(old_files, corrections, changing, self.tables, self.uniqueness)
        written_portions = self._write(self.uniqueness.portions(spread, old_files.actions), task, PUBLISHED)
        return old_files, written_portions.files[PUBLISHED]


def rolled_forward_to(table: OpenTable | None) -> int:
    """The seq up to which a table has been rolled forward; 0 before the first row."""
    return 0 if table is None else table.transaction_version(APPLICATION) or 0


def _history_of(row: LedgerRow, rows_by_op: Mapping[str, int]) -> str:
    """What the history of `published` says of a commit, as JSON."""
    bounds = {
        name: None if moment is None else moment.isoformat()
        for name, moment in (("slice_start", row.slice_start), ("slice_end", row.slice_end))
    }
    facts = {"seq": row.seq, "run_id": row.run_id, "kind": row.kind, **bounds, "verdict": row.verdict}
    return json.dumps({**facts, **{f"rows_{op}": count for op, count in sorted(rows_by_op.items())}})
