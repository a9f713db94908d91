"""Which of a window's firings for late elements are kept as panes: all, or the last one in each tick or in
the run.

Every engine ends with this; what is published of the panes is the same, firing numbers included.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.tables.schemas import TIME

_WINDOW = ("window_start", "window_end")


def drop_replaced_refires(panes: pa.Table, pipeline: Pipeline) -> pa.Table:
    """`panes` of one key-group range and run without the late firings that a later one of the same window, or
    its withdrawal, replaces in the same tick or run, as the pipeline's `late_refires` says. A firing keeps
    all of its rows.
    """
    if pipeline.late_refires == "element":
        return panes
    is_late = pc.equal(panes.column("kind"), "late")
    refire_rows = np.flatnonzero(pc.or_(is_late, pc.equal(panes.column("kind"), "withdrawn")))
    rows = panes.take(pa.array(refire_rows))
    together = [*pipeline.keys, *_WINDOW]
    if pipeline.late_refires == "tick":
        rows = rows.append_column("__tick", pa.array(_ticks(rows, pipeline.watermarks.interval_ms)))
        together.append("__tick")
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*together, "firing")])
    firings = rows.column("firing").to_numpy()[order]
    last = np.flatnonzero(_ends(rows.select(together).take(order), together))
    newest = np.repeat(firings[last], np.diff(last, prepend=-1))
    replaced = refire_rows[order.to_numpy()[firings < newest]]
    keep = np.ones(panes.num_rows, np.bool_)
    keep[replaced] = False
    return panes.filter(pa.array(keep))


def _ticks(rows: pa.Table, interval_ms: int) -> npt.NDArray[np.int64]:
    """The tick of what fired each: an element that arrived in it, or the watermark at its end."""
    by_element = rows.column("cause_arrival").cast(pa.int64())
    by_watermark = pc.subtract(rows.column("tick_end").cast(TIME).cast(pa.int64()), 1)
    moments = pc.coalesce(by_element, by_watermark).to_numpy()
    return np.asarray(np.floor_divide(moments, interval_ms * 1000))


def _ends(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Where a run of rows that are equal in all columns ends."""
    ends = np.zeros(rows.num_rows, np.bool_)
    ends[-1:] = True
    for name in names:
        column = rows.column(name)
        ends[:-1] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))))
    return ends
