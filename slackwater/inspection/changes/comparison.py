"""Compares the published rows of two pipelines by key and window, for example of pipelines with other windows
or triggers. Reads the stored tables only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from slackwater.errors import UsageError
from slackwater.inspection.snapshot_diff import rows_are_equal, struct_of
from slackwater.runs.publishing.pane_changes import files_of_days
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.sql import query, quoted
from slackwater.tables.warehouse import Tables, Warehouse

_ROW = "__row"  # no column of a pipeline begins with two underscores
# The columns of `published` that the engine adds.
_ENGINE_COLUMNS = (
    "kind",
    "firing",
    "ordinal",
    "timestamp",
    "revision",
    "run_seq",
    "key_group",
    "window_date",
)


class NotComparable(UsageError):
    """Two published tables share no key or no result."""


@dataclass(frozen=True)
class PublishedComparison:
    """The published rows of two pipelines, and the columns of keys, windows and results that both have."""

    left_rows: pa.Table
    right_rows: pa.Table
    keys: tuple[str, ...]
    results: tuple[str, ...]
    windows: tuple[str, ...] = ("window_start", "window_end")

    @classmethod
    def of(
        cls, left_name: str, right_name: str, warehouse: str | None, days: set[date | None] | None = None
    ) -> "PublishedComparison":
        """The published rows of two pipelines in one warehouse, of all or some days (`window_date` or None).
        Raises NotComparable: their keys differ, or they have no result column in common.
        """
        stored_tables = [Warehouse.at(warehouse).stored_tables(name) for name in (left_name, right_name)]
        tables = [_published_rows(stored, days) for stored in stored_tables]
        keys, right_keys = (_keys(table) for table in tables)
        windows, right_windows = (_windows(stored["corrections"].schema.names) for stored in stored_tables)
        results, right_results = (
            _results(table, names) for table, names in zip(tables, (windows, right_windows), strict=True)
        )
        results = tuple(name for name in results if name in right_results)
        kinds = [
            (name, [table.schema.field(name).type for table in tables])
            for name in (*keys, *windows, *results)
            if keys == right_keys and windows == right_windows
        ]
        differing = [
            f"{name} ({first} and {second})" for name, (first, second) in kinds if not first.equals(second)
        ]
        if keys != right_keys or windows != right_windows or not results or differing:
            both_windows = f"windows {', '.join(windows)} and {', '.join(right_windows)}, "
            raise NotComparable(
                f"{left_name} and {right_name} can't be compared: "
                f"keys {', '.join(keys) or 'none'} and {', '.join(right_keys) or 'none'}, "
                f"{'' if windows == right_windows else both_windows}"
                f"results in common: {', '.join(results) or 'none'}"
                f"{', of different types: ' if differing else ''}{', '.join(differing)}. "
                "Give both the same key_by and the same columns of windows, and the results that you want "
                "compared the same names and types."
            )
        return cls(tables[0], tables[1], keys, results, windows)

    def differences(self) -> list[dict[str, Any]]:
        """One row for each published row that only one pipeline has, or whose results differ: `key` by
        column, the window, timestamp, `row` (1, 2, … where a window has several, by firing and order),
        `there` (which pipelines have the row: ``left``, ``right`` or ``both``), and the results as `left` and
        `right`, by column; None for a pipeline that lacks the row. In order of window and key.
        """
        moments = [*self.windows, "timestamp"]
        window = [*self.keys, *moments]
        window_names = ", ".join(map(quoted, window))
        is_same_row = rows_are_equal([*window, _ROW])
        has_equal_results = rows_are_equal(self.results)
        sql = f"""
            WITH a AS ({self._number_rows("published_left", window_names)}),
                b AS ({self._number_rows("published_right", window_names)})
            SELECT
                CASE WHEN a.{_ROW} IS NULL THEN {struct_of("b", self.keys)}
                    ELSE {struct_of("a", self.keys)} END AS "key",
                {", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in map(quoted, moments))},
                coalesce(a.{_ROW}, b.{_ROW}) AS "row",
                CASE WHEN b.{_ROW} IS NULL THEN 'left' WHEN a.{_ROW} IS NULL THEN 'right' ELSE 'both' END
                    AS there,
                CASE WHEN a.{_ROW} IS NOT NULL THEN {struct_of("a", self.results)} END AS "left",
                CASE WHEN b.{_ROW} IS NOT NULL THEN {struct_of("b", self.results)} END AS "right"
            FROM a FULL OUTER JOIN b ON {is_same_row}
            WHERE a.{_ROW} IS NULL OR b.{_ROW} IS NULL OR NOT ({has_equal_results})
            ORDER BY {", ".join(map(quoted, moments))}, "key", "row"
        """
        return python_rows(query(sql, published_left=self.left_rows, published_right=self.right_rows))

    def _number_rows(self, table: str, window: str) -> str:
        """SQL for the results of a table, with a number for each row of a key and window."""
        rank = f"row_number() OVER (PARTITION BY {window} ORDER BY firing, run_seq, ordinal) AS {_ROW}"
        return f"SELECT {window}, {rank}, {', '.join(map(quoted, self.results))} FROM {table}"


def published_days(names: Sequence[str], warehouse: str | None) -> list[date | None]:
    """The days on which one of some pipelines has published rows, newest first; None at the end
    means rows without a day. Read from the tables' logs.
    """
    days: set[date | None] = set()
    for name in names:
        actions = Warehouse.at(warehouse).stored_tables(name)["published"].files().actions
        if actions.num_rows:
            days.update(actions.column("partition.window_date").cast(pa.date32()).to_pylist())
    return [
        *sorted((day for day in days if day is not None), reverse=True),
        *([None] if None in days else []),
    ]


def _published_rows(tables: Tables, days: set[date | None] | None) -> pa.Table:
    if days is None:
        return tables["published"].read()
    return files_of_days(tables["published"].files(), days).read(tables["published"].schema.names)


def _keys(published_rows: pa.Table) -> tuple[str, ...]:
    names = published_rows.column_names
    return tuple(names[: names.index("window_start")])


def _windows(names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a window among the columns of `corrections`, where `ordinal` follows them."""
    return tuple(names[names.index("window_start") : names.index("ordinal")])


def _results(published_rows: pa.Table, windows: Sequence[str]) -> tuple[str, ...]:
    names = published_rows.column_names[len(_keys(published_rows)) + len(windows) :]
    return tuple(name for name in names if name not in _ENGINE_COLUMNS)
