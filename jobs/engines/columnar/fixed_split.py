"""The map side of tumbling and sliding windows: elements that are on time for all of their windows are
aggregated by key and slice at once.

What is behind the watermark of any window travels as it is. Nothing here depends on what other batches hold.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.families import Elements, Late, Part, Setting, Split
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.groups import Groups, greatest_of_groups, group_pairs, least_of_groups

CELLS, BEHIND = "cells", "behind"
SLICE, ELEMENTS, FIRST, LAST = "__slice", "__elements", "__first_arrival", "__last_arrival"


def accumulator_names(setting: Setting) -> list[list[str]]:
    """The names under which the accumulators' columns travel, for each aggregate."""
    return [
        [f"{number}_{name}" for name, _ in aggregate.columns]
        for number, aggregate in enumerate(setting.aggregates)
    ]


@dataclass(frozen=True)
class FixedSplit:
    """Splits batches for one pipeline and slice."""

    setting: Setting
    windows: FixedWindows

    def split(self, elements: Elements) -> Split:
        slices = self.windows.slices(elements.events)
        behind = self._behind(elements, slices)
        split = self.judge(elements, slices, behind)
        split.parts[CELLS] = self._cells(elements, slices, behind)
        split.counts["rows_accepted"] += len(slices) - len(behind)
        split.counts["assignments_made"] += self.windows.assignments(slices) - self.windows.assignments(
            slices[behind]
        )
        return split

    def _behind(self, elements: Elements, slices: Longs) -> Longs:
        """The rows that the watermark has passed in some window of theirs, or that no window holds."""
        passed = elements.events <= elements.watermarks  # a window ends after every element in it
        if self.windows.have_gaps:
            passed |= self.windows.windows_per_slice(slices) == 0
        rows = np.flatnonzero(passed)
        candidates = slices[rows]
        is_behind = self.windows.earliest_last_instants(candidates) <= elements.watermarks[rows]
        is_behind |= self.windows.windows_per_slice(candidates) == 0
        return rows[is_behind]

    def judge(self, elements: Elements, slices: Longs, behind: Longs) -> Split:
        """Of elements that are behind for some window: those that a window still takes, and those that none
        does.
        """
        windows, slices, watermarks = self.windows, slices[behind], elements.watermarks[behind]
        newest = windows.newest_windows(slices)
        is_skipped = windows.are_late(newest, watermarks) | (windows.windows_per_slice(slices) == 0)
        is_late = is_skipped & windows.are_late_elements(elements.events[behind], watermarks)
        late, kept = behind[is_late], behind[~is_skipped]
        missed = windows.explode(slices[is_late])
        starts = windows.starts(missed.windows)
        part = elements.rows.select([*self.setting.read, ARRIVAL, EVENT]).take(pa.array(kept))
        return Split(
            {BEHIND: Part(elements.keys[kept], part)},
            Late(late, watermarks[is_late], missed.rows, starts, starts + windows.size_ms),
            {
                "rows_accepted": len(kept),
                "rows_late": len(late),
                "rows_unassigned": len(behind) - len(kept) - len(late),
                "assignments_made": windows.assignments(slices[~is_skipped]),
            },
        )

    def _cells(self, elements: Elements, slices: Longs, behind: Longs) -> Part:
        """Partial aggregates by key and slice of the rows that are not behind."""
        groups, keys, slices = group_pairs(elements.keys, slices, behind)
        first, last = self._arrivals(groups, slices, elements.clocks)
        own = slice(len(keys))  # the group of those that are behind comes last
        columns = {SLICE: slices, ELEMENTS: groups.counts[own], FIRST: first[own], LAST: last[own]}
        for names, aggregate in zip(accumulator_names(self.setting), self.setting.aggregates, strict=True):
            columns |= {
                name: column[own]
                for name, column in zip(names, aggregate.partial(elements.rows, groups), strict=True)
            }
        return Part(keys, pa.table(columns))

    def _arrivals(self, groups: Groups, slices: Longs, clocks: Longs) -> tuple[Longs, Longs]:
        """First and last arrival of each group; where all of its windows are closed by the slice's end nobody
        will ask, and they are 0.
        """
        stays = np.zeros(groups.size, np.bool_)
        stays[: len(slices)] = ~self.setting.closes(
            self.windows.cleanup_times(self.windows.newest_windows(slices))
        )
        if not stays.any():
            return np.zeros(groups.size, np.int64), np.zeros(groups.size, np.int64)
        first, last = least_of_groups(clocks, groups), greatest_of_groups(clocks, groups)
        first[~stays] = last[~stays] = 0
        return first, last
