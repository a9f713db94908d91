"""`late_refires`: which of a window's firings for late elements become panes. All of them, or only the last
one in each tick or in the run:

    ticks                 |     1      |   2   |
    firings, in order     0    1    2       3        0 is on time
    late_refires element  0    1    2       3
                 tick     0         2       3
                 run      0                 3

Both engines end with this. What is published is the same in each case, firing numbers included.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines import Pipeline
from slackwater.pipelines.window_columns import identifying_columns
from slackwater.tables.arrow_values import is_text
from slackwater.tables.schemas import TIME


def drop_replaced_refires(panes: pa.Table, pipeline: Pipeline) -> pa.Table:
    """`panes`, of one key-group range and run, without the late firings that a later firing of the window, or
    its withdrawal, replaces in the same tick or run, as `late_refires` says.
    """
    if pipeline.late_refires == "element":
        return panes
    is_late = is_text(panes.column("kind"), "late")
    refire_rows = np.flatnonzero(pc.or_(is_late, is_text(panes.column("kind"), "withdrawn")))
    rows = panes.take(pa.array(refire_rows))
    window_columns = [*pipeline.keys, *identifying_columns(pipeline)]
    if pipeline.late_refires == "tick":
        rows = rows.append_column("__tick", pa.array(_ticks(rows, pipeline.watermarks.interval_ms)))
        window_columns.append("__tick")
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*window_columns, "firing")])
    firings = rows.column("firing").to_numpy()[order]
    last = np.flatnonzero(_ends(rows.select(window_columns).take(order), window_columns))
    newest = np.repeat(firings[last], np.diff(last, prepend=-1))
    replaced_rows = refire_rows[order.to_numpy()[firings < newest]]
    keep = np.ones(panes.num_rows, np.bool_)
    keep[replaced_rows] = False
    return panes.filter(pa.array(keep))


def _ticks(rows: pa.Table, interval_ms: int) -> npt.NDArray[np.int64]:
    """The tick of the cause of each firing: an element that arrived in it, or the watermark at its end."""
    by_element = rows.column("cause_arrival").cast(pa.int64())
    by_watermark = pc.subtract(rows.column("tick_end").cast(TIME).cast(pa.int64()), 1)
    moments = pc.coalesce(by_element, by_watermark).to_numpy()
    return np.asarray(np.floor_divide(moments, interval_ms * 1000))


def _ends(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    ends = np.zeros(rows.num_rows, np.bool_)
    ends[-1:] = True
    for name in names:
        column = rows.column(name)
        ends[:-1] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))))
    return ends
