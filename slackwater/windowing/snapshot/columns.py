"""The columns of the snapshot's tables, in order, for the codec and for everything that stores its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from slackwater.windowing.snapshot.times import TIME

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
