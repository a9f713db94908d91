"""The families of windows with a count trigger and with a continuous trigger, also inside a purging trigger,
and of global windows whose trigger fires only at the end of time. Which elements a firing holds depends on
their order, so elements travel one by one, and the range side aggregates them.

Under a continuous trigger it depends on the rises of the watermark, and the timeline tells every map task
when it rises. So where many elements come between two rises, the map side aggregates them by key, slice and
rise into cells; of each cell the first element travels with it, because it may be the one that arms a window.
Where few elements would share a cell, and for elements that the watermark has passed in some window of
theirs, each travels by itself.

    rises of the watermark    ───────┬────────────┬─────
    elements of one slice     a b c    d e f        g h
    cells                     abc, by a      def, by d      gh, by g
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators
from slackwater.engine.columnar.families import (
    A,
    BatchElements,
    Part,
    RangeInput,
    Setting,
    Split,
    accumulator_names,
    elements_in_order,
    read_accumulators,
)
from slackwater.engine.columnar.fixed import (
    CELLS,
    ELEMENTS,
    ELEMENTS_BEHIND,
    fixed_windows,
    judge_elements,
)
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.element_order import in_order
from slackwater.windowing import ContinuousEventTimeTrigger, CountTrigger, NeverTrigger
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
)
from slackwater.windowing.columnar.continuous import ONLY_AT_THE_END, ContinuousRules, replay_continuous
from slackwater.windowing.columnar.counted import CountRules, replay_counted
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import NEVER
from slackwater.windowing.columnar.window_columns import Pieces, columns_of
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers.continuous import FIRE_TIME
from slackwater.windowing.triggers.counting import COUNT


@dataclass(frozen=True)
class ElementFamily:
    """Map side and input of both families: each element that some window takes travels to its range."""

    setting: Setting

    def split(self, elements: BatchElements) -> Split:
        windows = fixed_windows(self.setting)
        if windows is not None:
            slices = windows.slices(elements.times)
            return judge_elements(self.setting, windows, elements, slices, np.arange(len(slices)))
        rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT])
        counts = {"rows_accepted": rows.num_rows, "assignments_made": rows.num_rows}
        return Split(parts={ELEMENTS_BEHIND: Part(elements.keys, rows)}, late=None, counts=counts)

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        elements, rows = elements_in_order(self.setting, parts[ELEMENTS_BEHIND])
        element_accumulators = ArrowAccumulators.from_elements(self.setting.aggregates, rows)
        slice_input = SliceInput(
            pieces=columns_of(Pieces, []),
            piece_accumulators=element_accumulators.take(slice(0, 0)),
            elements=elements,
            element_accumulators=element_accumulators,
        )
        return RangeInput(slice_input, np.full(rows.num_rows, -1))


class CountFamily(ElementFamily):
    """Windows with CountTrigger (Flink's countWindow) or NeverTrigger, also inside a purging trigger."""

    trigger_state: StateDescriptor = COUNT

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        rules = CountRules(
            windows=fixed_windows(self.setting),
            max_count=self._max_count(),
            accumulates=not self.setting.purges,
        )
        return replay_counted(slice_input, initial_state, self.setting.window_timeline, rules)

    def _max_count(self) -> int:
        """Elements for each firing; a count below 1 fires at each element, as in Flink."""
        trigger = self.setting.trigger
        if isinstance(trigger, NeverTrigger):
            return NEVER
        assert isinstance(trigger, CountTrigger)
        return max(trigger.max_count, 1)


LAST = "__last_arrival"
_PLACE, _CELL = "__place", "__cell"
_ACCUMULATOR = "__of_cell."  # no source column begins so
ROWS_PER_CELL = 4  # so many elements on average are worth a cell


@dataclass(frozen=True)
class ContinuousFamily(ElementFamily):
    """Windows with ContinuousEventTimeTrigger; global windows whose trigger fires only at the end of time."""

    trigger_state: StateDescriptor = FIRE_TIME

    def split(self, elements: BatchElements) -> Split:
        if not self._may_share_cells(elements):
            return super().split(elements)
        windows = fixed_windows(self.setting)
        if windows is None:
            slices = rows_behind = np.zeros(0, np.int64)
            groups, keys = self._cells(elements, np.zeros(len(elements.keys), np.int64), rows_behind)
        else:
            slices = windows.slices(elements.times)
            rows_behind = windows.rows_behind(elements.times, slices, elements.watermarks)
            groups, keys = self._cells(elements, slices, rows_behind)
        combined_count = len(elements.keys) - len(rows_behind)
        if len(keys) * ROWS_PER_CELL > combined_count:
            return super().split(elements)
        if windows is None:
            rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT])
            split = Split(parts={ELEMENTS_BEHIND: Part(elements.keys[:0], rows.slice(0, 0))})
            assignment_count = combined_count
        else:
            split = judge_elements(self.setting, windows, elements, slices, rows_behind)
            assignment_count = windows.assignments(slices) - windows.assignments(slices[rows_behind])
        split.parts[CELLS] = self._part_of_cells(elements, groups, keys)
        for name, count in (("rows_accepted", combined_count), ("assignments_made", assignment_count)):
            split.counts[name] = split.counts.get(name, 0) + count
        return split

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        cells, single_elements = parts[CELLS], parts[ELEMENTS_BEHIND]
        if not cells.rows.num_rows:
            return super().receive(parts)
        names = single_elements.rows.column_names
        both = pa.concat_tables([single_elements.rows, cells.rows.select(names)])
        both = both.append_column(_PLACE, pa.array(np.arange(both.num_rows)))
        elements, rows = elements_in_order(
            self.setting, Part(np.append(single_elements.keys, cells.keys), both)
        )
        order = rows.column(_PLACE).to_numpy()
        single_clocks = self.setting.clocks(single_elements.rows.column(ARRIVAL).to_numpy())
        element_counts = np.append(
            np.ones(len(single_elements.keys), np.int64), cells.rows.column(ELEMENTS).to_numpy()
        )
        nothing = np.zeros(len(order), np.int64)
        pieces = Pieces(
            keys=elements.keys,
            firsts=nothing,
            lasts=nothing,
            elements=element_counts[order],
            first_arrivals=elements.clocks,
            last_arrivals=np.append(single_clocks, cells.rows.column(LAST).to_numpy())[order],
        )
        single_accumulators = ArrowAccumulators.from_elements(self.setting.aggregates, single_elements.rows)
        accumulators = single_accumulators.join(
            [read_accumulators(_accumulators_of_cells(cells.rows), self.setting)]
        )
        accumulators = accumulators.take(order)
        return RangeInput(SliceInput(pieces, accumulators, elements, accumulators), np.full(len(order), -1))

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        trigger = self.setting.trigger
        interval_ms = ONLY_AT_THE_END
        if isinstance(trigger, ContinuousEventTimeTrigger):
            interval_ms = trigger.interval_ms
        rules = ContinuousRules(
            windows=fixed_windows(self.setting),
            interval_ms=interval_ms,
            accumulates=not self.setting.purges,
        )
        return replay_continuous(slice_input, initial_state, self.setting.timeline, rules)

    def _may_share_cells(self, elements: BatchElements) -> bool:
        """Whether elements are several times as many as keys and rises in which they may differ."""
        if not len(elements.keys):
            return True
        first, last = self._rises(np.array([elements.clocks.min(), elements.clocks.max()])).tolist()
        cells = (int(elements.keys.max()) + 1) * (last - first + 1)
        return cells * ROWS_PER_CELL <= len(elements.keys)

    def _rises(self, clocks: Longs) -> Longs:
        return np.searchsorted(self.setting.timeline.tick_ends, clocks, side="right")

    def _cells(self, elements: BatchElements, slices: Longs, rows_behind: Longs) -> tuple[Groups, Longs]:
        """(cell of each element, key of each cell); `rows_behind` make one more group, the last."""
        moments, _, _ = group_pairs(slices, self._rises(elements.clocks))
        groups, keys, _ = group_pairs(elements.keys, moments.codes, rows_behind)
        return groups, keys

    def _part_of_cells(self, elements: BatchElements, groups: Groups, keys: Longs) -> Part:
        """The source columns of each cell's first element, and the accumulators of all of its elements."""
        cells = slice(len(keys))
        firsts = self._first_elements(elements, groups)[cells]
        rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT]).take(pa.array(firsts))
        columns = {
            ELEMENTS: pa.array(groups.counts[cells]),
            LAST: pa.array(greatest_of_groups(elements.clocks, groups)[cells]),
        }
        for names, aggregate in zip(accumulator_names(self.setting), self.setting.aggregates, strict=True):
            partial = aggregate.partial(elements.rows, groups)
            columns |= {
                _ACCUMULATOR + name: column[cells] for name, column in zip(names, partial, strict=True)
            }
        for name, column in columns.items():
            rows = rows.append_column(name, column)
        return Part(keys, rows)

    def _first_elements(self, elements: BatchElements, groups: Groups) -> Longs:
        """The row of the first element of each group, in the order in which windows take elements."""
        arrivals = elements.rows.column(ARRIVAL).to_numpy()
        candidates = np.flatnonzero(arrivals == least_of_groups(arrivals, groups)[groups.codes])
        firsts = np.empty(groups.size, np.int64)
        if len(candidates) == groups.size:
            firsts[groups.codes[candidates]] = candidates
            return firsts
        rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT]).take(pa.array(candidates))
        rows = rows.append_column(_PLACE, pa.array(candidates))
        in_turn = in_order(self.setting.pipeline, rows).column(_PLACE).to_numpy()[::-1]
        firsts[groups.codes[in_turn]] = in_turn  # of several the last assignment counts
        return firsts


def _accumulators_of_cells(rows: pa.Table) -> pa.Table:
    names = [name for name in rows.column_names if name.startswith(_ACCUMULATOR)]
    return rows.select(names).rename_columns([name.removeprefix(_ACCUMULATOR) for name in names])
