"""The window and the moment of each firing, as a function and an evictor see them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.window_columns import NO_TIME, Firings
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window


class FiringTime(NamedTuple):
    """The EvictorContext of one firing."""

    current_watermark: int
    current_processing_time: int


def windows_of(firings: Firings) -> Iterator[Window]:
    """The window of each firing."""
    for start, end in zip(firings.starts.tolist(), firings.ends.tolist(), strict=True):
        yield GLOBAL_WINDOW if start == NO_TIME else TimeWindow(start, end)


def clocks_of(firings: Firings) -> Longs:
    """The clock at each firing."""
    clocks: Longs = np.where(firings.causes == NO_TIME, firings.tick_ends, firings.causes)
    return clocks
