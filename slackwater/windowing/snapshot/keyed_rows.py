"""State without an open window ↔ rows of `keyed_state`: a row per state and namespace, per entry of a map,
and per piece of a long list. A declared SQL type has its own column; other values are JSON with their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from slackwater.windowing.snapshot.columns import NAMESPACE, UNTYPED_VALUE
from slackwater.windowing.snapshot.json_values import dump_value, kind_and_value
from slackwater.windowing.snapshot.layout import ContentsColumns, SnapshotLayout
from slackwater.windowing.snapshot.list_pieces import PieceOrder, pieces_of
from slackwater.windowing.snapshot.sql_types import to_column, to_values
from slackwater.windowing.snapshot.times import sort_rows
from slackwater.windowing.snapshot.window_rows import LongList
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

_PARTS: Final = "parts"
_PIECES_AT_ONCE: Final = 8


class _Row(NamedTuple):
    """A value of an entry, of a map's key (`map_key`: the key as JSON) or of a list's piece (its number)."""

    entry: StateEntry
    map_key: str | None
    value: Any


def keyed_table(entries: list[StateEntry], layout: SnapshotLayout) -> pa.Table:
    """Rows of `keyed_state`, sorted; the entries of a map in the map's order. Raises SnapshotValueError for a
    value that is not of its state's declared type, or has no JSON form.
    """
    schema = layout.schemas()["keyed_state"]
    if not entries:
        return schema.empty_table()
    return _table([row for entry in entries for row in _rows_of(entry, layout)], layout)


def piece_tables(long_lists: Iterable[LongList], layout: SnapshotLayout) -> Iterator[pa.Table]:
    """Rows of `keyed_state` for the pieces of long lists, a few at a time."""
    rows = (
        _Row(piece, str(number), piece.value)
        for entry, length in long_lists
        for number, piece in pieces_of(entry, length)
    )
    while rows_at_once := list(islice(rows, _PIECES_AT_ONCE)):
        yield _table(rows_at_once, layout)


def _table(rows: list[_Row], layout: SnapshotLayout) -> pa.Table:
    schema = layout.schemas()["keyed_state"]
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
    """`{kind: value}` as JSON."""
    (name, kind, _, key, namespace, _), value = row.entry, row.value
    if row.map_key is None or kind != "map":
        contents = _typed_contents(layout, name)
        if contents is not None and namespace is not None and kind != "list":
            kind, value = _PARTS, [array[0].as_py() for array in contents.arrays([value])]
    return f'{{"{kind}":{dump_value(layout.json, value, name, key, namespace)}}}'


def _typed_contents(layout: SnapshotLayout, state_name: str) -> ContentsColumns | None:
    """The columns of windows' contents, if that is the state: contents of a session are here when Flink has
    lost its mapping to a state window, so that nobody reads or deletes them any more.
    """
    windows = layout.windows
    return None if windows is None or state_name != windows.contents.name else windows.columns


def restore_keyed(rows: pa.Table, layout: SnapshotLayout, pieces: PieceOrder) -> list[StateEntry]:
    """The inverse of `keyed_table` and `piece_tables`. A long list is several entries; pieces wait for
    earlier ones in `pieces`.
    """
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
        if map_key is not None and kind == "list":
            if namespace is None and layout.windows is not None and name == layout.windows.contents.name:
                namespace = GLOBAL_WINDOW
            entries += pieces.add(int(map_key), StateEntry(name, kind, group, key, namespace, value))
            continue
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
    """Row number, state name, whether it has a `map_key`, JSON text → (kind, value)."""
    kinds, loads = layout.kinds(), layout.json.loads

    def read(number: int, name: str, has_map_key: bool, text: str | None) -> tuple[str, Any]:
        if text is None:
            return kinds[name], typed_values[name][number]
        value = loads(text)
        if has_map_key and "map" in value:
            return "map", value["map"]
        contents = _typed_contents(layout, name)
        if contents is not None and _PARTS in value:
            return "aggregating", contents.values(_one_row(contents, value[_PARTS]))[0]
        kind, value = kind_and_value(value, name)
        if contents is not None and kind == "list":
            value = contents.restored_elements(value)
        return kind, value

    return read


def _one_row(contents: ContentsColumns, parts: list[Any]) -> pa.Table:
    schema = pa.schema(list(contents.columns))
    return pa.table(
        [pa.array([part], field.type) for part, field in zip(parts, schema, strict=True)], schema=schema
    )
