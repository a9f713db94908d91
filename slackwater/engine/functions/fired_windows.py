"""The windows of one range after its slice: which fire, with which elements, in the order of the calls, and
the rows of `panes` that their firings leave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.calls.element_texts import ElementColumns
from slackwater.engine.calls.function_calls import Call, ResultRows
from slackwater.engine.columnar.families import Setting
from slackwater.engine.columnar.firing import LABELS, columns_of_firings
from slackwater.engine.columnar.fixed import Verdict
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceResult
from slackwater.windowing.columnar.window_columns import NO_TIME, Firings, OpenWindows, PaneKind, rows_of
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window


@dataclass
class FiredWindows:
    """The firings of a slice, in the order of the calls, with the `lists` of their elements in `columns`."""

    slice_result: SliceResult[ElementLists]
    firings: Firings
    lists: ElementLists
    columns: ElementColumns
    verdict: Verdict
    windows_at_start: OpenWindows


def windows_of(columns: Firings | OpenWindows) -> Iterator[Window]:
    """The window of each row."""
    for start, end in zip(columns.starts.tolist(), columns.ends.tolist(), strict=True):
        yield GLOBAL_WINDOW if start == NO_TIME else TimeWindow(start, end)


def calls_of(firings: Firings, keys: Sequence[Any]) -> Iterator[Call]:
    """The call of each firing; `keys` has the key of each key number."""
    clocks: Longs = np.where(firings.causes == NO_TIME, firings.tick_ends, firings.causes)
    columns = (firings.firings, firings.watermarks, clocks)
    owners = zip(firings.keys.tolist(), windows_of(firings), strict=True)
    for (number, window), *facts in zip(owners, *(column.tolist() for column in columns), strict=True):
        yield Call(keys[number], window, *facts)


def in_order_of_calls(firings: Firings, lists: ElementLists) -> tuple[Firings, ElementLists]:
    """The firings in the order of their calls, and the elements of each: for each key the operator's order,
    in which a watermark fires windows by their ends, and late elements fire theirs as they come. Where an
    element is the cause of a firing, the firing's list ends with it.
    """
    lists_of_firings = lists.take(firings.contents)
    by_element = firings.causes != NO_TIME
    newest = firings.ends.copy()
    newest[by_element] = lists_of_firings.numbers[lists_of_firings.ends[by_element] - 1]
    # Of the windows that one element fires, the last to start is fired first, of those the first to end.
    order = np.lexsort(
        (
            firings.firings,
            firings.keys,
            np.where(by_element, firings.ends, 0),
            np.where(by_element, -firings.starts, 0),
            newest,
            by_element,
            firings.watermarks,
        )
    )
    return rows_of(firings, order), lists_of_firings.take(order)


def pane_table(
    firings: Firings,
    result_rows: ResultRows,
    results: Sequence[pa.Array],
    *,
    distinct: pa.Table,
    setting: Setting,
) -> pa.Table:
    """A row for each emitted row, and for each firing that withdraws the rows of the one before because it
    has none. `distinct` has the key group and key of each key number.
    """
    places, empty = np.array(result_rows.firings, np.int64), np.array(result_rows.empty_firings, np.int64)
    if setting.purges or setting.windows_are_global:
        empty = empty[:0]
    withdrawn = empty[firings.firings[empty] > 1]
    kinds = np.append(firings.kinds[places], np.full(len(withdrawn), PaneKind.WITHDRAWN))
    is_global = setting.windows_are_global
    labels = pa.array(["count" if is_global else LABELS[kind] for kind in PaneKind])
    ordinals = np.append(np.array(result_rows.ordinals, np.int64), np.zeros(len(withdrawn), np.int64))
    columns = {
        **columns_of_firings(rows_of(firings, np.append(places, withdrawn)), distinct, setting),
        "ordinal": pa.array(ordinals),
        "kind": labels.take(pa.array(kinds)),
    }
    for (name, kind), array in zip(setting.shape.results, results, strict=True):
        columns[name] = pa.concat_arrays([array.cast(kind), pa.nulls(len(withdrawn), kind)])
    return drop_replaced_refires(pa.table(columns), setting.pipeline)
