"""Where two snapshots of one pipeline differ: open windows, pending timers, keyed state and source progress,
row by row.

Arrow tables in, plain rows out. Knows neither runs nor branches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from slackwater.jobs.tables.sql import query

_WINDOW = ("window_start", "window_end")
# Snapshot table -> what its rows are called, whether they have the pipeline's key, and the other columns that
# name a row.
_NAMED_BY: Mapping[str, tuple[str, bool, tuple[str, ...]]] = {
    "window_state": ("window", True, _WINDOW),
    "timers": ("timer", True, (*_WINDOW, "service", "domain", "time")),
    "keyed_state": ("keyed state", True, ("state_name", "namespace_start", "namespace_end", "map_key")),
    "source_progress": ("progress", False, ("source_partition",)),
}
TABLES = tuple(_NAMED_BY)


def differences(
    left: Mapping[str, pa.Table], right: Mapping[str, pa.Table], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """One row for each row that only one snapshot has, or whose columns differ.

    Args:
        left, right: table -> rows, for each of `TABLES`, without run_id.
        keys: the pipeline's key columns.

    Returns:
        what (window, timer, keyed state, progress), the key columns, window_start, window_end, `name` (what
        else names the row), `there`
        (left, right or both), and as `left` and `right` the columns that differ, or all where the other side
        has no such row. By table,
        window and key.
    """
    found = []
    for table, (what, has_key, others) in _NAMED_BY.items():
        named = [*(keys if has_key else ()), *others]
        for sides in _differing(left[table], right[table], named):
            found.append(_difference(what, keys, named, *sides))
    return found


def _differing(
    left: pa.Table, right: pa.Table, named: Sequence[str]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Pairs of rows of one name that are not equal; None for a side that has none."""
    values = [name for name in left.schema.names if name not in named and name != "key_group"]
    same = " AND ".join(
        f"a.{_name(name)} IS NOT DISTINCT FROM b.{_name(name)}" for name in [*named, "__copy"]
    )
    equal = " AND ".join(f"a.{_name(name)} IS NOT DISTINCT FROM b.{_name(name)}" for name in values)
    first = sorted(named, key=lambda name: name not in _WINDOW)
    sql = f"""
        WITH a AS ({_numbered("snapshot_left", named, values)}),
            b AS ({_numbered("snapshot_right", named, values)})
        SELECT CASE WHEN a.__copy IS NOT NULL THEN {_struct("a", [*named, *values])} END AS "left",
            CASE WHEN b.__copy IS NOT NULL THEN {_struct("b", [*named, *values])} END AS "right"
        FROM a FULL OUTER JOIN b ON {same}
        WHERE a.__copy IS NULL OR b.__copy IS NULL OR NOT ({equal or "true"})
        ORDER BY {", ".join(f"coalesce(a.{_name(name)}, b.{_name(name)}) NULLS FIRST" for name in first)}
    """
    return [
        (row["left"], row["right"])
        for row in query(sql, snapshot_left=left, snapshot_right=right).to_pylist()
    ]


def _numbered(table: str, named: Sequence[str], values: Sequence[str]) -> str:
    """SQL for the rows of a table, those of one name counted."""
    order = f"ORDER BY {', '.join(map(_name, values))}" if values else ""
    names = ", ".join(map(_name, named))
    return f"SELECT *, row_number() OVER (PARTITION BY {names} {order}) AS __copy FROM {table}"


def _difference(
    what: str,
    keys: Sequence[str],
    named: Sequence[str],
    left: dict[str, Any] | None,
    right: dict[str, Any] | None,
) -> dict[str, Any]:
    known = left or right or {}
    rest = {
        name: known[name]
        for name in named
        if name not in keys and name not in _WINDOW and known[name] is not None
    }
    values = [name for name in known if name not in named]
    if left is not None and right is not None:
        values = [name for name in values if left[name] != right[name]]
    return {
        "what": what,
        **{name: known.get(name) if name in named else None for name in (*keys, *_WINDOW)},
        "name": rest or None,
        "there": "right" if left is None else "left" if right is None else "both",
        "left": None if left is None else {name: left[name] for name in values},
        "right": None if right is None else {name: right[name] for name in values},
    }


def _struct(table: str, columns: Sequence[str]) -> str:
    return "struct_pack(" + ", ".join(f"{_name(name)} := {table}.{_name(name)}" for name in columns) + ")"


def _name(column: str) -> str:
    return f'"{column}"'
