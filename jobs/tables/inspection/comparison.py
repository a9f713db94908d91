"""Where the published rows of two pipelines differ, by key and window: the same events in another order, or
under other rules.

Stored tables only; neither declaration is needed. Reads, and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.jobs.errors import UsageError
from slackwater.jobs.tables.sql import query
from slackwater.jobs.tables.warehouse import Warehouse

_WINDOW = ("window_start", "window_end", "timestamp")
_ROW = "__row"  # no column of a pipeline begins so
_OURS = ("kind", "firing", "ordinal", "timestamp", "revision", "run_seq", "key_group", "window_date")


class NotComparable(UsageError):
    """Two published tables share no key or no result."""


@dataclass(frozen=True)
class Comparison:
    """The published rows of two pipelines.

    Attributes:
        keys: the key columns, which both have.
        results: the result columns that both have; others can't be compared.
    """

    left: pa.Table
    right: pa.Table
    keys: tuple[str, ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, left: str, right: str, warehouse: str | None) -> "Comparison":
        """The published rows of two pipelines in one warehouse.

        Raises:
            NoRuns: one of them has no tables.
            NotComparable: their keys differ, or they have no result column in common.
        """
        where = Warehouse.at(warehouse)
        tables = [where.stored_tables(name)["published"].read() for name in (left, right)]
        keys, others = (_keys(table) for table in tables)
        results = tuple(name for name in _results(tables[0]) if name in _results(tables[1]))
        kinds = [
            (name, [table.schema.field(name).type for table in tables])
            for name in (*keys, *results)
            if keys == others
        ]
        differing = [
            f"{name} ({first} and {second})" for name, (first, second) in kinds if not first.equals(second)
        ]
        if keys != others or not results or differing:
            raise NotComparable(
                f"{left} and {right} can't be compared: keys {', '.join(keys)} and {', '.join(others)}, "
                f"results in common: {', '.join(results) or 'none'}"
                f"{', of different types: ' if differing else ''}{', '.join(differing)}. "
                "Give both the same key_by, and the results that you want compared the same names and types."
            )
        return cls(tables[0], tables[1], keys, results)

    def differences(self) -> list[dict[str, Any]]:
        """One row for each published row that only one has, or whose results differ: `key` by column, the
        window, timestamp, `row` (1, 2, … where a window has several, by firing and order), `there` (``left``,
        ``right`` or ``both``), and the results of both as `left` and `right`, by column; None where it is
        not. In order of window and key.
        """
        window = [*self.keys, *_WINDOW]
        listed = ", ".join(map(_name, window))
        same = " AND ".join(
            f"a.{_name(name)} IS NOT DISTINCT FROM b.{_name(name)}" for name in [*window, _ROW]
        )
        equal = " AND ".join(f"a.{_name(name)} IS NOT DISTINCT FROM b.{_name(name)}" for name in self.results)
        sql = f"""
            WITH a AS ({self._numbered("published_left", listed)}),
                b AS ({self._numbered("published_right", listed)})
            SELECT
                {_struct({name: f"coalesce(a.{_name(name)}, b.{_name(name)})" for name in self.keys})}
                    AS "key",
                {", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in _WINDOW)},
                coalesce(a.{_ROW}, b.{_ROW}) AS "row",
                CASE WHEN b.{_ROW} IS NULL THEN 'left' WHEN a.{_ROW} IS NULL THEN 'right' ELSE 'both' END
                    AS there,
                CASE WHEN a.{_ROW} IS NOT NULL THEN {self._results("a")} END AS "left",
                CASE WHEN b.{_ROW} IS NOT NULL THEN {self._results("b")} END AS "right"
            FROM a FULL OUTER JOIN b ON {same}
            WHERE a.{_ROW} IS NULL OR b.{_ROW} IS NULL OR NOT ({equal})
            ORDER BY {", ".join(_WINDOW)}, "key", "row"
        """
        return list(query(sql, published_left=self.left, published_right=self.right).to_pylist())

    def _numbered(self, table: str, window: str) -> str:
        rank = f"row_number() OVER (PARTITION BY {window} ORDER BY firing, run_seq, ordinal) AS {_ROW}"
        return f"SELECT {window}, {rank}, {', '.join(map(_name, self.results))} FROM {table}"

    def _results(self, side: str) -> str:
        return _struct({name: f"{side}.{_name(name)}" for name in self.results})


def _keys(published: pa.Table) -> tuple[str, ...]:
    names = published.column_names
    return tuple(names[: names.index("window_start")])


def _results(published: pa.Table) -> tuple[str, ...]:
    return tuple(name for name in published.column_names[len(_keys(published)) + 2 :] if name not in _OURS)


def _struct(values: Mapping[str, str]) -> str:
    return "struct_pack(" + ", ".join(f"{_name(name)} := {value}" for name, value in values.items()) + ")"


def _name(column: str) -> str:
    return f'"{column}"'
