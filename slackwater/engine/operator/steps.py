"""The steps in which the operator takes the elements of a range: some elements alone, others of one key
together, where the results are the same.

`slackwater.windowing.columnar.shared_windows` decides which elements may be taken together; this module makes
the columns that it decides by, and the records of the steps:

    elements of the keys a and b, as they arrive    a1  b1  a2  a3  b2
    are their windows ahead of the watermark?       yes yes yes no  yes
    steps                                           {a1 a2}  {b1 b2}  {a3}
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.replaying.replay import Replay
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.key_numbers import KeyNumbers
from slackwater.engine.rows.keys import Keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.numbered_windows import windows_on
from slackwater.windowing.columnar.shared_windows import Steps, steps_of

MOST_TOGETHER: Final = 1 << 14  # elements of a step where they are objects, which take much memory


class ElementStep(NamedTuple):
    """The elements at positions `start` to `end` - 1 in the order of the steps, all of one key, which the
    operator takes at once.

    Attributes:
        times: their timestamps; where their order does not matter, only the first.
        first_arrival, last_arrival: of the first and the last element, at the slice's start at the earliest.
        are_together: False for a step of one element that may not be taken with others.
    """

    key: Any
    start: int
    end: int
    times: Sequence[int]
    first_arrival: int
    last_arrival: int
    are_together: bool


class StepSequence:
    """The steps of a range's elements, of a pipeline with tumbling, sliding or calendar windows; `row_steps`
    are the same steps as positions in `rows`.

    Args:
        rows: the elements in order of arrival.
        keeps_order: whether a window's contents show the order of its elements.
    """

    def __init__(self, replay: Replay, keys: Keys, rows: pa.Table, keeps_order: bool) -> None:
        grid = replay.pipeline.windows.grid
        assert grid is not None
        windows = windows_on(grid, replay.pipeline.allowed_lateness_ms)
        arrivals = np.maximum(rows.column(ARRIVAL).to_numpy(), replay.scan.from_ms)
        times, watermarks = rows.column(EVENT).to_numpy(), replay.timeline.at_arrival(arrivals)
        key_numbers = KeyNumbers.of_batch(rows, keys)
        numbers = key_numbers.numbers
        self.row_steps: Steps = steps_of(
            numbers,
            times,
            watermarks,
            windows,
            keeps_order=keeps_order,
            most_together=MOST_TOGETHER if keeps_order else None,
        )
        self._keeps_order = keeps_order
        order, starts, _ = self.row_steps
        self._keys = keys.values(key_numbers.distinct)
        self._groups = key_numbers.groups
        self._times, self._arrivals = times[order], arrivals[order]
        self._numbers: Longs = numbers[order[starts[:-1]]]

    def key_groups(self) -> Iterable[tuple[Any, int]]:
        return zip(self._keys, self._groups.tolist(), strict=True)

    def pieces(self, at_once: int) -> Iterator[tuple[int, list[ElementStep]]]:
        """(number of the first step, the steps), in order, `at_once` steps at a time."""
        starts, arrivals, keys = self.row_steps.starts, self._arrivals, self._keys
        for first in range(0, len(self._numbers), at_once):
            bounds = starts[first : first + at_once + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            edges = bounds.tolist()
            times: Iterable[Sequence[int]]
            if self._keeps_order:
                all_times = self._times[begin:end].tolist()
                times = (all_times[start - begin : stop - begin] for start, stop in pairwise(edges))
            else:
                times = zip(self._times[bounds[:-1]].tolist(), strict=True)
            steps = zip(
                map(keys.__getitem__, self._numbers[first : first + at_once].tolist()),
                edges[:-1],
                edges[1:],
                times,
                arrivals[bounds[:-1]].tolist(),
                arrivals[bounds[1:] - 1].tolist(),
                self.row_steps.are_together[first : first + at_once].tolist(),
                strict=True,
            )
            yield first, list(map(ElementStep._make, steps))
