"""One key-group range of a pipeline with built-in aggregates whose windows are walked with their trigger: the
walk decides which elements each firing shows, and columns aggregate them afterwards, all at once.

    walk     window 1   a  b  ●  c  ●       window 2   d  e  ●        ● a firing
    shown               ab       abc                   de             running totals of window 1

A window's list holds numbers, as for functions: first that of what it has parked, one accumulator of each
aggregate, then the numbers of its elements.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates import ArrowAccumulators, combine_elements
from slackwater.engine.columnar.engine import setting_of
from slackwater.engine.columnar.families import Part
from slackwater.engine.columnar.firing import FailedFiring, pane_tables
from slackwater.engine.columnar.snapshot import read_windows, window_table
from slackwater.engine.functions.fired_windows import FiredWindows
from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.functions.parked_lists import ParkedLists
from slackwater.engine.functions.trigger_range import TriggerRange
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.engine.replaying.snapshot_rows import NO_CONTENTS, unknown_results
from slackwater.engine.rows.keys import Keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.kernels import SliceResult


class SelectRange(TriggerRange):
    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        super().__init__(replay, keys, number, rows, keeps_state=False)
        self.setting = setting_of(replay)
        self.fold = None  # the aggregates of a select are no fold of the user's

    def _lists_in(self, window_rows: pa.Table, keyed_rows: pa.Table) -> ParkedLists:
        if unknown_results(self.replay, window_rows):
            raise LeftToOperator("results that are unknown in parked windows")
        is_empty = pc.fill_null(pc.equal(window_rows.column("contents"), NO_CONTENTS), False)
        return ParkedLists((~np.asarray(is_empty)).astype(np.int64), pa.array([], pa.string()))

    def _replay_slice(self, keys: Longs, parked_part: Part, parked_lists: ParkedLists) -> FiredWindows:
        fired_windows = super()._replay_slice(keys, parked_part, parked_lists)
        has_contents = np.flatnonzero(parked_lists.lengths)
        parked_windows = read_windows(parked_part, self.setting, trigger_state=None)
        rows, accepted_rows = self.rows, fired_windows.verdict.accepted_rows
        if len(accepted_rows) < rows.num_rows:
            is_accepted = np.zeros(rows.num_rows, np.bool_)
            is_accepted[accepted_rows] = True
            rows = rows.filter(pa.array(is_accepted))
        self._accumulators = combine_elements(
            fired_windows.slice_result.accumulators,
            parked_windows.accumulators.take(has_contents),
            lambda numbers: ArrowAccumulators.from_rows(self.setting.aggregates, rows, numbers),
        )
        return fired_windows

    def _fire(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        try:
            panes = pane_tables([fired_windows.firings], self._accumulators, distinct, self.setting)
        except FailedFiring as failure:
            raise LeftToOperator("a firing has no result") from failure
        if not panes:
            return {}
        return {"panes": drop_replaced_refires(pa.concat_tables(panes), self.pipeline)}

    def _window_rows(
        self, fired_windows: FiredWindows, distinct: pa.Table
    ) -> tuple[pa.Table, list[pa.Table]]:
        slice_result: SliceResult[Any] = fired_windows.slice_result
        slice_result = slice_result._replace(accumulators=self._accumulators)
        rows = window_table(slice_result, distinct, self.setting, trigger_state=None)
        return rows.drop_columns(["trigger_state"]), []
