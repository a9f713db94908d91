"""Rows of a view, in order: the first ones with a count of all, or pages filtered by key and time; and the
tables of parked, late and unusable rows, with their views, orders and columns.

A page is found by the row before it, not by its number (keyset paging): the next page begins with the first
row whose values come after the values of the last row shown. So DuckDB keeps the rows of one page, and the
millionth page costs as much as the first. Nulls come before all values.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, Self

import pyarrow as pa

from slackwater.errors import UsageError
from slackwater.inspection.rows.row_exports import rows_of
from slackwater.inspection.sql.locked_database import RowBatches
from slackwater.inspection.sql.view_sources import RUN_SEQ
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.spans import seqs_of, spans_of
from slackwater.tables.named_keys import values_of_key
from slackwater.tables.sql import quoted

PAGE_ROWS = 100


class NotAPlace(UsageError):
    """A text that names no place between rows."""


@dataclass(frozen=True)
class RowPlace:
    """A place between two rows: the `values`, as texts, of the row beside it in the columns of the order, how
    many `equal_rows` lie on the other side, and whether the rows before it are asked for.
    """

    values: tuple[str | None, ...]
    equal_rows: int
    is_backward: bool = False

    def to_text(self) -> str:
        """For a URL; whether it is backward is not in it."""
        return json.dumps([list(self.values), self.equal_rows], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, *, is_backward: bool = False) -> Self:
        """The inverse of `to_text`; raises NotAPlace."""
        try:
            values, equal_rows = json.loads(text)
            place = cls(tuple(values), int(equal_rows), is_backward)
        except (ValueError, TypeError) as error:
            raise NotAPlace(f"{text[:80]!r} names no place between rows; begin at the first page.") from error
        if place.equal_rows < 0 or any(not isinstance(value, str | None) for value in place.values):
            raise NotAPlace(f"{text[:80]!r} names no place between rows; begin at the first page.")
        return place


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """Which rows of a view are wanted: of a key, as --key takes it, and within [start, end) of a column."""

    key: str | None = None
    time_column: str | None = None
    start: datetime | None = None
    end: datetime | None = None

    def condition(self, views: LineageViews, view: str) -> tuple[str, list[Any]]:
        """(SQL, its parameters) for rows of `view`. In quarantine a key is in the row's JSON."""
        conditions, parameters = ["true"], list[Any]()
        if self.key is not None:
            condition, values = (
                views.condition_on_key(self.key)
                if "key_group" in views.schema(view).names
                else _condition_on_json(views.inspection.key_columns(), self.key)
            )
            conditions.append(condition)
            parameters += values
        if self.time_column is not None:
            for sign, bound in ((">=", self.start), ("<", self.end)):
                if bound is not None:
                    conditions.append(f"{quoted(self.time_column)} {sign} ?")
                    parameters.append(bound)
        return " AND ".join(conditions), parameters


def _condition_on_json(key_columns: Sequence[str], key: str) -> tuple[str, list[Any]]:
    values = values_of_key(key_columns, key)
    pairs = zip(key_columns, values, strict=True)
    return " AND ".join("row_json ->> ? = ?" for _ in values), [part for pair in pairs for part in pair]


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """Rows of one page, how many the filter selects, and where the pages beside begin; None for no page."""

    rows: pa.Table
    total: int
    is_first: bool
    next_place: RowPlace | None
    previous_place: RowPlace | None


