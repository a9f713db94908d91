"""Open windows ↔ rows of `window_state`; what collected windows left behind is in `keyed_state`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from slackwater.windowing.java import hash_order
from slackwater.windowing.own_windows import java_hash
from slackwater.windowing.runtime.merging_windows import MERGING_WINDOW_SET
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.snapshot.columns import STATE_WINDOW
from slackwater.windowing.snapshot.json_values import (
    dump_states,
    dump_value,
    kind_and_value,
    load_states,
    with_kind,
)
from slackwater.windowing.snapshot.layout import SnapshotLayout, WindowLayout
from slackwater.windowing.snapshot.list_pieces import piece_length
from slackwater.windowing.snapshot.times import due_times, sort_rows, times, times_to_ms
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

_ABSENT: Final = object()
_PLACE: Final = "__place"
UNFIRED_ELEMENTS: Final = "elements-not-fired"  # stored among the trigger's states

WindowId = tuple[Any, Window]


@dataclass(slots=True)
class WindowRow:
    """One row before it becomes columns. `state_window` is where a session's contents are kept; `place` is
    its place among the key's sessions as they were persisted, where that order shows; `contents` is _ABSENT
    when there are none; `trigger` and `user` are state name → tagged value.
    """

    key_group: int
    key: Any
    window: Window
    life: WindowLife | None = None
    state_window: Window | None = None
    place: int = 0
    contents: Any = _ABSENT
    trigger: dict[str, dict[str, Any]] = field(default_factory=dict)
    user: dict[str, dict[str, Any]] = field(default_factory=dict)


class LongList(NamedTuple):
    """An entry whose list is stored in pieces of `piece_length` elements."""

    entry: StateEntry
    piece_length: int


def split_entries(
    snapshot: OperatorSnapshot, layout: SnapshotLayout
) -> tuple[list[WindowRow], list[StateEntry], list[LongList]]:
    """(rows of the open windows; state without a window or of a collected window; long lists, whatever they
    belong to). If no log has recorded `snapshot.windows` (None), the open windows are the sessions in flight
    or, when windows do not merge, the windows that have any state. The global window is always open.
    """
    long_lists: list[LongList] = []

    def is_long(entry: StateEntry) -> bool:
        length = piece_length(entry, layout)
        if length is not None:
            long_lists.append(LongList(entry, length))
        return length is not None

    if layout.windows is None:
        return [], [_in_memory(entry) for entry in snapshot.entries if not is_long(entry)], long_lists
    windows, json = layout.windows, layout.json
    rows, rows_by_state_window, entries = _rows_in_flight(snapshot, windows)
    opens_by_state = snapshot.windows is None and not windows.merges
    trigger_states = {state.name for state in windows.trigger.states}
    windowless_entries = []
    for entry, elements in _with_elements(list(entries), windows):
        is_contents = entry.state_name == windows.contents.name
        owner = (entry.key, entry.namespace)
        row = None
        if entry.namespace is not None:
            row = (rows_by_state_window if is_contents else rows).get(owner)
            is_open = opens_by_state or entry.namespace == GLOBAL_WINDOW
            if row is None and is_open and not (is_contents and windows.merges):
                row = rows[owner] = WindowRow(entry.key_group, entry.key, entry.namespace)
        listed_entry = entry if elements is None else entry._replace(kind="list", value=elements)
        # A null namespace is that of the contents of the global window; its other state stays in its row.
        if (is_contents or entry.namespace != GLOBAL_WINDOW) and is_long(listed_entry):
            continue
        if row is None:
            windowless_entries.append(_in_memory(listed_entry))
        elif is_contents:
            row.contents = _in_memory(entry).value
        else:
            states = row.trigger if entry.state_name in trigger_states else row.user
            states[entry.state_name] = with_kind(json, entry.kind, _in_memory(entry).value)
    return list(rows.values()), windowless_entries, long_lists


def _with_elements(
    entries: Sequence[StateEntry], windows: WindowLayout
) -> Iterator[tuple[StateEntry, Sequence[Any] | None]]:
    """Each entry with its elements, if it is contents that stand for a list."""
    name = windows.contents.name
    contents = [entry.value for entry in entries if entry.state_name == name]
    lists = None if windows.columns is None else windows.columns.element_lists(contents)
    elements = repeat(None) if lists is None else iter(lists)
    return ((entry, next(elements) if entry.state_name == name else None) for entry in entries)


def _rows_in_flight(
    snapshot: OperatorSnapshot, windows: WindowLayout
) -> tuple[dict[WindowId, WindowRow], Mapping[WindowId, WindowRow], Iterable[StateEntry]]:
    """(rows of recorded windows and sessions in flight, these by state window, the other entries)."""
    rows = {
        (window.key, window.window): WindowRow(window.key_group, window.key, window.window, window.life)
        for window in snapshot.windows or ()
    }
    if not windows.merges:
        return rows, rows, snapshot.entries
    sessions = [entry for entry in snapshot.entries if _holds_sessions(entry)]
    others = [entry for entry in snapshot.entries if not _holds_sessions(entry)]
    return rows, _add_sessions(sessions, rows), others


def _in_memory(entry: StateEntry) -> StateEntry:
    """The entry with its list read into memory; a list of one piece fits."""
    if entry.kind == "list" and type(entry.value) is not list:
        return entry._replace(value=list(entry.value))
    return entry


def _holds_sessions(entry: StateEntry) -> bool:
    return entry.state_name == MERGING_WINDOW_SET.name and entry.namespace is None


def _add_sessions(
    sessions: Iterable[StateEntry], rows: dict[WindowId, WindowRow]
) -> dict[WindowId, WindowRow]:
    """Add the sessions in flight to `rows`. Returns (key, state window) → the row of its session."""
    rows_by_state_window: dict[WindowId, WindowRow] = {}
    for entry in sessions:
        is_ordered = _has_shared_bucket([window for window, _ in entry.value])
        for place, (window, state_window) in enumerate(entry.value):
            row = rows.get((entry.key, window))
            if row is None:
                row = rows[entry.key, window] = WindowRow(entry.key_group, entry.key, window)
            row.state_window = state_window
            row.place = place if is_ordered else 0
            rows_by_state_window[entry.key, state_window] = row
    return rows_by_state_window


def _has_shared_bucket(windows: list[Window]) -> bool:
    """Whether the windows' HashMap shows the order in which they were persisted: MergingWindowSet's
    constructor inserts them in the list's order, which windows that share a bucket keep.
    """
    forwards, backwards = (hash_order(order, java_hash) for order in (windows, reversed(windows)))
    return forwards != backwards


def window_table(
    rows: list[WindowRow], layout: SnapshotLayout, next_firing: Mapping[WindowId, int]
) -> pa.Table:
    """Rows of `window_state`, sorted by key, place and window, with each window's next firing, if any."""
    schema = layout.schemas()["window_state"]
    if layout.windows is None or not rows:
        return schema.empty_table()
    windows, lives = layout.windows, [row.life for row in rows]
    cleanup_time = cache(windows.cleanup_time)
    state_windows = (row.state_window if windows.keeps_state_windows else None for row in rows)
    columns = {
        "key_group": pa.array([row.key_group for row in rows], pa.int32()),
        **layout.keys.arrays([row.key for row in rows]),
        **layout.window_columns.arrays(row.window for row in rows),
        **layout.window_columns.arrays(state_windows, STATE_WINDOW),
        "elements": pa.array([None if life is None else life.elements for life in lives], pa.int64()),
        "firings": pa.array([None if life is None else life.firings for life in lives], pa.int64()),
        "last_fired_at": times(
            [None if life is None else life.last_fired_at for life in lives], "last_fired_at"
        ),
        "next_firing": times([next_firing.get((row.key, row.window)) for row in rows], "next_firing"),
        "cleanup_time": due_times([cleanup_time(row.window) for row in rows], "cleanup_time"),
        "first_arrival": times(
            [None if life is None else life.first_arrival for life in lives], "first_arrival"
        ),
        "last_arrival": times(
            [None if life is None else life.last_arrival for life in lives], "last_arrival"
        ),
        **_contents_columns(rows, windows, layout),
        **state_columns(rows, layout),
    }
    table = pa.table(columns, schema=schema).append_column(_PLACE, pa.array([row.place for row in rows]))
    order = ["key_group", *layout.keys.names, _PLACE, *layout.window_columns.names()]
    return sort_rows(table, order).drop_columns(_PLACE)


