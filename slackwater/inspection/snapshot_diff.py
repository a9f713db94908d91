"""Compares two snapshots of one pipeline row by row: open windows, pending timers, keyed state and source
progress.

Files in, plain rows out. Knows neither runs nor branches.

Rows of few key groups at a time are in memory: DuckDB groups equal rows of both snapshots, and what one of
them has more often than the other is paired by the columns that identify a row. Of these pairs only the first
in order are kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from slackwater.tables.arrow_values import python_rows
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.sql import quoted, relation, sql_equality
from slackwater.tables.stores import is_local

if TYPE_CHECKING:
    import duckdb

TABLES = ("window_state", "timers", "keyed_state", "source_progress")
ROWS_AT_ONCE = 700_000
_MEMORY_LIMIT = "250MB"
_GROUP = "key_group"


def _identities(keys: Sequence[str], windows: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Of each snapshot table: its name, what its rows are called, and the columns that identify a row."""
    own_columns = windows[2:]
    namespace = (*("namespace_start", "namespace_end"), *(f"namespace_{name}" for name in own_columns))
    yield "window_state", "window", (*keys, *windows)
    yield "timers", "timer", (*keys, *windows, "service", "domain", "time")
    yield "keyed_state", "keyed state", (*keys, "state_name", *namespace, "map_key")
    yield "source_progress", "progress", ("source_partition",)


