"""The columns of the snapshot's tables, in order, for the codec and for everything that stores its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

import pyarrow as pa

from slackwater.windowing.errors import SnapshotValueError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.key_types import KeyType, TupleKey
from slackwater.windowing.own_windows import END, START, OwnWindowClass
from slackwater.windowing.snapshot.times import TIME, times, times_to_ms
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow, Window

LONG, INT, TEXT = pa.int64(), pa.int32(), pa.string()
UNTYPED_VALUE: Final = "value_json"
WINDOW, STATE_WINDOW, NAMESPACE = "window", "state_window", "namespace"  # prefixes of windows' columns

Columns = tuple[tuple[str, pa.DataType], ...]


def snapshot_columns(
    keys: Columns, contents: Columns, states: Columns, windows: Columns = ()
) -> Mapping[str, Columns]:
    """Table name → its columns, without those that name a run: `contents` are typed columns for the contents
    of windows, `states` for declared states, and `windows` the columns that a user's class of windows
    declares.
    """
    key: Columns = (("key_group", INT), *keys)
    return {
        "window_state": (
            *key,
            *_span(WINDOW, windows),
            *_span(STATE_WINDOW, windows),
            ("elements", LONG),
            ("firings", LONG),
            ("last_fired_at", TIME),
            ("next_firing", TIME),
            ("cleanup_time", TIME),
            ("first_arrival", TIME),
            ("last_arrival", TIME),
            *contents,
            ("contents", TEXT),
            ("trigger_state", TEXT),
            ("user_state", TEXT),
        ),
        "keyed_state": (
            *key,
            ("state_name", TEXT),
            *_span(NAMESPACE, windows),
            ("map_key", TEXT),
            *states,
            (UNTYPED_VALUE, TEXT),
        ),
        "timers": (
            *key,
            *_span(WINDOW, windows),
            ("service", TEXT),
            ("domain", TEXT),
            ("time", TIME),
            ("purpose", TEXT),
        ),
    }


def column_of_window(prefix: str, name: str) -> str:
    """The column for a window's declared column, prefixed unless the window is the row's own."""
    return name if prefix == WINDOW else f"{prefix}_{name}"


def _span(prefix: str, windows: Columns) -> Columns:
    return (
        (f"{prefix}_start", TIME),
        (f"{prefix}_end", TIME),
        *((column_of_window(prefix, name), kind) for name, kind in windows),
    )


_COLUMN_TYPES: Final = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "date": pa.date32(),
}


def column_type(key_type: KeyType) -> pa.DataType:
    return _COLUMN_TYPES[key_type.name]


@dataclass(frozen=True)
class KeyColumns:
    """Names and types of the key columns; `is_tuple`: a key is a tuple of their values, else one value."""

    columns: tuple[tuple[str, pa.DataType], ...]
    is_tuple: bool

    @classmethod
    def of(cls, columns: Sequence[tuple[str, pa.DataType]]) -> KeyColumns:
        """Columns with their own names: several are a tuple, none the byte 0 of windows of all elements."""
        return cls(tuple(columns), len(columns) > 1)

    @classmethod
    def for_key_type(cls, key_type: KeyType) -> KeyColumns:
        """`key` for a plain key, `f0`, `f1` … for the fields of a Flink tuple."""
        if isinstance(key_type, TupleKey):
            return cls(
                tuple((f"f{number}", column_type(field)) for number, field in enumerate(key_type.fields)),
                True,
            )
        return cls((("key", column_type(key_type)),), False)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def arrays(self, keys: Sequence[Any]) -> dict[str, pa.Array]:
        """One array per name. Raises SnapshotValueError for keys of other types."""
        if not self.columns:
            return {}
        fields = (list(zip(*keys, strict=True)) or [()] * len(self.columns)) if self.is_tuple else [keys]
        try:
            return {
                name: pa.array(values, kind)
                for (name, kind), values in zip(self.columns, fields, strict=True)
            }
        except (pa.ArrowException, UnicodeError) as error:
            raise SnapshotValueError(
                f"Keys do not fit the columns {', '.join(self.names)}: {error}"
            ) from error

    def values(self, rows: pa.Table) -> list[Any]:
        """The key of each row; equal keys of several columns are one object."""
        if not self.columns:
            return [0] * rows.num_rows
        columns = [rows.column(name).to_pylist() for name in self.names]
        if not self.is_tuple:
            return list(columns[0])
        key_objects: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        return [key_objects.setdefault(key, key) for key in zip(*columns, strict=True)]


_NO_WINDOW: Final = object()


@dataclass(frozen=True)
class WindowColumns:
    """The columns of one operator's windows; `own_class` is None for time windows and the global window.

    prefix          time windows                         beside them, of a class with `tier string`
    window          window_start, window_end             tier
    state_window    state_window_start, state_window_end state_window_tier
    namespace       namespace_start, namespace_end       namespace_tier

    All null is no window or the global one, whichever a column can hold.
    """

    own_class: OwnWindowClass | None = None

    @property
    def own_columns(self) -> Columns:
        return (
            ()
            if self.own_class is None
            else tuple((field.name, column_type(field.type)) for field in self.own_class.columns)
        )

    def names(self, prefix: str = WINDOW) -> list[str]:
        return [
            f"{prefix}_start",
            f"{prefix}_end",
            *(column_of_window(prefix, name) for name, _ in self.own_columns),
        ]

    def arrays(self, windows: Iterable[Window | None], prefix: str = WINDOW) -> dict[str, pa.Array]:
        """The columns of `windows`. Raises SnapshotValueError for a window that they cannot hold."""
        if self.own_class is None:
            return dict(zip(self.names(prefix), _bounds(windows), strict=True))
        windows = list(windows)
        starts = [
            window.start if window is not None and self.own_class.has_start else None for window in windows
        ]
        columns = {f"{prefix}_start": times(starts, f"{prefix}_start")}
        ends = [None if window is None else _end(window) for window in windows]
        columns[f"{prefix}_end"] = times(ends, f"{prefix}_end")
        for name, kind in self.own_columns:
            values = [None if window is None else getattr(window, name) for window in windows]
            columns[column_of_window(prefix, name)] = pa.array(values, kind)
        return columns

    def values(
        self, rows: pa.Table, prefix: str = WINDOW, without_bounds: Window | None = GLOBAL_WINDOW
    ) -> list[Any]:
        """The inverse of `arrays`; all null is `without_bounds`. Equal windows of a user's are one object."""
        if self.own_class is None:
            return _windows_of(rows, prefix, without_bounds)
        columns = [
            times_to_ms(rows.column(f"{prefix}_{name}"))
            if name in (START, END)
            else rows.column(column_of_window(prefix, name)).to_pylist()
            for name, _ in self.own_class.fields
        ]
        make = self.own_class.window_class
        windows: dict[tuple[Any, ...], Any] = {(None,) * len(columns): without_bounds}
        restored_windows = []
        for values in zip(*columns, strict=True):
            window = windows.get(values, _NO_WINDOW)
            if window is _NO_WINDOW:
                window = windows[values] = make(*values)
            restored_windows.append(window)
        return restored_windows