def state_columns(rows: Iterable[WindowRow], layout: SnapshotLayout) -> dict[str, pa.Array]:
    """The columns with the state of triggers and functions, a value for each row."""
    assert layout.windows is not None
    fires_before_cleanup = layout.windows.fires_before_cleanup
    texts = [
        (
            dump_states(layout.json, _trigger_state(row, fires_before_cleanup), row.key, row.window),
            dump_states(layout.json, row.user, row.key, row.window),
        )
        for row in rows
    ]
    return {
        "trigger_state": pa.array([trigger for trigger, _ in texts], pa.string()),
        "user_state": pa.array([user for _, user in texts], pa.string()),
    }


def _contents_columns(
    rows: list[WindowRow], windows: WindowLayout, layout: SnapshotLayout
) -> dict[str, pa.Array]:
    if windows.columns is None:
        name = windows.contents.name
        texts = [
            None
            if row.contents is _ABSENT
            else dump_value(layout.json, row.contents, name, row.key, row.window)
            for row in rows
        ]
        return {"contents": pa.array(texts, pa.string())}
    contents = [None if row.contents is _ABSENT else row.contents for row in rows]
    arrays = windows.columns.arrays(contents)
    texts = [
        windows.columns.no_contents if row.contents is _ABSENT else text
        for row, text in zip(rows, windows.columns.texts(contents), strict=True)
    ]
    return {
        **{name: array for (name, _), array in zip(windows.columns.columns, arrays, strict=True)},
        "contents": pa.array(texts, pa.string()),
    }


