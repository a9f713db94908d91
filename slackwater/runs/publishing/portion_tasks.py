"""What the steps of a roll-forward write of each portion, and where that is done: in this process, or, where
the portions are many, in tasks that each write the files of some portions. Commits nothing.

    portions       1  2  3  4 | 5  6  7  8 | 9      key groups, ascending
    tasks          a          | b          | c      each writes files of its own; their lists come back

What a portion writes does not depend on who writes it. A task that dies is tried again, and the second try
gives its files the names of the first. Another process that rolls the same run forward gives
other names: it may begin from another state of the tables.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.transport.in_process import Transport
from slackwater.runs.publishing.change_summary import ChangeSummary
from slackwater.runs.publishing.correction_sql import BEFORE
from slackwater.runs.publishing.corrections import Identity, Publication, dates_of
from slackwater.runs.publishing.pane_changes import (
    WINDOW_PLACE,
    PortionedChanges,
    files_of_days,
    files_of_windows,
)
from slackwater.runs.publishing.portions import KEY_GROUP, Portion
from slackwater.runs.publishing.uniqueness import CORRECTIONS, PUBLISHED, Uniqueness
from slackwater.tables.arrow_values import is_text, repeat_text, repeat_value
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.delta.written_files import (
    WrittenFile,
    cast_unless_encoded,
    files_of_table,
    table_of_files,
)
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Tables

# Columns of corrections with few different texts: as dictionaries they are read and written faster, and take
# less memory.
DICTIONARY_COLUMNS = ("run_id", "kind", "op", "cause")
# So many times as many portions are written while Spark itself starts.
_TIMES_BEFORE_START = 4
# Of one task: as many as fill a file.
_PORTIONS_OF_A_TASK = 4


class Piece(NamedTuple):
    """Some rows for the table `table`. Rows of different `band` go into different files."""

    table: str
    rows: pa.Table
    band: int | None = None


# What a portion writes, piece by piece. Goes to tasks.
PortionTask = Callable[[Portion], Iterator[Piece]]


@dataclass(frozen=True)
class PortionTasks:
    """Writes portions in tasks.

    Attributes:
        least: from so many portions on; fewer this process writes before a task would have begun. Where Spark
            would have to start first, from four times as many on.
    """

    transport: Transport
    least: int = 8

    def are_for(self, portions: Sequence[Portion]) -> bool:
        times = 1 if self.transport.begins_at_once else _TIMES_BEFORE_START
        return len(portions) >= times * self.least


class WrittenPortions(NamedTuple):
    """What was written: files by table, and the sum of the corrections among their rows."""

    files: dict[str, list[WrittenFile]]
    changes: ChangeSummary


def write_portions(
    folders: Mapping[str, Folder],
    portions: Sequence[Portion],
    task: PortionTask,
    tasks: PortionTasks | None,
) -> WrittenPortions:
    """Write what `task` makes of all portions, which are in the order of their key groups; without `tasks` in
    this process. Raises WarehouseNotWritable: rows can't be written.
    """

    prefix = uuid.uuid4().hex

    def write(share: _Share) -> Iterator[pa.Table]:
        written_portions = _write(folders, share.portions, task, f"{prefix}-{share.number}")
        for name, files in written_portions.files.items():
            yield table_of_files(files).append_column("table", pa.repeat(name, len(files)))
        yield (
            table_of_files([])
            .append_column("table", pa.nulls(0, pa.string()))
            .replace_schema_metadata(written_portions.changes.to_facts())
        )

    written_portions = WrittenPortions({name: [] for name in folders}, ChangeSummary())
    for table in _each_share(portions, write, tasks):
        for name in table.column("table").unique().to_pylist():
            written_portions.files[name].extend(files_of_table(table))
        facts = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
        if (changes := ChangeSummary.from_facts(facts)) is not None:
            written_portions.changes.merge(changes)
    return written_portions


def files_that_change(
    published: StoredFiles,
    corrections: StoredFiles,
    changing: pc.Expression,
    portions: Sequence[Portion],
    tasks: PortionTasks | None,
) -> tuple[StoredFiles, pa.Table]:
    """The files of `published` that may hold a row that changes or is withdrawn; and the spread of such
    corrections over the key groups, in the form in which `portions` takes files. `changing` is the condition
    for a correction that changes or withdraws a row; without `tasks` all are read here.
    """

    def choose(share: _Share) -> Iterator[pa.Table]:
        for portion in share.portions:
            windows = portion.files_among(corrections).read(WINDOW_PLACE, changing & portion.where)
            if windows.num_rows:
                files = files_of_windows(files_of_days(published, dates_of(windows)), windows)
                bounds = pc.min_max(windows.column(KEY_GROUP))
                yield pa.table(
                    {
                        "num_records": [windows.num_rows],
                        f"min.{KEY_GROUP}": pa.array([bounds["min"]]),
                        f"max.{KEY_GROUP}": pa.array([bounds["max"]]),
                        "paths": pa.array([files.paths], pa.list_(pa.string())),
                    }
                )

    spreads = list(_each_share(portions, choose, tasks))
    if not spreads:
        return published.among(()), pa.table({})
    spread = pa.concat_tables(spreads)
    return published.among(chain.from_iterable(spread.column("paths").to_pylist())), spread


class _Share(NamedTuple):
    """The portions of one task, and its number."""

    number: int
    portions: Sequence[Portion]


def _each_share(
    portions: Sequence[Portion],
    work: Callable[[_Share], Iterator[pa.Table]],
    tasks: PortionTasks | None,
) -> Iterable[pa.Table]:
    if tasks is None or not tasks.are_for(portions):
        return work(_Share(0, portions))
    count = max(ceil(len(portions) / _PORTIONS_OF_A_TASK), min(len(portions), tasks.transport.slots))
    bounds = [len(portions) * number // count for number in range(count + 1)]
    return tasks.transport.each(
        lambda number: work(_Share(number, portions[bounds[number] : bounds[number + 1]])), count
    )


def _write(
    folders: Mapping[str, Folder], portions: Sequence[Portion], task: PortionTask, name: str
) -> WrittenPortions:
    changes = ChangeSummary()
    with ExitStack() as stack:
        parts = {table: stack.enter_context(Parts(folder, name=name)) for table, folder in folders.items()}
        for table, rows, band in chain.from_iterable(map(task, portions)):
            parts[table].add(rows, band)
            if table == CORRECTIONS:
                changes.add(rows)
        return WrittenPortions({table: table_parts.close() for table, table_parts in parts.items()}, changes)


@dataclass(frozen=True)
class CorrectPortion:
    """The corrections of a ledger row, and the rows that they insert into `published`."""

    row: LedgerRow
    changes: PortionedChanges
    tables: Tables
    publication: Publication

    def __call__(self, portion: Portion) -> Iterator[Piece]:
        inserts = []
        for changes in self.changes.of(portion):
            rows = self._corrections(changes)
            yield Piece(CORRECTIONS, rows)
            is_insert = is_text(rows.column("op"), "insert")
            if not pc.all(is_insert).as_py():
                rows = rows.filter(is_insert)
            inserts.append(self.publication.new_rows(rows))
        # In one piece, so that they are divided into bands together.
        yield Piece(PUBLISHED, pa.concat_tables(inserts))

    def _corrections(self, changes: pa.Table) -> pa.Table:
        schema, row = self.tables[CORRECTIONS].schema, self.row
        constants = {"seq": row.seq, "at": row.committed_at}
        columns = {
            name: repeat_value(value, changes.num_rows, schema.field(name).type)
            for name, value in constants.items()
        }
        columns |= {
            "run_id": self._run_id_of_each(changes),
            **{name: changes.column(name) for name in changes.schema.names},
        }
        columns = {
            name: _as_dictionary(columns[name]) if name in DICTIONARY_COLUMNS else columns[name]
            for name in schema.names
        }
        return pa.table(
            {field.name: cast_unless_encoded(columns[field.name], field.type) for field in schema}
        )

    def _run_id_of_each(self, changes: pa.Table) -> pa.Array:
        """The run id of each correction: of the ledger row, or for a withdrawal from a process function of
        the run whose row is withdrawn.
        """
        if self.publication.identity is not Identity.RUN:
            return repeat_text(self.row.run_id, changes.num_rows)
        seqs_before = changes.column(BEFORE)
        seqs = seqs_before.drop_null().unique()
        run_ids = pa.array([self.tables.ledger.row(seq).run_id for seq in seqs.to_pylist()], pa.string())
        return pc.coalesce(run_ids.take(pc.index_in(seqs_before, value_set=seqs)), pa.scalar(self.row.run_id))


@dataclass(frozen=True)
class InsertPortion:
    """The rows that a ledger row inserts into `published`, by its corrections."""

    corrections: StoredFiles
    inserting: pc.Expression
    uniqueness: Uniqueness

    def __call__(self, portion: Portion) -> Iterator[Piece]:
        corrections = portion.files_among(self.corrections)
        inserts = corrections.read(corrections.schema.names, self.inserting & portion.where)
        self.uniqueness.require_once(CORRECTIONS, inserts)
        yield Piece(PUBLISHED, self.uniqueness.publication.new_rows(inserts))


@dataclass(frozen=True)
class RewritePortion:
    """The rows of some files of `published`, with what a ledger row changes or withdraws in them (the
    corrections for which `changing` holds). They stay in the bands of these files.
    """

    old_files: StoredFiles
    corrections: StoredFiles
    changing: pc.Expression
    tables: Tables
    uniqueness: Uniqueness

    def __call__(self, portion: Portion) -> Iterator[Piece]:
        publication = self.uniqueness.publication
        corrections, old_files = (portion.files_among(files) for files in (self.corrections, self.old_files))
        changes = corrections.read(corrections.schema.names, self.changing & portion.where)
        published_rows = old_files.read(old_files.schema.names, portion.where)
        self.uniqueness.require_once(CORRECTIONS, changes)
        rows = publication.apply(changes, published_rows, seqs_of_runs(self.tables, publication, changes))
        clustering = self.tables[PUBLISHED].clustering
        assert clustering is not None
        # By the bands of all files, so that a number means the same band in each portion.
        for band, band_rows in clustering.bands_of(rows, "window_date", self.old_files.actions):
            yield Piece(PUBLISHED, band_rows, band)


def seqs_of_runs(tables: Tables, publication: Publication, corrections: pa.Table) -> pa.Table:
    """(run_id, seq) of the ledger rows that corrections name; empty where the run does not identify a row."""
    rows: Iterable[LedgerRow | None] = ()
    if publication.identity is Identity.RUN:
        rows = map(tables.ledger.by_run_id, corrections.column("run_id").unique().to_pylist())
    seqs = {row.run_id: row.seq for row in rows if row is not None}
    return pa.table(
        {"run_id": pa.array(list(seqs), pa.string()), "seq": pa.array(list(seqs.values()), pa.int64())}
    )


def _as_dictionary(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
