"""The elements of a range in the steps in which the operator takes them: some alone, some together, where
nobody can tell the difference.

Which may be taken together, the core decides; here are the columns that it decides by.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.key_numbers import KeyNumbers
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.shared_windows import Steps, steps_of


class Step(NamedTuple):
    """Elements start to end - 1 of the rows in order of steps, which are taken at once.

    Attributes:
        key: whose they are.
        times: their timestamps; of elements whose order doesn't matter the first one's alone.
        arrival, until: when the first and the last of them arrive, at the slice's start at the earliest.
        are_together: False for one that is alone.
    """

    key: Any
    start: int
    end: int
    times: Sequence[int]
    arrival: int
    until: int
    are_together: bool


class SteppedRows:
    """Elements of a pipeline with fixed windows.

    Args:
        replay: what is replayed.
        keys: of its pipeline.
        rows: the elements in order of arrival.
        keeps_order: whether a window's contents show the order of its elements.

    Attributes:
        taken: the steps, by rows.
        key_groups: each key with its group, once.
    """

    def __init__(self, replay: Replay, keys: Keys, rows: pa.Table, keeps_order: bool) -> None:
        window: Any = replay.pipeline.window
        windows = FixedWindows(
            window.size_ms, window.slide_ms, window.offset_ms, replay.pipeline.allowed_lateness_ms
        )
        arrivals = np.maximum(rows.column(ARRIVAL).to_numpy(), replay.scan.from_ms)
        times, watermarks = rows.column(EVENT).to_numpy(), replay.timeline.at_arrival(arrivals)
        key_numbers = KeyNumbers.of_batch(rows, keys)
        numbers = key_numbers.numbers
        self.taken: Steps = steps_of(numbers, times, watermarks, windows, keeps_order=keeps_order)
        self._keeps_order = keeps_order
        order, starts, _ = self.taken
        self._keys = keys.values(key_numbers.distinct)
        self.key_groups = zip(self._keys, key_numbers.groups.tolist(), strict=True)
        self._times, self._arrivals = times[order], arrivals[order]
        self._numbers: Longs = numbers[order[starts[:-1]]]

    def steps(self, at_once: int) -> Iterator[list[Step]]:
        """The steps in order, so many at a time."""
        starts, arrivals, keys = self.taken.starts, self._arrivals, self._keys
        for first in range(0, len(self._numbers), at_once):
            bounds = starts[first : first + at_once + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            firsts = zip(self._times[bounds[:-1]].tolist(), strict=True)
            times: list[int] = self._times[begin:end].tolist() if self._keeps_order else []
            columns = (
                map(keys.__getitem__, self._numbers[first : first + at_once].tolist()),
                pairwise(bounds.tolist()),
                arrivals[bounds[:-1]].tolist(),
                arrivals[bounds[1:] - 1].tolist(),
                self.taken.are_together[first : first + at_once].tolist(),
            )
            yield [
                Step(
                    key,
                    start,
                    stop,
                    times[start - begin : stop - begin] if times else first,
                    arrival,
                    until,
                    are_together,
                )
                for first, key, (start, stop), arrival, until, are_together in zip(
                    firsts, *columns, strict=True
                )
            ]
