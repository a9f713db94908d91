"""Where a slice is replayed: a small one by threads of this process, which have done it before a job has
begun; else on Spark, whose tasks get the memory that small ones have left.

Knows no engine and no Spark, which starts when it is first needed.
"""

from collections.abc import Callable

import pyarrow as pa

from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.engines.transport.in_process import InThreads, MapTask, RangeTask, Transport
from slackwater.jobs.runtime.heap import give_back

# Some million rows: seconds in two threads, of which Spark's start of a warm job is a tenth.
SMALL_BYTES = 64 << 20


def is_small(size: float, ranges: int, threads: int) -> bool:
    """Whether a slice of `size` bytes that is divided into so many ranges is replayed by `threads` threads,
    in at most two rounds.
    """
    return size <= SMALL_BYTES and ranges <= 2 * threads


class SparkWhereNeeded:
    """A transport that is made when it is first used: a no-op, a refusal and small slices start no JVM.

    Args:
        make: makes it.
        threads: how many tasks of it would run at a time on this very machine; so many ranges, each within a
            task's memory, fit at a time.
    """

    def __init__(self, make: Callable[[], Transport], threads: int) -> None:
        self._make = make
        self._made: Transport | None = None
        self._here = InThreads(threads)

    def start(self) -> None:
        self._transport().start()

    @property
    def slots(self) -> int:
        return self._transport().slots

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int]) -> Transport:
        threads = self._here.slots
        if scan.why_not_direct() is None and is_small(scan.size, ranges(threads), threads):
            return self._here
        give_back()
        return self

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        return self._transport().gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        return self._transport().shuffle(scan, task, ranges, reduce)

    def _transport(self) -> Transport:
        if self._made is None:
            self._made = self._make()
        return self._made
