"""Tumbling and sliding windows on whole columns: the slices of their grid, and the windows that hold each
slice.

    time      │ 0      │ 20     │ 40     │ 60     │        size 40, slide 20
    slices    │   0    │   1    │   2    │   3    │
    window 0  └────────┴────────┘
    window 1           └────────┴────────┘
    window 2                    └────────┴────────┘
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK


@dataclass(frozen=True)
class FixedWindows(NumberedWindows):
    """Windows [offset + w·slide, offset + w·slide + size), w any integer.

    If size is a multiple of slide, slice p is [offset + p·slide, … + slide); else that span is cut in two, 2p
    and 2p + 1, after its first size mod slide ms.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int
    lateness_ms: int
    collected_mark: int = INITIAL_WATERMARK

    @property
    def _remainder(self) -> int:
        return self.size_ms % self.slide_ms

    @property
    def overlap(self) -> bool:
        return self.size_ms > self.slide_ms

    @property
    def have_gaps(self) -> bool:
        return self.size_ms < self.slide_ms

    def slices(self, times_ms: Longs) -> Longs:
        since = times_ms - self.offset_ms
        periods = since // self.slide_ms
        if not self._remainder:
            return periods
        return 2 * periods + (since - periods * self.slide_ms >= self._remainder)

    def newest_windows(self, slices: Longs) -> Longs:
        return slices >> 1 if self._remainder else slices

    def windows_per_slice(self, slices: Longs) -> Longs:
        counts = np.full(len(slices), self.size_ms // self.slide_ms)
        return counts + 1 - (slices & 1) if self._remainder else counts

    def assignments(self, slices: Longs) -> int:
        count = self.size_ms // self.slide_ms * len(slices)
        return count + int(np.count_nonzero(slices & 1 == 0)) if self._remainder else count

    def starts(self, windows: Longs) -> Longs:
        return self.offset_ms + windows * self.slide_ms

    def ends(self, windows: Longs) -> Longs:
        return self.starts(windows) + self.size_ms

    def last_instants(self, windows: Longs) -> Longs:
        return self.starts(windows) + (self.size_ms - 1)  # `ends - 1` with one pass less

    def numbers(self, starts_ms: Longs) -> Longs:
        return (starts_ms - self.offset_ms) // self.slide_ms

    def newest_passed(self, moment_ms: int) -> int:
        return (moment_ms - self.offset_ms - self.size_ms + 1) // self.slide_ms
