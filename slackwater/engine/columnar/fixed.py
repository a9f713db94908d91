"""The family of tumbling, sliding, cumulative and calendar windows that fire at their last instant.

Map side: elements that are on time for all of their windows are aggregated by key and slice into cells, one
partial aggregate each. An element that the watermark has passed in one of its windows travels by itself. Both
depend on the element and the timeline alone, so every batch is split for itself. Range side: cells are pieces
for the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators
from slackwater.engine.columnar.families import (
    A,
    BatchElements,
    LateRows,
    Part,
    RangeInput,
    Setting,
    Split,
    accumulator_names,
    elements_in_order,
    read_accumulators,
)
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.assigners import WindowAssigner, WindowGrid
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
)
from slackwater.windowing.columnar.fixed import FixedRules, replay_fixed
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.numbered_windows import NumberedWindows, windows_on
from slackwater.windowing.columnar.window_columns import Pieces

CELLS, ELEMENTS_BEHIND = "cells", "behind"
SLICE, ELEMENTS, FIRST, LAST = "__slice", "__elements", "__first_arrival", "__last_arrival"


def fixed_windows(setting: Setting) -> NumberedWindows | None:
    """The windows of the pipeline's assigner; None for the global window."""
    grid = grid_of(setting.pipeline.windows)
    if grid is None:
        return None
    return windows_on(grid, setting.lateness_ms, setting.window_timeline.collected_mark)


def grid_of(windows: WindowAssigner) -> WindowGrid | None:
    """The grid that places windows by the times of elements or their clocks; None for others."""
    return windows.grid or windows.clock_grid


@dataclass(frozen=True)
class FixedFamily:
    """Tumbling, sliding, cumulative and calendar windows with EventTimeTrigger, purging or not."""

    setting: Setting
    trigger_state = None

    @property
    def windows(self) -> NumberedWindows:
        windows = fixed_windows(self.setting)
        assert windows is not None
        return windows

    def split(self, elements: BatchElements) -> Split:
        slices = self.windows.slices(elements.times)
        tardy = self.windows.rows_behind(elements.times, slices, elements.watermarks)
        split = judge_elements(self.setting, self.windows, elements, slices, tardy)
        split.parts[CELLS] = self._cells(elements, slices, tardy)
        split.counts["rows_accepted"] += len(slices) - len(tardy)
        split.counts["assignments_made"] += self.windows.assignments(slices) - self.windows.assignments(
            slices[tardy]
        )
        return split

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        keys, rows = parts[CELLS]
        slices = rows.column(SLICE).to_numpy()
        pieces = Pieces(
            keys=keys,
            firsts=slices,
            lasts=slices,
            elements=rows.column(ELEMENTS).to_numpy(),
            first_arrivals=rows.column(FIRST).to_numpy(),
            last_arrivals=rows.column(LAST).to_numpy(),
        )
        elements, rows_behind = elements_in_order(self.setting, parts[ELEMENTS_BEHIND])
        slice_input = SliceInput(
            pieces=pieces,
            piece_accumulators=read_accumulators(rows, self.setting),
            elements=elements,
            element_accumulators=ArrowAccumulators.from_elements(self.setting.aggregates, rows_behind),
        )
        return RangeInput(slice_input, np.full(rows_behind.num_rows, -1))

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        rules = FixedRules(windows=self.windows, accumulates=not self.setting.purges)
        return replay_fixed(slice_input, initial_state, self.setting.window_timeline, rules)

    def _cells(self, elements: BatchElements, slices: Longs, tardy: Longs) -> Part:
        groups, keys, slices = group_pairs(elements.keys, slices, tardy)
        first, last = self._arrival_bounds(groups, slices, elements.clocks)
        cells = slice(len(keys))  # the group of the tardy rows comes last
        columns = {
            SLICE: slices,
            ELEMENTS: groups.counts[cells],
            FIRST: first[cells],
            LAST: last[cells],
        }
        for names, aggregate in zip(accumulator_names(self.setting), self.setting.aggregates, strict=True):
            columns |= {
                name: column[cells]
                for name, column in zip(names, aggregate.partial(elements.rows, groups), strict=True)
            }
        return Part(keys, pa.table(columns))

    def _arrival_bounds(self, groups: Groups, slices: Longs, clocks: Longs) -> tuple[Longs, Longs]:
        """First and last arrival of each group; 0 for groups that are collected by the slice's end."""
        stays = np.zeros(groups.size, np.bool_)
        newest = self.windows.newest_windows(slices)
        stays[: len(slices)] = self.windows.cleanup_times(newest) > self.setting.window_timeline.final
        if not stays.any():
            return np.zeros(groups.size, np.int64), np.zeros(groups.size, np.int64)
        first, last = least_of_groups(clocks, groups), greatest_of_groups(clocks, groups)
        first[~stays] = last[~stays] = 0
        return first, last


class Verdict(NamedTuple):
    """Which of some elements a window takes (`accepted_rows`, ascending), which are late, and counts."""

    accepted_rows: Longs
    late: LateRows
    counts: dict[str, int]


def verdict_of(
    windows: NumberedWindows, elements: BatchElements, slices: Longs, candidates: Longs
) -> Verdict:
    """Judge the elements at `candidates`; `slices` has the slice of every element."""
    slices, watermarks = slices[candidates], elements.watermarks[candidates]
    is_accepted, is_late = windows.judge(elements.times[candidates], slices, watermarks)
    late_rows, accepted_rows = candidates[is_late], candidates[is_accepted]
    missed_windows = windows.explode(slices[is_late])
    starts, ends = windows.starts(missed_windows.windows), windows.ends(missed_windows.windows)
    return Verdict(
        accepted_rows,
        late=LateRows(late_rows, watermarks[is_late], missed_windows.rows, starts, ends),
        counts={
            "rows_accepted": len(accepted_rows),
            "rows_late": len(late_rows),
            "rows_unassigned": len(candidates) - len(accepted_rows) - len(late_rows),
            "assignments_made": windows.assignments(slices[is_accepted]),
        },
    )


def verdict_of_taken(count: int) -> Verdict:
    """The verdict on `count` elements that global windows take."""
    nothing = np.zeros(0, np.int64)
    return Verdict(
        np.arange(count),
        late=LateRows(nothing, nothing, nothing, nothing, nothing),
        counts={
            "rows_accepted": count,
            "rows_late": 0,
            "rows_unassigned": 0,
            "assignments_made": count,
        },
    )


def judge_elements(
    setting: Setting, windows: NumberedWindows, elements: BatchElements, slices: Longs, candidates: Longs
) -> Split:
    """Split the `candidates`, behind the watermark in some window of theirs, into accepted and late ones."""
    rows, late, counts = verdict_of(windows, elements, slices, candidates)
    rows_accepted = elements.rows.select([*setting.source_columns, ARRIVAL, EVENT]).take(pa.array(rows))
    return Split(parts={ELEMENTS_BEHIND: Part(elements.keys[rows], rows_accepted)}, late=late, counts=counts)
