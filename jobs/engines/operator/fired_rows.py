"""Rows of `panes` and `late_events` from what a window log has noted.

Columns only: what fired, and why, is the log's.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from jobs.engines.keys import Keys
from jobs.engines.python_values import to_arrow
from jobs.engines.rows import ARRIVAL, EVENT, KEY_GROUP
from jobs.tables.schemas import Shape
from windowing.java import LONG_MAX, LONG_MIN
from windowing.runtime.window_log import LateElement, Pane
from windowing.state.snapshot import bounds, times


def pane_rows(panes: Sequence[Pane], keys: Keys, shape: Shape) -> pa.Table:
    """One row a pane; the result of each is a tuple with one value for each result column, None for a withdrawal."""
    start, end = bounds(pane.window for pane in panes)
    nothing = (None,) * len(shape.results)
    results = list(zip(*(pane.result or nothing for pane in panes), strict=True)) or [()] * len(shape.results)
    return pa.table(
        {
            "key_group": pa.array(keys.groups_of([pane.key for pane in panes]), pa.int32()),
            **dict(keys.arrays([pane.key for pane in panes])),
            "window_start": start,
            "window_end": end,
            "firing": pa.array([pane.firing for pane in panes], pa.int64()),
            "ordinal": pa.array([pane.ordinal for pane in panes], pa.int64()),
            "kind": pa.array([pane.kind for pane in panes], pa.string()),
            **{name: to_arrow(values, kind) for (name, kind), values in zip(shape.results, results, strict=True)},
            "elements": pa.array([pane.elements for pane in panes], pa.int64()),
            "watermark": _watermarks(pane.watermark for pane in panes),
            "tick_end": times([pane.tick_end for pane in panes], "tick_end"),
            "cause_arrival": times([pane.cause_arrival for pane in panes], "cause_arrival"),
        }
    )


def late_rows(late: Sequence[LateElement], elements: pa.Table, shape: Shape, schema: pa.Schema) -> pa.Table:
    """One row a late element, whose value is its position in `elements`: the source's columns and what it missed."""
    rows = elements.take(pa.array([item.value for item in late], pa.int64()))
    kept = {name: rows.column(name) for name, _ in shape.source}
    kept["key_group"] = rows.column(KEY_GROUP)
    kept["event_time"] = times(rows.column(EVENT).to_pylist(), "event_time")
    kept["arrival_time"] = times(rows.column(ARRIVAL).to_pylist(), "arrival_time")
    kept["windows"] = _missed(late)
    kept["late_by_ms"] = pa.array([item.watermark - item.timestamp for item in late], pa.int64())
    kept["watermark"] = _watermarks(item.watermark for item in late)
    return pa.table({field.name: kept[field.name] for field in schema if field.name != "run_id"})


def _missed(late: Sequence[LateElement]) -> pa.Array:
    start, end = bounds(window for item in late for window in item.windows)
    offsets = [0]
    for item in late:
        offsets.append(offsets[-1] + len(item.windows))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.StructArray.from_arrays([start, end], names=["start", "end"]))


def _watermarks(values: Iterable[int]) -> pa.Array:
    """As times; null before the first watermark, and for the final one."""
    return times([None if watermark in (LONG_MIN, LONG_MAX) else watermark for watermark in values], "watermark")