def _trigger_state(row: WindowRow, fires_before_cleanup: bool) -> dict[str, dict[str, Any]]:
    """The trigger's state, and the number of elements in no firing, unless it follows from the counts."""
    life = row.life
    if life is None or fires_before_cleanup or life.unfired_elements == _elements_not_fired(life):
        return row.trigger
    return {
        **row.trigger,
        UNFIRED_ELEMENTS: {"elements": life.unfired_elements, **row.trigger.get(UNFIRED_ELEMENTS, {})},
    }


def _elements_not_fired(life: WindowLife) -> int:
    return 0 if life.firings else life.elements


class _Owners(NamedTuple):
    key_groups: list[int]
    keys: list[Any]
    windows: list[Window]


def restore_windows(rows: pa.Table, layout: SnapshotLayout) -> tuple[list[OpenWindow], list[StateEntry]]:
    """The inverse of `split_entries` and `window_table`: windows with their history, and their state."""
    if layout.windows is None or not rows.num_rows:
        return [], []
    owners = _Owners(
        rows.column("key_group").to_pylist(), layout.keys.values(rows), layout.window_columns.values(rows)
    )
    lives, state_windows, entries = _lives(rows), owners.windows, []
    if layout.windows.merges:
        if layout.windows.keeps_state_windows:
            state_windows = layout.window_columns.values(rows, STATE_WINDOW, None)
        entries += _session_entries(owners, state_windows)
    entries += _contents_entries(rows, owners, state_windows, layout)
    for column in ("trigger_state", "user_state"):
        states_of_rows = [load_states(layout.json, text) for text in rows.column(column).to_pylist()]
        _move_unfired_elements(states_of_rows, lives)
        entries += _state_entries(states_of_rows, owners)
    open_windows = [
        OpenWindow(key_group, key, window, life)
        for key_group, key, window, life in zip(*owners, lives, strict=True)
        if life is not None
    ]
    return open_windows, entries


def _lives(rows: pa.Table) -> list[WindowLife | None]:
    columns = zip(
        rows.column("elements").to_pylist(),
        rows.column("firings").to_pylist(),
        *(times_to_ms(rows.column(name)) for name in ("last_fired_at", "first_arrival", "last_arrival")),
        strict=True,
    )
    # By position: a snapshot may have millions of windows, and keywords cost half as much again.
    return [
        None
        if elements is None
        else WindowLife(elements, firings, 0 if firings else elements, fired_at, first, last)
        for elements, firings, fired_at, first, last in columns
    ]


def _session_entries(owners: _Owners, state_windows: list[Any]) -> list[StateEntry]:
    """The merging window set of each key: its windows in flight with their state windows."""
    sessions: dict[Any, list[tuple[Window, Window]]] = {}
    key_groups: dict[Any, int] = {}
    for key_group, key, window, state_window in zip(*owners, state_windows, strict=True):
        key_groups[key] = key_group
        if state_window is not None:
            sessions.setdefault(key, []).append((window, state_window))
    return [
        StateEntry(
            state_name=MERGING_WINDOW_SET.name,
            kind=MERGING_WINDOW_SET.kind,
            key_group=key_groups[key],
            key=key,
            namespace=None,
            value=pairs,
        )
        for key, pairs in sessions.items()
    ]


def _contents_entries(
    rows: pa.Table, owners: _Owners, state_windows: list[Any], layout: SnapshotLayout
) -> list[StateEntry]:
    assert layout.windows is not None
    contents, columns = layout.windows.contents, layout.windows.columns
    texts: list[str | None] = rows.column("contents").to_pylist()
    values: list[Any] = []
    if columns is None:
        numbers = [number for number, text in enumerate(texts) if text is not None]
        values = [layout.json.loads(texts[number] or "") for number in numbers]
    else:
        numbers = [number for number, text in enumerate(texts) if text != columns.no_contents]
        if numbers:
            values = columns.values(rows if len(numbers) == len(texts) else rows.take(numbers))
    name, kind, key_groups, keys = contents.name, contents.kind, owners.key_groups, owners.keys
    # By position, as above.
    return [
        StateEntry(name, kind, key_groups[number], keys[number], state_windows[number], value)
        for number, value in zip(numbers, values, strict=True)
    ]


def _move_unfired_elements(
    states_of_rows: list[dict[str, dict[str, Any]]], lives: list[WindowLife | None]
) -> None:
    """Move the numbers of unfired elements, which `_trigger_state` put among the states, into the lives."""
    for states, life in zip(states_of_rows, lives, strict=True):
        elements = states.get(UNFIRED_ELEMENTS, {}).pop("elements", None)
        if elements is not None and life is not None:
            life.unfired_elements = elements


def _state_entries(states_of_rows: list[dict[str, dict[str, Any]]], owners: _Owners) -> Iterator[StateEntry]:
    for key_group, key, window, states in zip(*owners, states_of_rows, strict=True):
        for name, value_by_kind in states.items():
            if value_by_kind:
                kind, value = kind_and_value(value_by_kind, name)
                yield StateEntry(
                    state_name=name,
                    kind=kind,
                    key_group=key_group,
                    key=key,
                    namespace=window,
                    value=value,
                )
