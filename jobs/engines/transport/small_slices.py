"""The choice of where a slice is replayed. Threads of this process replay a small slice, which is done before
a Spark job would have begun; Spark replays others, after this process has given back the memory of small
ones.

Knows no engine. Spark starts when it is first needed.
"""

from collections.abc import Callable

import pyarrow as pa

from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.engines.transport.in_process import (
    InThreads,
    MapTask,
    NumberedTask,
    RangeTask,
    Transport,
)
from slackwater.jobs.runtime.heap import give_back
from slackwater.jobs.runtime.settings import must_start_here

# Some million rows: seconds in two threads, of which Spark's start of a warm job is a tenth.
SMALL_BYTES = 64 << 20
# Where Spark itself must start, which takes longer than two threads need for so many times as much.
TIMES_BEFORE_START = 4


def is_small(size: float, ranges: int, threads: int, must_start: bool) -> bool:
    """Whether a slice of `size` bytes is small: `threads` threads replay its ranges in at most two rounds,
    before Spark would have begun. `must_start`: whether Spark would first have to be started on this machine.
    """
    most = SMALL_BYTES * (TIMES_BEFORE_START if must_start else 1)
    return size <= most and ranges <= 2 * threads


class SparkWhereNeeded:
    """A transport that starts Spark when it is first needed: no JVM starts for a refusal, a small slice or a
    run that finds nothing to do.

    Args:
        make: makes the transport on Spark.
        threads: how many tasks at a time Spark would run on this machine; so many ranges, each within a
            task's memory, fit at a time.
        must_start: says whether Spark would first have to be started on this machine.
    """

    def __init__(
        self, make: Callable[[], Transport], threads: int, must_start: Callable[[], bool] = must_start_here
    ) -> None:
        self._make = make
        self._must_start = must_start
        self._spark_transport: Transport | None = None
        self._threads = InThreads(threads)

    def start(self) -> None:
        self._transport().start()

    @property
    def slots(self) -> int:
        return self._transport().slots

    @property
    def begins_at_once(self) -> bool:
        return not self._must_start()

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int]) -> Transport:
        threads = self._threads.slots
        if scan.why_not_direct() is None and is_small(
            scan.size, ranges(threads), threads, self._must_start()
        ):
            return self._threads
        give_back()
        return self

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        return self._transport().gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        return self._transport().shuffle(scan, task, ranges, reduce)

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        return self._transport().each(task, count)

    def _transport(self) -> Transport:
        if self._spark_transport is None:
            self._spark_transport = self._make()
        return self._spark_transport
