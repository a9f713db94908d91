"""Answers statements that people write: checks that a statement only reads the views, and limits its answer.

There are two guards. Here a statement is refused that names a table, a table function or a
function beside those that a pipeline's views need. DuckDB itself (`LineageViews`) opens no file outside of
the pipeline's tables, loads no extension, has no network, writes nothing, and its settings are locked.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from slackwater.inspection.sql.locked_database import RowBatches
from slackwater.inspection.sql.select_statements import READING_STATEMENTS, NotAStatement, SelectStatement
from slackwater.inspection.sql.view_sources import MEANINGS
from slackwater.inspection.sql.views import LineageViews

# Table functions that need nothing but their arguments.
TABLE_FUNCTIONS = ("unnest", "range", "generate_series", "json_each", "json_tree")
# Functions that look at the database itself, write its log, wait, or bind another statement.
_REFUSED_FUNCTIONS = frozenset(
    [
        "current_setting",
        "getenv",
        "getvariable",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "pg_sleep",
        "sleep_ms",
        "write_log",
    ]
)


@dataclass(frozen=True)
class SqlAnswer:
    """The first `rows` of a statement, and how many `others` there are; None: not counted."""

    rows: pa.Table
    others: int | None


def check_statement(views: LineageViews, sql: str) -> SelectStatement:
    """The statement `sql`, if it only reads the views. Raises NotAStatement: it does something else, or names
    what is not there.
    """
    statement = views.parse(sql)
    if statement.shown_list is not None and not statement.shows_tables:
        raise NotAStatement(f"SHOW lists tables alone here. What reads is: {READING_STATEMENTS}.")
    for function in sorted(statement.functions & _REFUSED_FUNCTIONS):
        raise NotAStatement(f"the function {function} is not possible here.")
    names = {*views.names, *statement.own_tables}
    for table in sorted(statement.tables - names):
        raise NotAStatement(f"there is no view {table}.{_like(table, names)} SHOW TABLES lists the views.")
    functions = (*views.names_at, *TABLE_FUNCTIONS)
    for call in statement.table_functions:
        if call.name not in functions:
            raise NotAStatement(
                f"{call.name}(…) is not possible here.{_like(call.name, functions)} Statements read the "
                f"views (SHOW TABLES lists them), and {', '.join(TABLE_FUNCTIONS)}."
            )
    return statement


def answer(views: LineageViews, sql: str, limit: int) -> SqlAnswer:
    """The first `limit` rows of a statement. The others are not read, but counted, which reads fewer columns.
    Raises NotAStatement: see `check_statement`, and `LineageViews.query`.
    """
    return last_answer(answers(views, sql, limit))


def answers(views: LineageViews, sql: str, limit: int) -> Iterator[SqlAnswer]:
    """The first `limit` rows of a statement; then, once they are counted, the same with how many others."""
    statement = check_statement(views, sql)
    with _batches(views, statement) as stream:
        rows, count = _first_rows(stream, limit, counts_all=statement.is_description)
    if count <= limit or statement.is_description:
        yield SqlAnswer(rows, max(0, count - limit))
        return
    yield SqlAnswer(rows, None)
    [others] = views.query(f"SELECT count(*) FROM (\n{sql.rstrip().rstrip(';')}\n)")
    yield SqlAnswer(rows, max(1, others[0].as_py() - limit))


def last_answer(answers_so_far: Iterator[SqlAnswer]) -> SqlAnswer:
    """The last of `answers`: without the number of the other rows where counting them fails."""
    last = next(answers_so_far)
    with suppress(NotAStatement):
        last = next(answers_so_far, last)
    return last


@contextmanager
def answer_in_batches(views: LineageViews, sql: str) -> Iterator[RowBatches]:
    """All rows of a statement as a stream; one batch is in memory at a time. Raises NotAStatement: see
    `answer`.
    """
    with _batches(views, check_statement(views, sql)) as batches:
        yield batches


@contextmanager
def _batches(views: LineageViews, statement: SelectStatement) -> Iterator[RowBatches]:
    if statement.shows_tables:
        names = list_of_views(views)
        yield RowBatches(names.schema, iter(names.to_batches()))
        return
    with views.batches(statement.sql) as batches:
        yield batches


def list_of_views(views: LineageViews) -> pa.Table:
    functions: Mapping[str, str] = {
        f"{name}(seq)": "the same as of a ledger row, or of a branch" for name in views.names_at
    }
    meanings = {name: MEANINGS.get(name, "rows of every run, as they are stored") for name in views.names}
    for name in views.names:
        if name.startswith("side_") and name.endswith("_live"):
            meanings[name] = "a side output, with the seq of the run"
    rows_by_view = {**meanings, **functions}
    return pa.table({"view": list(rows_by_view), "rows": list(rows_by_view.values())})


def _first_rows(stream: RowBatches, limit: int, *, counts_all: bool) -> tuple[pa.Table, int]:
    """(the first rows, how many there are); without `counts_all` the count ends soon after `limit`."""
    parts: list[pa.RecordBatch] = []
    count = 0
    for batch in stream.batches:
        if count < limit:
            parts.append(batch)
        count += batch.num_rows
        if count > limit and not counts_all:
            break
    return pa.Table.from_batches(parts, stream.schema).slice(0, limit), count


def _like(name: str, names: Iterable[str]) -> str:
    matches = get_close_matches(name, list(names), 1)
    return f" Did you mean {matches[0]}?" if matches else ""
