"""Rows to measure with: out of order, some late, made from a seed, with the watermarks that go with them.

Plain integers in columns; knows no contender.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

START = 1_700_000_000_000
TICK = 1_000
OUT_OF_ORDERNESS = 3_000
LATE_SHARE = 0.008


@dataclass(frozen=True)
class Workload:
    """Windows of `size` every `slide` ms (equal: tumbling) over `keys` keys.

    Attributes:
        rows_per_second: of event time; with few rows the range is three windows long at least.
        lateness: allowed lateness in ms.
        late_by: range of the delays, in ms, of the 0.8 % of rows that are late; the others come within 2 s.
    """

    name: str
    keys: int
    size: int
    slide: int
    lateness: int
    rows_per_second: float
    late_by: tuple[int, int]


WORKLOADS = (
    Workload("1 k keys, tumbling 10 s", 1_000, 10_000, 10_000, 30_000, 5_555, (8_000, 60_000)),
    Workload("200 k keys, tumbling 1 min", 200_000, 60_000, 60_000, 60_000, 8_333, (30_000, 150_000)),
    Workload("10 k keys, sliding 10 s / 2 s", 10_000, 10_000, 2_000, 30_000, 16_667, (8_000, 60_000)),
)


@dataclass(frozen=True)
class Rows:
    """Rows in order of arrival, one list a column, and the timeline: tick t ends at START + (t + 1) · TICK
    with watermarks[t].

    Attributes:
        keys, timestamps, values: what an element is; times in ms.
        arrivals: ms; an element is judged by the watermark of the newest tick that has ended by then.
        ticks: (arrival - START) // TICK.
        watermarks: one a tick: the greatest timestamp so far - OUT_OF_ORDERNESS - 1.
    """

    keys: list[int]
    timestamps: list[int]
    values: list[int]
    arrivals: list[int]
    ticks: list[int]
    watermarks: list[int]

    def __len__(self) -> int:
        return len(self.keys)

    def first(self, count: int) -> Rows:
        """The first rows, with the whole timeline."""
        columns = (self.keys, self.timestamps, self.values, self.arrivals, self.ticks)
        return Rows(*(column[:count] for column in columns), watermarks=self.watermarks)


def make_rows(workload: Workload, count: int, seed: int = 1) -> Rows:
    """`count` rows of the workload, the same for the same seed."""
    random = np.random.default_rng(seed)
    span = max(count / workload.rows_per_second * 1000, 3 * workload.size)
    timestamps = START + np.sort(random.random(count) * span).astype(np.int64)
    delays = random.integers(0, 2_000, count)
    is_late = random.random(count) < LATE_SHARE
    delays[is_late] = random.integers(*workload.late_by, int(is_late.sum()))
    order = np.argsort(timestamps + delays, kind="stable")
    timestamps, arrivals = timestamps[order], (timestamps + delays)[order]
    ticks = (arrivals - START) // TICK
    greatest = np.full(int(ticks[-1]) + 1, START, np.int64)
    np.maximum.at(greatest, ticks, timestamps)
    return Rows(
        keys=random.integers(0, workload.keys, count).tolist(),
        timestamps=timestamps.tolist(),
        values=random.integers(0, 1_000, count).tolist(),
        arrivals=arrivals.tolist(),
        ticks=ticks.tolist(),
        watermarks=[high - OUT_OF_ORDERNESS - 1 for high in accumulate(greatest.tolist(), max)],
    )