def differences(
    left_snapshot: Mapping[str, StoredFiles],
    right_snapshot: Mapping[str, StoredFiles],
    keys: Sequence[str],
    windows: Sequence[str],
    *,
    most: int | None = None,
    key: Mapping[str, pa.Scalar] | None = None,
    key_group: int | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> tuple[list[dict[str, Any]], int]:
    """One row for each row that only one snapshot has, or whose columns differ: the first `most` of them, and
    how many there are.

    Args:
        left_snapshot, right_snapshot: table → its files, for each of `TABLES`.
        keys: the pipeline's key columns.
        windows: the columns of a window: window_start, window_end, and those that its class declares.
        key: only rows of this key: column → value.
        key_group: that of the key, if it is known: files of others are not read then.
        rows_at_once: how many rows of each snapshot are compared at once, if they are spread evenly over the
            key groups.

    Returns:
        `what` (window, timer, keyed state, progress), the columns of key and window, `name` (the other
        columns that identify the row), `there` (which snapshots have it: left, right or both), and as
        `left` and `right` the columns that differ, or all columns where the other snapshot has no such row.
        In order of table, window and key.

    Raises:
        DamagedFile: a file is not what was written, or is not there.
    """
    rows: list[dict[str, Any]] = []
    total = 0
    owner = (*keys, *windows)
    with _database() as connection:
        for table, what, identity in _identities(keys, windows):
            sides = _without_shared_files(left_snapshot[table], right_snapshot[table])
            has_rows = any(files.actions.num_rows for files in sides)
            if not has_rows or (key is not None and not key.keys() <= set(identity)):
                continue
            in_order = sorted(identity, key=lambda name: name not in windows)
            comparison = _Comparison(connection, sides, identity, in_order)
            parts = comparison.parts(rows_at_once) if key is None else [_Part(key, key_group, key_group)]
            pairs, count = comparison.pairs(parts, None if most is None else most - len(rows))
            total += count
            rows += (_difference(what, owner, identity, pair["left"], pair["right"]) for pair in pairs)
    return rows, total


def _without_shared_files(left: StoredFiles, right: StoredFiles) -> tuple[StoredFiles, StoredFiles]:
    """Both sides without the files that belong to both: after a fork, all of them."""
    shared_paths = set(left.paths) & set(right.paths) if left.uri == right.uri else set()
    left, right = (
        files.among(path for path in files.paths if path not in shared_paths) for files in (left, right)
    )
    return left, right


@contextmanager
def _database() -> "Iterator[duckdb.DuckDBPyConnection]":
    """A database that uses the disk for what its memory does not hold."""
    import duckdb

    with TemporaryDirectory(prefix="slackwater-comparison-") as folder:
        settings: dict[str, Any] = {"threads": 1, "memory_limit": _MEMORY_LIMIT, "temp_directory": folder}
        with duckdb.connect(config=settings) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection


class _Part(NamedTuple):
    """The rows that are compared at once: rows of a key, and of key groups from `first` to `last`."""

    key: Mapping[str, pa.Scalar] = {}
    first: int | None = None
    last: int | None = None

    def files(self, files: StoredFiles) -> StoredFiles:
        return files if self.first is None else files.within(Within(_GROUP, self.first, self.last))

    def condition(self) -> tuple[str, dict[str, Any]]:
        conditions, parameters = [], dict[str, Any]()
        for number, (name, value) in enumerate(self.key.items()):
            condition, parameters[f"key_{number}"] = sql_equality(name, value, f"$key_{number}")
            conditions.append(condition)
        if self.first is not None:
            conditions.append(f"{_GROUP} BETWEEN $first AND $last")
            parameters |= {"first": self.first, "last": self.last}
        return " AND ".join(conditions) or "true", parameters


@dataclass(frozen=True)
class _Comparison:
    """Compares the rows of one table in two snapshots, whose files are `sides`, by the columns `identity`;
    `in_order` are the same columns with nulls first.
    """

    connection: "duckdb.DuckDBPyConnection"
    sides: tuple[StoredFiles, StoredFiles]
    identity: Sequence[str]
    in_order: Sequence[str]

    def parts(self, rows_at_once: int) -> Iterator[_Part]:
        """All rows, in parts of about `rows_at_once`; in one where the log does not say the key groups."""
        bounds = [bound for files in self.sides for bound in _bounds_of_groups(files)]
        groups = [bound for bound in bounds if bound is not None]
        most_rows = max(files.rows for files in self.sides)
        if len(groups) < len(bounds) or most_rows <= rows_at_once:
            yield _Part()
            return
        first, length = min(groups), max(groups) - min(groups) + 1
        count = min(-(-most_rows // rows_at_once), length)
        ends = [first + length * number // count for number in range(count + 1)]
        for start, end in pairwise(ends):
            yield _Part(first=start, last=end - 1)

    def pairs(self, parts: Iterable[_Part], most: int | None) -> tuple[list[dict[str, Any]], int]:
        """Pairs of rows of one identity that are not equal, as `left` and `right`, which is None for a side
        that has no such row: the first `most` of them, and how many there are.
        """
        order = ", ".join(
            f'coalesce("left".{quoted(name)}, "right".{quoted(name)}) NULLS FIRST' for name in self.in_order
        )
        first_pairs = f"ORDER BY {order}" + ("" if most is None else f" LIMIT {most}")
        pairs_of_parts, total = [], 0
        for part in parts:
            self._make_pairs(part)
            [[count]] = self.connection.table("pairs").count("*").fetchall()
            total += count
            pairs_of_parts.append(self.connection.sql(f"FROM pairs {first_pairs}").to_arrow_table())
        self.connection.register("pairs_of_parts", pa.concat_tables(pairs_of_parts))
        rows = self.connection.sql(f"FROM pairs_of_parts {first_pairs}").to_arrow_table()
        return python_rows(rows), total

    def _make_pairs(self, part: _Part) -> None:
        left, right, parameters = self._sides(part)
        columns = [*self.identity, *self._values]
        self.connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE pairs AS
            WITH a AS ({left}), b AS ({right})
            SELECT CASE WHEN a.__copy IS NOT NULL THEN {struct_of("a", columns)} END AS "left",
                CASE WHEN b.__copy IS NOT NULL THEN {struct_of("b", columns)} END AS "right"
            FROM a FULL OUTER JOIN b ON {rows_are_equal([*self.identity, "__copy"])}
            WHERE a.__copy IS NULL OR b.__copy IS NULL OR NOT ({rows_are_equal(self._values) or "true"})
            """,
            parameters,
        )

    def _sides(self, part: _Part) -> tuple[str, str, dict[str, Any]]:
        """SQL for the rows of each side, as `__copy` the number of each among the rows of one identity, and
        the values of its parameters. Where rows share an identity, those that both sides have are left out.
        """
        condition, parameters = part.condition()
        names = ", ".join(map(quoted, self._columns))
        left, right = (
            f"SELECT {names} FROM {self._relation(name, part.files(files))} WHERE {condition}"
            for name, files in zip(("left_files", "right_files"), self.sides, strict=True)
        )
        if not any(self._has_copies(rows, parameters) for rows in (left, right)):
            return f"SELECT *, 1 AS __copy FROM ({left})", f"SELECT *, 1 AS __copy FROM ({right})", parameters
        self.connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE uneven AS
            SELECT {names}, sum(__side)::INT AS __more
            FROM (SELECT *, 1 AS __side FROM ({left}) UNION ALL SELECT *, -1 FROM ({right}))
            GROUP BY ALL HAVING __more <> 0
            """,
            parameters,
        )
        return self._numbered_copies("__more"), self._numbered_copies("-__more"), {}

    def _has_copies(self, rows: str, parameters: Mapping[str, Any]) -> bool:
        """Whether some of the rows of a statement have one identity."""
        names = ", ".join(map(quoted, self.identity))
        sql = f"SELECT 1 FROM ({rows}) GROUP BY hash({names}) HAVING count(*) > 1 LIMIT 1"
        return self.connection.execute(sql, parameters).fetchone() is not None

    def _numbered_copies(self, more: str) -> str:
        """SQL for the rows that one side has `more` often than the other: each as often, with a number for
        each of the rows of one identity.
        """
        order = f"ORDER BY {', '.join(map(quoted, self._values))}" if self._values else ""
        names = ", ".join(map(quoted, self.identity))
        return f"""
            SELECT *, row_number() OVER (PARTITION BY {names} {order}) AS __copy
            FROM (SELECT *, unnest(range({more})) FROM uneven)
        """

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.sides[0].schema.names if name != "run_id"]

    @property
    def _values(self) -> list[str]:
        """The columns beside those that identify a row."""
        return [name for name in self._columns if name not in (*self.identity, _GROUP)]

    def _relation(self, name: str, files: StoredFiles) -> str:
        """SQL for the rows of files; files of an object store get the name `name`."""
        if is_local(files.uri):  # DuckDB reads them itself
            files.check_contents()
            types = self.connection.from_arrow(files.schema.empty_table()).types
            return relation(files, dict(zip(files.schema.names, map(str, types), strict=True)))
        self.connection.register(name, files.dataset())
        return name


def _bounds_of_groups(files: StoredFiles) -> Iterator[int | None]:
    """The least and the greatest key group of each file; None where the log does not say."""
    for name in (f"min.{_GROUP}", f"max.{_GROUP}") if files.actions.num_rows else ():
        yield from files.actions.column(name).to_pylist() if name in files.actions.column_names else [None]


def _difference(
    what: str,
    owner: Sequence[str],
    identity: Sequence[str],
    left_row: dict[str, Any] | None,
    right_row: dict[str, Any] | None,
) -> dict[str, Any]:
    row = left_row or right_row or {}
    other_names = {name: row[name] for name in identity if name not in owner and row[name] is not None}
    values = [name for name in row if name not in identity]
    if left_row is not None and right_row is not None:
        values = [name for name in values if left_row[name] != right_row[name]]
    return {
        "what": what,
        **{name: row.get(name) if name in identity else None for name in owner},
        "name": other_names or None,
        "there": "right" if left_row is None else "left" if right_row is None else "both",
        "left": None if left_row is None else {name: left_row[name] for name in values},
        "right": None if right_row is None else {name: right_row[name] for name in values},
    }


def rows_are_equal(columns: Sequence[str]) -> str:
    """SQL for whether rows `a` and `b` have the same values, nulls included."""
    return " AND ".join(f"a.{quoted(name)} IS NOT DISTINCT FROM b.{quoted(name)}" for name in columns)


def struct_of(table: str, columns: Sequence[str]) -> str:
    """SQL for the columns of a row as one value."""
    return "struct_pack(" + ", ".join(f"{quoted(name)} := {table}.{quoted(name)}" for name in columns) + ")"
