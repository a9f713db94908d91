"""State without an open window ↔ rows of `keyed_state`: a row for each state and namespace, for each entry of
a map.

A state with a declared SQL type has a column of its own; any other is JSON with its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from slackwater.windowing.snapshot.columns import NAMESPACE, UNTYPED_VALUE
from slackwater.windowing.snapshot.layout import ContentsColumns, SnapshotLayout
from slackwater.windowing.snapshot.named_values import dump_value, kind_and_value, with_kind
from slackwater.windowing.snapshot.sql_types import to_column, to_values
from slackwater.windowing.snapshot.times import sort_rows
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import Window

_PARTS: Final = "parts"


class _Row(NamedTuple):
    """A value of an entry, or of one key of a map. `map_key` is JSON; None when the state is no map."""

    entry: StateEntry
    map_key: str | None
    value: Any


def keyed_table(entries: list[StateEntry], layout: SnapshotLayout) -> pa.Table:
    """Rows of `keyed_state`, sorted; the entries of a map as they stand in it.

    Raises:
        SnapshotValueError: a value is not of its state's declared type, or has no JSON form.
    """
    schema = layout.schemas()["keyed_state"]
    if not entries:
        return schema.empty_table()
    rows = [row for entry in entries for row in _rows_of(entry, layout)]
    columns = {
        "key_group": pa.array([row.entry.key_group for row in rows], pa.int32()),
        **layout.keys.arrays([row.entry.key for row in rows]),
        "state_name": pa.array([row.entry.state_name for row in rows], pa.string()),
        **layout.window_columns.arrays((row.entry.namespace for row in rows), NAMESPACE),
        "map_key": pa.array([row.map_key for row in rows], pa.string()),
    }
    typed_columns = layout.value_columns()
    for name, (column, kind) in typed_columns.items():
        columns[column] = to_column(
            [row.value if row.entry.state_name == name else None for row in rows], kind, name
        )
    texts = [None if row.entry.state_name in typed_columns else _text(row, layout) for row in rows]
    columns[UNTYPED_VALUE] = pa.array(texts, pa.string())
    return sort_rows(
        pa.table(columns, schema=schema),
        ["key_group", *layout.keys.names, "state_name", *layout.window_columns.names(NAMESPACE)],
    )


def _rows_of(entry: StateEntry, layout: SnapshotLayout) -> Iterator[_Row]:
    if entry.kind != "map":
        yield _Row(entry, None, entry.value)
        return
    for key, value in entry.value.items():
        yield _Row(entry, layout.json.dumps(key), value)


def _text(row: _Row, layout: SnapshotLayout) -> str:
    return dump_value(
        layout.json, _json_value(row, layout), row.entry.state_name, row.entry.key, row.entry.namespace
    )


def _json_value(row: _Row, layout: SnapshotLayout) -> dict[str, Any]:
    if row.map_key is not None:
        return {"map": row.value}
    contents = _typed_contents(layout, row.entry.state_name)
    if contents is not None and row.entry.namespace is not None:
        return {_PARTS: [array[0].as_py() for array in contents.arrays([row.value])]}
    return with_kind(layout.json, row.entry.kind, row.value)


def _typed_contents(layout: SnapshotLayout, state_name: str) -> ContentsColumns | None:
    """The columns of windows' contents, if that is the state. Contents of a session stand here when Flink has
    lost its mapping to a state window: nobody reads them any more, and nobody deletes them.
    """
    windows = layout.windows
    return None if windows is None or state_name != windows.contents.name else windows.columns


def restore_keyed(rows: pa.Table, layout: SnapshotLayout) -> list[StateEntry]:
    """The inverse of `keyed_table`."""
    if not rows.num_rows:
        return []
    typed_values = {
        name: to_values(rows.column(column)) for name, (column, _) in layout.value_columns().items()
    }
    columns = zip(
        rows.column("key_group").to_pylist(),
        layout.keys.values(rows),
        rows.column("state_name").to_pylist(),
        layout.window_columns.values(rows, NAMESPACE, None),
        rows.column("map_key").to_pylist(),
        rows.column(UNTYPED_VALUE).to_pylist(),
        strict=True,
    )
    read = _reader(layout, typed_values)
    entries: list[StateEntry] = []
    maps: dict[tuple[str, Any, Window | None], dict[Any, Any]] = {}
    for number, (group, key, name, namespace, map_key, text) in enumerate(columns):
        kind, value = read(number, name, map_key is not None, text)
        if map_key is not None:
            map_so_far = maps.get((name, key, namespace))
            if map_so_far is not None:
                map_so_far[layout.json.loads(map_key)] = value
                continue
            value = maps[name, key, namespace] = {layout.json.loads(map_key): value}
        # By position: a snapshot may have millions of entries, and keywords cost half as much again.
        entries.append(StateEntry(name, kind, group, key, namespace, value))
    return entries


def _reader(
    layout: SnapshotLayout, typed_values: dict[str, list[Any]]
) -> Callable[[int, str, bool, str | None], tuple[str, Any]]:
    """Row number, state name, whether it is a map's entry, JSON text → (kind, value)."""
    kinds, loads = layout.kinds(), layout.json.loads

    def read(number: int, name: str, is_map: bool, text: str | None) -> tuple[str, Any]:
        if text is None:
            return kinds[name], typed_values[name][number]
        value = loads(text)
        if is_map:
            return "map", value["map"]
        contents = _typed_contents(layout, name)
        if contents is not None and _PARTS in value:
            return "aggregating", contents.values(_one_row(contents, value[_PARTS]))[0]
        return kind_and_value(value, name)

    return read


def _one_row(contents: ContentsColumns, parts: list[Any]) -> pa.Table:
    schema = pa.schema(list(contents.columns))
    return pa.table(
        [pa.array([part], field.type) for part, field in zip(parts, schema, strict=True)], schema=schema
    )
