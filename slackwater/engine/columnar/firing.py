"""Rows of `panes` from the firings of a kernel, and of `late_events` from late elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators, OverflowAtRow
from slackwater.engine.columnar.arrow_columns import constant, times, values_of_keys, watermarks
from slackwater.engine.columnar.families import LateRows, Setting
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.key_numbers import KEY_GROUP
from slackwater.tables.schemas import Shape
from slackwater.windowing.columnar.arrays.columns import rows_where
from slackwater.windowing.columnar.window_columns import NO_TIME, Firings, PaneKind, rows_of
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window

LABELS = {
    PaneKind.EARLY: "early",
    PaneKind.ON_TIME: "on_time",
    PaneKind.LATE: "late",
    PaneKind.WITHDRAWN: "withdrawn",
}


def pane_tables(
    blocks: Sequence[Firings], accumulators: ArrowAccumulators, distinct: pa.Table, setting: Setting
) -> list[pa.Table]:
    """One row for each firing: a table for each kind of pane in each block, ordered by kind. Raises
    FailedFiring where a sum has left the range of its type.
    """
    tables = []
    for kind in PaneKind:
        for firings in blocks:
            firings_of_kind = rows_of(firings, rows_where(firings.kinds == kind))
            if len(firings_of_kind.keys):
                tables.append(_pane_table(kind, firings_of_kind, accumulators, distinct, setting))
    return tables


def _pane_table(
    kind: PaneKind,
    firings: Firings,
    accumulators: ArrowAccumulators,
    distinct: pa.Table,
    setting: Setting,
) -> pa.Table:
    rows, shape = len(firings.keys), setting.shape
    if kind is PaneKind.WITHDRAWN:
        results = [pa.nulls(rows, kind_of_result) for _, kind_of_result in shape.results]
    else:
        results = _results(firings, accumulators)
    label = "count" if setting.windows_are_global else LABELS[kind]
    return pa.table(
        {
            **columns_of_firings(firings, distinct, setting),
            "ordinal": constant(0, rows, pa.int64()),
            "kind": constant(label, rows, pa.string()),
            **{name: array for (name, _), array in zip(shape.results, results, strict=True)},
        }
    )


def columns_of_firings(firings: Firings, distinct: pa.Table, setting: Setting) -> dict[str, Any]:
    """The columns of `panes` without ordinal, kind and results, one row for each firing."""
    no_ticks = np.full(len(firings.keys), NO_TIME)
    return {
        **values_of_keys(distinct, firings.keys),
        "window_start": times(firings.starts),
        "window_end": times(firings.ends),
        "firing": pa.array(firings.firings),
        "elements": pa.array(firings.elements),
        "watermark": watermarks(firings.watermarks),
        "tick_end": times(no_ticks if setting.passes_with_clock else firings.tick_ends),
        "cause_arrival": times(firings.causes),
    }


def _results(firings: Firings, accumulators: ArrowAccumulators) -> list[pa.Array]:
    try:
        return accumulators.take(firings.contents).results()
    except OverflowAtRow as failure:
        key, start, end = (int(column[failure.row]) for column in firings[:3])
        window = GLOBAL_WINDOW if start == NO_TIME else TimeWindow(start, end)
        raise FailedFiring(key, window, failure.error) from failure.error


def late_table(
    late: LateRows, rows: pa.Table, key_groups: pa.Array, schema: pa.Schema, shape: Shape
) -> pa.Table:
    """Rows of `late_events` without run_id; `rows` and `key_groups` match `late.positions`."""
    events = rows.column(EVENT).to_numpy()
    columns = {name: rows.column(name) for name, _ in (*shape.source, *shape.keys)}
    columns[KEY_GROUP] = key_groups
    columns["event_time"] = times(events)
    columns["arrival_time"] = times(rows.column(ARRIVAL).to_numpy())
    offsets = np.zeros(len(events) + 1, np.int32)
    np.cumsum(np.bincount(late.owners, minlength=len(events)), out=offsets[1:])
    missed_windows = pa.StructArray.from_arrays(
        [times(late.starts), times(late.ends)], names=["start", "end"]
    )
    columns["windows"] = pa.ListArray.from_arrays(pa.array(offsets), missed_windows)
    columns["late_by_ms"] = pa.array(late.watermarks - events)
    columns["watermark"] = watermarks(late.watermarks)
    return pa.table({field.name: columns[field.name] for field in schema if field.name != "run_id"})


class FailedFiring(Exception):
    """A firing has no result; the engine, which knows the key of its number, raises `error_of_key`."""

    def __init__(self, key: int, window: Window, error: Exception) -> None:
        super().__init__(key, window, error)
        self.key = key
        self.window = window
        self.error = error

    def error_of_key(self, key: object) -> UserCodeError:
        return UserCodeError.of(self.error, "firing a window", key, self.window, self.window.max_timestamp())
