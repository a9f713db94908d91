"""The tables of one pipeline as views for SQL: this is how inspection code reads tables that grow.

    with LineageViews.of("departures", warehouse) as views:              # as of main's head
        rows = views.query("SELECT * FROM windows_now ORDER BY window_start LIMIT 50")
        is_key, values = views.condition_on_key("EWR")                   # as of --key; prunes row groups
        late = views.query(f"SELECT count(*) FROM late_live WHERE {is_key}", values)
        before = views.query("SELECT * FROM windows_at(4) WHERE run_seq = ?", [4])

    LineageViews.of("departures", warehouse, at="trial")                 # as of a branch's head, or of a seq
    LineageViews.over(inspection, inspection.run(None))                  # the same over an open Inspection

| view | rows |
|---|---|
| `published` | the results as of the last roll-forward |
| `panes_live`, `late_live`, `quarantine_live`, `side_<tag>_live` | rows of live runs, with their `run_seq` |
| `windows_now`, `timers_now`, `keyed_now`, `progress_now` | the snapshot |
| `runs`, `attempts`, `validations`, `corrections`, `overrides`, every other table | the rows as stored |
| `panes_at(seq)`, `windows_at(seq)`, `published_at(seq)`, … | the same as of a ledger row or a branch |

A view is defined when a statement names it, over exactly the files that the Delta log has for the runs in
question. DuckDB reads them lazily: columns, row groups and rows that a statement does not need are not read,
and ORDER BY with LIMIT keeps no more rows than that. So ask for few columns and put conditions and limits
into the statement. Times are UTC. Nothing is written, and nothing outside of the pipeline's tables can be
read, whatever a statement says.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.locked_database import LockedDatabase, RowBatches
from slackwater.inspection.sql.published_rows import DAY_OF_ROW, published_at
from slackwater.inspection.sql.select_statements import NotAStatement, SelectStatement, TableFunction
from slackwater.inspection.sql.view_sources import PUBLISHED, RUN_SEQ, NotAView, ViewSource, ViewSources
from slackwater.tables.delta.parquet import damage, damaged_file
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.named_keys import key_scalars
from slackwater.tables.sql import quoted, relation, sql_equality, text
from slackwater.tables.stores import is_local

# The view of `published` as it is, where `published` itself is as of an earlier row.
# DuckDB verifies no checksum. To check so many bytes takes 20 ms; of more the footers are checked.
_CHECKED_BYTES = 64 << 20
_STORED = "published as stored"
# The partition column of `published`: in every row it follows from the others.
_DERIVED_COLUMNS = {"window_date": DAY_OF_ROW}


@dataclass(frozen=True)
class LineageViews:
    """The views of one pipeline as of a ledger row, of one key or of all. For one thread at a time; use it in
    `with`.
    """

    inspection: Inspection
    row: LedgerRow
    _database: LockedDatabase = field(repr=False)
    _sources: ViewSources = field(repr=False)
    key: str | None = None
    # View → the files that it reads.
    _sources_of_views: dict[str, ViewSource] = field(default_factory=dict, repr=False)
    # Table function → its argument → the view that it gives.
    _views_of_functions: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, pipeline: str, warehouse: str | None, at: str | int = MAIN) -> "LineageViews":
        """The views of `pipeline`, as of main's head, a seq, or the head of a branch. Raises NoRuns: it has
        never run here, or there is no such seq; UsageError: nothing was committed, or there is no such
        branch.
        """
        inspection = Inspection.of(pipeline, warehouse)
        return cls.over(inspection, inspection.at(str(at)))

    @classmethod
    def over(cls, inspection: Inspection, row: LedgerRow, key: str | None = None) -> "LineageViews":
        """The views over tables that are open, as of `row`. With `key`, as --key takes it, they have no more
        than the files that may hold its rows; `condition_on_key` chooses the rows. Raises NotAKey: `key`
        names none.
        """
        root = inspection.tables["runs"].uri.removesuffix("runs")
        folder = root.removeprefix("file://") if is_local(root) else None
        key_group = None if key is None else inspection.key_group(row, _key_scalars(inspection, key))
        sources = ViewSources(inspection, key_group)
        return cls(inspection, row, LockedDatabase.reading(folder), sources, key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @property
    def names(self) -> list[str]:
        return self._sources.names

    @property
    def names_at(self) -> list[str]:
        return self._sources.names_at

    def schema(self, view: str) -> pa.Schema:
        """The columns of a view (``late_live``) or of what a table function gives (``late_at``)."""
        return self._sources.source(self._sources.current(view), self.row).schema

    def types_of(self, view: str) -> dict[str, str]:
        return self._database.types_of(self.schema(view))

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The rows of a SELECT statement; `parameters` are the values of its question marks.

        Raises:
            NotAStatement: it is no statement that can be asked here, names what does not exist, or needs too
                much memory.
            SnapshotGone, DamagedFile: the files of a view can't be read.
        """
        self._define_views(self.parse(sql))
        with self._naming_damaged_file():
            return self._database.rows(sql, parameters)

    @contextmanager
    def batches(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[RowBatches]:
        self._define_views(self.parse(sql))
        with self._naming_damaged_file(), self._database.stream(sql, parameters) as batches:
            yield batches

    def define(self, name: str, files: StoredFiles) -> None:
        self._define_source(name, ViewSource(files, files.schema))

    def parse(self, sql: str) -> SelectStatement:
        return self._database.parse(sql)

    def condition_on_key(self, key: str) -> tuple[str, list[Any]]:
        """(SQL, its parameters) of the condition that rows have the key that a person has written, as --key
        takes it. Only the row groups of its key group are read. Raises NotAKey: `key` names none.
        """
        scalars = _key_scalars(self.inspection, key)
        equalities = [sql_equality(name, value, "?") for name, value in scalars.items()]
        conditions = [condition for condition, _ in equalities]
        parameters = [parameter for _, parameter in equalities]
        key_group = self.inspection.key_group(self.row, scalars)
        if key_group is not None:
            conditions.insert(0, "key_group = ?")
            parameters.insert(0, key_group)
        return f"({' AND '.join(conditions)})", parameters

    @contextmanager
    def _naming_damaged_file(self) -> Iterator[None]:
        try:
            yield
        except NotAStatement as error:
            if not error.facts.get("is_of_a_file"):
                raise
            for source in self._sources_of_views.values():
                for path in source.files.paths:
                    wrong = damage(source.files.folder, path)
                    if wrong is not None:
                        raise damaged_file(source.files.uri, path, wrong) from error
            raise

    def _define_views(self, statement: SelectStatement) -> None:
        for function in statement.table_functions:
            if function.name in self.names_at:
                self._define_function(function)
        for name in self.names if statement.shows_tables else statement.tables:
            if name in self.names:
                self._define_view(name, name, self.row)

    def _define_function(self, function: TableFunction) -> None:
        argument = function.arguments[0] if len(function.arguments) == 1 else None
        if argument is None:
            raise NotAStatement(
                f"{function.name} takes the seq of a ledger row, or the name of a branch, as a constant: "
                f"{function.name}(4). `SELECT seq, slice_start FROM runs` lists the seqs."
            )
        views = self._views_of_functions.setdefault(function.name, {})
        if argument not in views:
            views[argument] = f"{function.name} {argument}"
            self._define_view(
                views[argument], self._sources.current(function.name), self.inspection.at(argument)
            )
            branches = " UNION ALL ".join(
                f"SELECT * FROM {quoted(view)} WHERE __as_of::VARCHAR = {text(one)}"
                for one, view in views.items()
            )
            self._database.define(
                f"CREATE OR REPLACE MACRO {quoted(function.name)}(__as_of) AS TABLE {branches}"
            )

    def _define_view(self, name: str, view: str, row: LedgerRow) -> None:
        if name in self._sources_of_views:
            return
        source = self._sources.source(view, row)
        if view == PUBLISHED and name != _STORED and self._is_before_published(row):
            self._database.define(f"CREATE VIEW {quoted(name)} AS {self._published_at(row)}")
            self._sources_of_views[name] = source
        else:
            self._define_source(name, source)

    def _define_source(self, name: str, source: ViewSource) -> None:
        self._database.define(f"CREATE VIEW {quoted(name)} AS {self._select(name, source)}")
        self._sources_of_views[name] = source

    def _is_before_published(self, row: LedgerRow) -> bool:
        """Whether `published` has moved on since a ledger row; raises NotAView for another branch's."""
        if row.branch != MAIN:
            raise NotAView(
                f"run {row.seq} is on the branch {row.branch}, and only main publishes. "
                f"`panes_at({row.seq})` has the firings of the branch.",
                view=PUBLISHED,
            )
        return row.seq < self._published_seq

    def _published_at(self, row: LedgerRow) -> str:
        self._define_view(_STORED, PUBLISHED, row)
        self._define_view("corrections", "corrections", row)
        window = [*self.inspection.key_columns(), *self.inspection.window_columns()]
        corrections = self.inspection.tables["corrections"].schema
        results = [column.name for column in corrections.field("new").type.fields]
        columns = self.inspection.tables[PUBLISHED].schema.names
        return published_at(
            row.seq,
            self._published_seq,
            published_view=quoted(_STORED),
            columns=columns,
            window=window,
            results=results,
        )

    @cached_property
    def _published_seq(self) -> int:
        return self.inspection.published_seq()

    def _select(self, name: str, source: ViewSource) -> str:
        if is_local(source.files.uri):
            source.files.check_contents(_CHECKED_BYTES)
            rows = relation(source.files, self._database.types_of(source.files.schema), _DERIVED_COLUMNS)
        else:
            self._database.register(f"files of {name}", source.files.dataset())
            rows = quoted(f"files of {name}")
        selection = [
            f"files.{quoted(column)} AS {quoted(source.name_in_view(column))}"
            for column in source.columns.names
        ]
        if source.seqs is None:
            return f"SELECT {', '.join(selection)} FROM {rows} AS files"
        runs = pa.table(
            {"run_id": pa.array(source.seqs, pa.string()), "seq": pa.array(source.seqs.values(), pa.int64())}
        )
        self._database.register(f"runs of {name}", runs)
        return (
            f"SELECT runs.seq AS {RUN_SEQ}, {', '.join(selection)} FROM {rows} AS files "
            f"JOIN {quoted(f'runs of {name}')} AS runs ON files.run_id = runs.run_id"
        )


def _key_scalars(inspection: Inspection, key: str) -> dict[str, pa.Scalar]:
    """The values of the key columns that a person has written as `key`. Raises NotAKey: it names none."""
    timers = inspection.tables["timers"].schema
    return key_scalars([(name, timers.field(name).type) for name in inspection.key_columns()], key)
