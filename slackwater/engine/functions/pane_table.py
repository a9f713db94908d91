"""Rows of `panes` from firings and what functions have emitted."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.columnar.families import Setting
from slackwater.engine.columnar.firing import LABELS, columns_of_firings
from slackwater.engine.functions.calls import ResultRows
from slackwater.engine.replaying.refires import drop_replaced_refires
from slackwater.windowing.columnar.window_columns import Firings, PaneKind, concatenate, rows_of


def pane_table(
    firings: Firings,
    result_rows: ResultRows,
    results: Sequence[pa.Array],
    withdrawals: Firings | None,
    *,
    distinct: pa.Table,
    setting: Setting,
) -> pa.Table:
    """A row for each emitted row, for each firing that withdraws the rows of the one before because it has
    none, and for each of `withdrawals`. `distinct` has the key group and key of each key number.
    """
    places, empty = np.array(result_rows.firings, np.int64), np.array(result_rows.empty_firings, np.int64)
    if setting.purges or setting.windows_are_global:
        empty = empty[:0]
    withdrawn = empty[firings.firings[empty] > 1]
    if withdrawals is not None:
        withdrawn = np.append(withdrawn, len(firings.keys) + np.arange(len(withdrawals.keys)))
        firings = concatenate([firings, withdrawals])
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
