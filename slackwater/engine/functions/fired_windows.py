"""The windows of one range after its slice: which fire, with which elements, and the rows of `panes` that
their firings leave; and the tables of many firings for a vectorized function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.columnar.arrow_columns import times
from slackwater.engine.columnar.families import Setting
from slackwater.engine.columnar.firing import LABELS, columns_of_firings
from slackwater.engine.columnar.fixed import Verdict
from slackwater.engine.functions.calls import ResultRows, clocks_of, pieces_of
from slackwater.engine.functions.element_texts import ElementColumns
from slackwater.engine.functions.folds import Folding
from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.functions.sessions import StateWindows
from slackwater.engine.functions.window_contents import WalkedFolds
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.engine.replaying.vectorized_calls import VectorizedCalls, user_column
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceResult
from slackwater.windowing.columnar.window_columns import Firings, OpenWindows, PaneKind, concatenate, rows_of


@dataclass
class FiredWindows:
    """The firings of a slice, as a function is called for them.

    Attributes:
        folding: folds the elements; None where the function takes them.
        withdrawals: of the rows of sessions that another has absorbed; None for other windows.
        state_windows: the state windows of open sessions; None for other windows.
        unjudged_count: how many elements the verdict does not count.
        firing_clocks: the clock at each firing; None where tick ends and causes give it.
    """

    slice_result: SliceResult[ElementLists]
    firings: Firings
    lists: ElementLists
    columns: ElementColumns
    verdict: Verdict
    windows_at_start: OpenWindows
    folding: Folding | WalkedFolds | None = None
    withdrawals: Firings | None = None
    state_windows: StateWindows | None = None
    unjudged_count: int = 0
    firing_clocks: Longs | None = None

    @property
    def clocks(self) -> Longs:
        return clocks_of(self.firings) if self.firing_clocks is None else self.firing_clocks


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


ELEMENTS_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class FiringTables:
    """The calls for the firings of one range; `distinct` has the key columns at each key number."""

    calls: VectorizedCalls
    column_of: Callable[[str], pa.Array]
    distinct: pa.Table

    def results(self, firings: Firings, lists: ElementLists) -> list[pa.Array]:
        """The columns of results of all firings. Raises LeftToOperator where the function has raised."""
        parts = [[pa.array([], kind) for _, kind in self.calls.results]]
        for first, beyond in pieces_of(lists.lengths, ELEMENTS_AT_ONCE):
            piece = slice(first, beyond)
            firing_columns, element_columns = self._columns(rows_of(firings, piece), lists.take(piece))
            try:
                parts.append(self.calls.call(firing_columns, element_columns))
            except Exception as error:  # which firing it was, and its key, the operator engine finds
                raise LeftToOperator(f"the function has raised {type(error).__name__}") from error
        return [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]

    def _columns(self, firings: Firings, lists: ElementLists) -> tuple[dict[str, Any], dict[str, pa.Array]]:
        firing_columns = pa.array(firings.keys)
        keys = {name: self.distinct.column(name).take(firing_columns) for name, _ in self.calls.keys}
        bounds = {"window_start": times(firings.starts), "window_end": times(firings.ends)}
        numbers = pa.array(lists.explode())
        offsets = pa.array(np.append(0, np.cumsum(lists.lengths)).astype(np.int32))
        return {**keys, **bounds}, {
            name: pa.ListArray.from_arrays(offsets, user_column(self.column_of(name).take(numbers)))
            for name, _ in self.calls.fields
        }
