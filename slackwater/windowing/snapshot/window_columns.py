"""Windows as columns and back: their bounds, and the declared columns of a user's own class of windows.

    prefix          time windows                         beside them, of a class with `tier string`
    window          window_start, window_end             tier
    state_window    state_window_start, state_window_end state_window_tier
    namespace       namespace_start, namespace_end       namespace_tier

All null is no window or the global one, whichever a column can hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.own_windows import END, START, OwnWindowClass
from slackwater.windowing.snapshot.columns import WINDOW, Columns, column_of_window
from slackwater.windowing.snapshot.errors import SnapshotValueError
from slackwater.windowing.snapshot.key_columns import column_type
from slackwater.windowing.snapshot.times import times, times_to_ms
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow, Window

_NO_WINDOW: Final = object()


@dataclass(frozen=True)
class WindowColumns:
    """The columns of one operator's windows; `own_class` is None for time windows and the global window."""

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
    starts: list[int | None] = []
    ends: list[int | None] = []
    for window in windows:
        if type(window) is TimeWindow:
            starts.append(window[0])
            ends.append(window[1])
        elif window is None or isinstance(window, GlobalWindow):
            starts.append(None)
            ends.append(None)
        else:
            raise SnapshotValueError(
                f"Snapshots hold time windows and the global window, got {window!r}; let the assigner's "
                "window_type be its class, which declares its columns.",
                type_name=type(window).__name__,
            )
    return times(starts, "window_start"), times(ends, "window_end")


def _windows_of(rows: pa.Table, prefix: str, without_bounds: Window | None) -> list[Any]:
    starts, ends = (times_to_ms(rows.column(f"{prefix}_{side}")) for side in ("start", "end"))
    return [
        without_bounds if start is None or end is None else TimeWindow(start, end)
        for start, end in zip(starts, ends, strict=True)
    ]
