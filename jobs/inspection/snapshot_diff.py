"""Compares two snapshots of one pipeline row by row: open windows, pending timers, keyed state and source
progress.

Arrow tables in, plain rows out. Knows neither runs nor branches.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

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
    left_snapshot: Mapping[str, pa.Table],
    right_snapshot: Mapping[str, pa.Table],
    keys: Sequence[str],
    windows: Sequence[str],
) -> list[dict[str, Any]]:
    """One row for each row that only one snapshot has, or whose columns differ.

    Args:
        left_snapshot, right_snapshot: table → rows, for each of `TABLES`, without run_id.
        keys: the pipeline's key columns.
        windows: the columns of a window: window_start, window_end, and those that its class declares.

    Returns:
        `what` (window, timer, keyed state, progress), the columns of key and window, `name` (the other
        columns that identify the row), `there` (which snapshots have it: left, right or both), and as
        `left` and `right` the columns that differ, or all columns where the other snapshot has no such row.
        In order of table, window and key.
    """
    rows = []
    owner = (*keys, *windows)
    for table, what, identity in _identities(keys, windows):
        in_order = sorted(identity, key=lambda name: name not in windows)
        for left_row, right_row in _differing_rows(
            left_snapshot[table], right_snapshot[table], identity, in_order
        ):
            rows.append(_difference(what, owner, identity, left_row, right_row))
    return rows


def _differing_rows(
    left_rows: pa.Table, right_rows: pa.Table, identity: Sequence[str], in_order: Sequence[str]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Pairs of rows of one identity that are not equal, `in_order` of these columns; None for a side that has
    no such row.
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
    return [
        (row["left"], row["right"])
        for row in query(sql, snapshot_left=left_rows, snapshot_right=right_rows).to_pylist()
    ]


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