@dataclass(frozen=True)
class PagedView:
    """The rows of a view in an order of columns that together tell most rows apart."""

    views: LineageViews
    view: str
    order: tuple[str, ...]
    is_descending: bool = False

    def page(self, row_filter: RowFilter, place: RowPlace | None, page_rows: int = PAGE_ROWS) -> RowPage:
        """The rows of `row_filter` beside `place`; None: the first ones."""
        condition, parameters = row_filter.condition(self.views, self.view)
        count = self.views.query(f"SELECT count(*) FROM {quoted(self.view)} WHERE {condition}", parameters)
        rows = self._rows(condition, parameters, place, page_rows + 1)
        is_backward = place is not None and place.is_backward
        if is_backward and rows.num_rows <= page_rows:
            return self.page(row_filter, None, page_rows)
        has_more, rows = rows.num_rows > page_rows, rows.slice(0, page_rows)
        if is_backward:
            rows = rows.take(list(range(rows.num_rows))[::-1])
        is_first = place is None
        ends = self._ends(rows, place)
        return RowPage(
            rows=rows,
            total=count[0][0].as_py(),
            is_first=is_first,
            next_place=ends[1] if has_more or is_backward else None,
            previous_place=None if is_first else ends[0],
        )

    @contextmanager
    def batches(self, row_filter: RowFilter) -> Iterator[RowBatches]:
        """All rows of `row_filter` as a stream, in the order in which they are stored."""
        condition, parameters = row_filter.condition(self.views, self.view)
        with self.views.batches(f"SELECT * FROM {quoted(self.view)} WHERE {condition}", parameters) as stream:
            yield stream

    def _rows(
        self, condition: str, parameters: Sequence[Any], place: RowPlace | None, limit: int
    ) -> pa.Table:
        is_backward = place is not None and place.is_backward
        is_descending = self.is_descending is not is_backward
        place_condition, place_values = self._beyond(place, is_descending=is_descending)
        direction = "DESC NULLS LAST" if is_descending else "NULLS FIRST"
        order = ", ".join(f"{quoted(name)} {direction}" for name in self.order)
        offset = 0 if place is None else place.equal_rows
        sql = f"""
            SELECT * FROM {quoted(self.view)} WHERE {condition} AND {place_condition}
            ORDER BY {order} LIMIT {limit} OFFSET {offset}
        """
        return self.views.query(sql, [*parameters, *place_values])

    def _beyond(self, place: RowPlace | None, *, is_descending: bool) -> tuple[str, list[str]]:
        """(SQL, its parameters) of the condition that a row is equal to the place's or comes after it."""
        if place is None:
            return "true", []
        if len(place.values) != len(self.order):
            raise NotAPlace("the place is one of other columns; begin at the first page.")
        types = self.views.types_of(self.view)
        condition, parameters = "true", list[str]()
        for name, value in reversed(list(zip(self.order, place.values, strict=True))):
            column, operand = quoted(name), f"?::{types[name]}"
            if value is None:
                beyond = "false" if is_descending else f"{column} IS NOT NULL"
                condition = f"({beyond} OR ({column} IS NULL AND {condition}))"
            else:
                beyond = (
                    f"({column} < {operand} OR {column} IS NULL)"
                    if is_descending
                    else f"{column} > {operand}"
                )
                condition = f"({beyond} OR ({column} = {operand} AND {condition}))"
                parameters = [value, value, *parameters]
        first, value = quoted(self.order[0]), place.values[0]
        if value is not None and not is_descending:  # it chooses row groups, which the others can't
            return f"{first} >= ?::{types[self.order[0]]} AND {condition}", [value, *parameters]
        return condition, parameters

    def _ends(self, rows: pa.Table, place: RowPlace | None) -> tuple[RowPlace | None, RowPlace | None]:
        values = [tuple(map(_text, row)) for row in rows_of(rows.select(self.order))]
        if not values:
            return None, None
        first, last = (
            RowPlace(value, next((n for n, one in enumerate(run) if one != value), len(run)))
            for value, run in ((values[0], values), (values[-1], values[::-1]))
        )
        if place is not None and place.values == last.values and last.equal_rows == len(values):
            last = replace(last, equal_rows=last.equal_rows + place.equal_rows)
        return replace(first, is_backward=True), last


def _text(value: Any) -> str | None:
    return None if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


# Columns that few readers want, or that are null for most pipelines: left out where all rows shown are null.
OPTIONAL_COLUMNS = frozenset(
    [
        "state_window_start",
        "state_window_end",
        "next_firing",
        "last_fired_at",
        "contents",
        "trigger_state",
        "user_state",
        "map_key",
        "namespace_start",
        "namespace_end",
        "value_json",
        "column_name",
        "source_file",
        "source_version",
    ]
)


@dataclass(frozen=True, kw_only=True)
class StateTable:
    """One of these tables, by its name in commands and URLs. Filters by time are about `time_column` (None:
    none); `last_columns` order rows after time and key; `first_columns` are looked at first, beside key and
    window.
    """

    name: str
    title: str
    meaning: str
    view: str
    time_column: str | None
    last_columns: tuple[str, ...] = ()
    is_newest_first: bool = False
    first_columns: tuple[str, ...] = ()

    def paged_view(self, views: LineageViews) -> PagedView:
        present = views.schema(self.view).names
        time = () if self.time_column is None else (self.time_column,)
        keys, window = views.inspection.key_columns(), views.inspection.window_columns()
        order = dict.fromkeys((*time, *keys, *window, *self.last_columns))
        columns = tuple(name for name in order if name in present)
        return PagedView(views, self.view, columns, self.is_newest_first)

    def columns(self, views: LineageViews) -> Sequence[str]:
        present = views.schema(self.view).names
        keys, window = views.inspection.key_columns(), views.inspection.window_columns()
        order = dict.fromkeys((*keys, *window, *self.first_columns, *present))
        order.pop("key_group", None)
        return [name for name in (*order, "key_group") if name in present]


