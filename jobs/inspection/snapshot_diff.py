"""Compares two snapshots of one pipeline row by row: open windows, pending timers, keyed state and source
progress.

Files in, plain rows out. Knows neither runs nor branches.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.sql import query

TABLES = ("window_state", "timers", "keyed_state", "source_progress")


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
    key: Mapping[str, Any] | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """One row for each row that only one snapshot has, or whose columns differ: the first `most` of them, and
    how many there are.

    Args:
        left_snapshot, right_snapshot: table → its files, for each of `TABLES`.
        keys: the pipeline's key columns.
        windows: the columns of a window: window_start, window_end, and those that its class declares.
        key: only rows of this key: column → value.

    Returns:
        `what` (window, timer, keyed state, progress), the columns of key and window, `name` (the other
        columns that identify the row), `there` (which snapshots have it: left, right or both), and as
        `left` and `right` the columns that differ, or all columns where the other snapshot has no such row.
        In order of table, window and key.
    """
    rows: list[dict[str, Any]] = []
    total = 0
    owner = (*keys, *windows)
    where = None if key is None else _has_key(key)
    for table, what, identity in _identities(keys, windows):
        if key is not None and not key.keys() <= set(identity):
            continue
        in_order = sorted(identity, key=lambda name: name not in windows)
        sides = _without_equal_rows(left_snapshot[table], right_snapshot[table], where)
        differing_rows = _differing_rows(*sides, identity, in_order)
        total += differing_rows.num_rows
        wanted_rows = differing_rows if most is None else differing_rows.slice(0, most - len(rows))
        rows += (
            _difference(what, owner, identity, row["left"], row["right"]) for row in wanted_rows.to_pylist()
        )
    return rows, total


def _has_key(key: Mapping[str, Any]) -> pc.Expression:
    return reduce(and_, (pc.field(name) == pa.scalar(value) for name, value in key.items()))


def _without_equal_rows(
    left: StoredFiles, right: StoredFiles, key: pc.Expression | None
) -> tuple[pa.Table, pa.Table]:
    """The rows of each side, all or of a key, that the other does not have as often; of few key groups at a
    time.
    """
    columns = [name for name in left.schema.names if name != "run_id"]
    empty = pa.schema([left.schema.field(name) for name in columns]).empty_table()
    parts = [(empty, empty)]
    for within in _key_group_ranges(left, right) if key is None else [None]:
        bounds = [] if within is None else [within]
        where = key if within is None else _is_within(within)
        sides = [files.within(*bounds).read(columns, where) for files in (left, right)]
        if any(side.num_rows for side in sides):
            parts.append(_not_in_both(*sides))
    lefts, rights = zip(*parts, strict=True)
    return pa.concat_tables(lefts), pa.concat_tables(rights)


def _key_group_ranges(left: StoredFiles, right: StoredFiles) -> Iterator[Within | None]:
    """The ranges of key groups that files have for themselves; None where the log does not tell them."""
    ends: set[int | None] = set()
    for files in (left, right):
        if files.actions.num_rows:
            names = files.actions.column_names
            has_bounds = "max.key_group" in names
            ends.update(files.actions.column("max.key_group").to_pylist() if has_bounds else [None])
    if None in ends or len(ends) < 2:
        yield None
        return
    first = 0
    for last in sorted(end for end in ends if end is not None):
        yield Within("key_group", first, last)
        first = last + 1


def _is_within(within: Within) -> pc.Expression:
    return (pc.field(within.column) >= within.least) & (pc.field(within.column) <= within.greatest)


def _not_in_both(left_rows: pa.Table, right_rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that only one of two tables has, each as often as it has it more often than the other."""
    names = ", ".join(map(_name, left_rows.column_names))
    sql = f"""
        SELECT {names}, sum(__side)::INT AS __more FROM (
            SELECT *, 1 AS __side FROM snapshot_left UNION ALL SELECT *, -1 FROM snapshot_right
        ) GROUP BY ALL HAVING __more <> 0
    """
    rows = query(sql, snapshot_left=left_rows, snapshot_right=right_rows)
    more = rows.column("__more").to_pylist()
    places = {
        side: [place for place, count in enumerate(more) for _ in range(max(0, side * count))]
        for side in (1, -1)
    }
    rows = rows.drop_columns(["__more"])
    lefts, rights = (rows.take(pa.array(places[side], pa.int64())) for side in (1, -1))
    return lefts.cast(left_rows.schema), rights.cast(right_rows.schema)


def _differing_rows(
    left_rows: pa.Table, right_rows: pa.Table, identity: Sequence[str], in_order: Sequence[str]
) -> pa.Table:
    """Pairs (left, right) of rows of one identity that are not equal, `in_order` of these columns; null for a
    side that has no such row.
    """
    values = [name for name in left_rows.schema.names if name not in identity and name != "key_group"]
    is_same_row = _are_equal([*identity, "__copy"])
    has_equal_values = _are_equal(values) or "true"
    sql = f"""
        WITH a AS ({_number_copies("snapshot_left", identity, values)}),
            b AS ({_number_copies("snapshot_right", identity, values)})
        SELECT CASE WHEN a.__copy IS NOT NULL THEN {_struct("a", [*identity, *values])} END AS "left",
            CASE WHEN b.__copy IS NOT NULL THEN {_struct("b", [*identity, *values])} END AS "right"
        FROM a FULL OUTER JOIN b ON {is_same_row}
        WHERE a.__copy IS NULL OR b.__copy IS NULL OR NOT ({has_equal_values})
        ORDER BY {", ".join(f"coalesce(a.{_name(name)}, b.{_name(name)}) NULLS FIRST" for name in in_order)}
    """
    return query(sql, snapshot_left=left_rows, snapshot_right=right_rows)


def _number_copies(table: str, identity: Sequence[str], values: Sequence[str]) -> str:
    """SQL for the rows of a table, with a number for each of the rows of one identity."""
    order = f"ORDER BY {', '.join(map(_name, values))}" if values else ""
    names = ", ".join(map(_name, identity))
    return f"SELECT *, row_number() OVER (PARTITION BY {names} {order}) AS __copy FROM {table}"


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


def _are_equal(columns: Sequence[str]) -> str:
    """SQL for whether rows `a` and `b` have the same values, nulls included."""
    return " AND ".join(f"a.{_name(name)} IS NOT DISTINCT FROM b.{_name(name)}" for name in columns)


def _struct(table: str, columns: Sequence[str]) -> str:
    return "struct_pack(" + ", ".join(f"{_name(name)} := {table}.{_name(name)}" for name in columns) + ")"


def _name(column: str) -> str:
    return f'"{column}"'
