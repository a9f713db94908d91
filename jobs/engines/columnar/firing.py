"""Firings on whole columns as rows of `panes`, and the error for one that has no result.

Which windows fire is the kernels' business.
"""

from collections.abc import Sequence

import pyarrow as pa

from slackwater.jobs.engines.aggregates import Columns, OverflowAtRow
from slackwater.jobs.engines.columnar.accumulators import AccumulatorColumns
from slackwater.jobs.engines.columnar.families import Setting
from slackwater.jobs.engines.columnar.tables import constant, times, values_of_keys, watermarks
from slackwater.windowing.columnar.arrays.columns import rows_where
from slackwater.windowing.columnar.window_columns import NO_TIME, Firings, PaneKind, rows_of
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window

_LABELS = {
    PaneKind.EARLY: "early",
    PaneKind.ON_TIME: "on_time",
    PaneKind.LATE: "late",
    PaneKind.WITHDRAWN: "withdrawn",
}


def pane_tables(
    blocks: Sequence[Firings], accumulators: AccumulatorColumns, distinct: pa.Table, setting: Setting
) -> list[pa.Table]:
    """One row a firing, kind by kind; a table for each kind in each block of which there are any.

    Raises:
        FailedFiring: a sum has left the range of its type.
    """
    tables = []
    for kind in PaneKind:
        for firings in blocks:
            of_kind = rows_of(firings, rows_where(firings.kinds == kind))
            if len(of_kind.keys):
                tables.append(_pane_table(kind, of_kind, accumulators, distinct, setting))
    return tables


def _pane_table(
    kind: PaneKind,
    firings: Firings,
    accumulators: AccumulatorColumns,
    distinct: pa.Table,
    setting: Setting,
) -> pa.Table:
    rows, shape = len(firings.keys), setting.shape
    if kind is PaneKind.WITHDRAWN:
        results = [pa.nulls(rows, kind_of_result) for _, kind_of_result in shape.results]
    else:
        results = _results(firings, accumulators, setting)
    label = "count" if setting.windows_are_global else _LABELS[kind]
    return pa.table(
        {
            **values_of_keys(distinct, firings.keys),
            "window_start": times(firings.starts),
            "window_end": times(firings.ends),
            "firing": pa.array(firings.firings),
            "ordinal": constant(0, rows, pa.int64()),
            "kind": constant(label, rows, pa.string()),
            **{name: array for (name, _), array in zip(shape.results, results, strict=True)},
            "elements": pa.array(firings.elements),
            "watermark": watermarks(firings.watermarks),
            "tick_end": times(firings.tick_ends),
            "cause_arrival": times(firings.causes),
        }
    )


def _results(firings: Firings, accumulators: AccumulatorColumns, setting: Setting) -> Columns:
    """One array for each result column, a row a firing."""
    results = []
    shown = accumulators.take(firings.contents)
    for name, aggregate, columns in zip(
        setting.pipeline.select, shown.aggregates, shown.columns, strict=True
    ):
        try:
            results.append(aggregate.results(columns))
        except OverflowAtRow as failure:
            key, start, end = (int(column[failure.row]) for column in firings[:3])
            window = GLOBAL_WINDOW if start == NO_TIME else TimeWindow(start, end)
            raise FailedFiring(name, key, window, failure.error) from failure.error
    return results


class FailedFiring(Exception):
    """A firing has no result; the engine knows the key of that number and raises `located`."""

    def __init__(self, result: str, key: int, window: Window, error: Exception) -> None:
        super().__init__(result, key, window, error)
        self.key = key
        self.window = window
        self.error = error

    def located(self, key: object) -> UserCodeError:
        """The error that the operator engine raises for the same firing."""
        return UserCodeError.of(self.error, "firing a window", key, self.window, self.window.max_timestamp())