def _end(window: Window) -> int | None:
    """The end of a user's window; None when it never ends."""
    last_instant = int(window.max_timestamp())
    return None if last_instant == LONG_MAX else last_instant + 1


def _bounds(windows: Iterable[Window | None]) -> tuple[pa.Array, pa.Array]:
    """Starts and ends of windows; both null for the global window and for none."""
    windows = list(windows)
    kinds = set(map(type, windows))
    for kind in kinds:
        if kind is not TimeWindow and not issubclass(kind, GlobalWindow | NoneType):
            window = next(window for window in windows if type(window) is kind)
            raise SnapshotValueError(
                f"Snapshots hold time windows and the global window, got {window!r}; let the assigner's "
                "window_type be its class, which declares its columns.",
                type_name=kind.__name__,
            )
    if kinds != {TimeWindow}:
        windows = [window if type(window) is TimeWindow else (None, None) for window in windows]
    starts, ends = zip(*windows, strict=True) if windows else ((), ())
    return times(starts, "window_start"), times(ends, "window_end")


def _windows_of(rows: pa.Table, prefix: str, without_bounds: Window | None) -> list[Any]:
    starts, ends = (times_to_ms(rows.column(f"{prefix}_{side}")) for side in ("start", "end"))
    return [
        without_bounds if start is None or end is None else TimeWindow(start, end)
        for start, end in zip(starts, ends, strict=True)
    ]