STATE_TABLES = {
    table.name: table
    for table in (
        StateTable(
            name="windows",
            title="Open windows",
            meaning="Windows that may still take rows, with what they hold.",
            view="windows_now",
            time_column="window_start",
            first_columns=("elements", "firings", "next_firing", "cleanup_time", "last_arrival"),
        ),
        StateTable(
            name="timers",
            title="Timers",
            meaning="When windows and functions act next.",
            view="timers_now",
            time_column="time",
            last_columns=("service", "domain", "purpose"),
            first_columns=("time", "purpose"),
        ),
        StateTable(
            name="keyed",
            title="Keyed state",
            meaning="What functions keep for each key beside its windows.",
            view="keyed_now",
            time_column=None,
            last_columns=("state_name", "namespace_start", "namespace_end", "map_key"),
            first_columns=("state_name", "map_key"),
        ),
        StateTable(
            name="late",
            title="Late rows",
            meaning="Rows that came after all of their windows were cleaned up, newest arrivals first.",
            view="late_live",
            time_column="arrival_time",
            last_columns=("event_time", "run_seq"),
            is_newest_first=True,
            first_columns=("event_time", "arrival_time", "late_by_ms", "windows", "watermark", "run_seq"),
        ),
        StateTable(
            name="quarantine",
            title="Quarantine",
            meaning="Rows that can’t be used, and why, newest arrivals first.",
            view="quarantine_live",
            time_column="arrival_time",
            last_columns=("run_seq", "reason_code", "row_json"),
            is_newest_first=True,
            first_columns=("reason_code", "reason", "arrival_time", "run_seq", "column_name", "row_json"),
        ),
    )
}


@dataclass(frozen=True)
class TopRows:
    rows: list[dict[str, Any]]
    total: int


def top_rows(
    views: LineageViews,
    view: str,
    order: Sequence[str],
    *,
    limit: int | None,
    run_seq: int | None = None,
) -> TopRows:
    """The first `limit` rows (None: all) of `view`, ordered by the columns `order`, nulls first: of the key
    of `views`, where these have one, and of one run with `run_seq`.
    """
    condition, parameters = RowFilter(key=views.key).condition(views, view)
    if run_seq is not None:
        condition, parameters = f"{condition} AND run_seq = ?", [*parameters, run_seq]
    where = f"WHERE {condition}"
    columns = ", ".join(f"{quoted(name)} NULLS FIRST" for name in order)
    end = "" if limit is None else f"LIMIT {limit}"
    select = f"SELECT * FROM {quoted(view)} {where} ORDER BY {columns} {end}"
    if order[0] == RUN_SEQ and limit is not None:
        by_run = f"SELECT run_seq, count(*) AS n FROM {quoted(view)} {where} GROUP BY ALL ORDER BY ALL"
        seqs, counts = (column.to_pylist() for column in views.query(by_run, parameters).columns)
        first_seqs = seqs[: bisect_left(list(accumulate(counts)), limit) + 1]
        with _views_of_runs(views, first_seqs) as views_of_first_runs:
            rows = python_rows(views_of_first_runs.query(select, parameters))
        return TopRows(rows, sum(counts))
    rows = python_rows(views.query(select, parameters))
    if limit is None or len(rows) < limit:
        return TopRows(rows, len(rows))
    count = views.query(f"SELECT count(*) AS n FROM {quoted(view)} {where}", parameters)
    return TopRows(rows, count.column("n")[0].as_py())


def _views_of_runs(views: LineageViews, seqs: Sequence[int]) -> LineageViews:
    """The same views as if only `seqs` were live, so that no files of other runs are read."""
    live = [seq for seq in seqs_of(views.row.live) if seq in set(seqs)]
    return LineageViews.over(views.inspection, replace(views.row, live=spans_of(live)), views.key)
