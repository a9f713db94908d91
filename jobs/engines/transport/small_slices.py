"""The choice of where a slice is replayed. Threads of this process replay a small slice, and processes one
whose tasks hold Python's lock or call functions of the user's, where Spark would have to start first. Spark
replays others, after this process has given back the memory of small ones.

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
from slackwater.jobs.engines.transport.in_processes import InProcesses
from slackwater.jobs.runtime.heap import give_back
from slackwater.jobs.runtime.settings import SparkPlace, spark_place

# Ten million rows and more, for which threads take no longer than as many tasks of Spark on this machine,
# which pack and send their results.
SMALL_BYTES = 256 << 20
# A cluster may have more processors than this machine, and the driver little memory.
_SHARE_ELSEWHERE = 0.25


def is_small(size: float, ranges: int, slots: int, place: SparkPlace, in_threads: bool = True) -> bool:
    """Whether a slice of `size` bytes is small: `slots` threads replay its ranges in at most two rounds, or
    so many processes where its tasks can't run `in_threads` and Spark has not started; where it runs its own
    processes are there. `place`: where Spark's tasks run.
    """
    if not in_threads and place is not SparkPlace.NOT_STARTED:
        return False
    most = SMALL_BYTES * (_SHARE_ELSEWHERE if place is SparkPlace.ELSEWHERE else 1)
    return size <= most and ranges <= 2 * slots


class SparkWhereNeeded:
    """A transport that starts Spark when it is first needed: no JVM starts for a refusal, a small slice or a
    run that finds nothing to do.

    Args:
        make: makes the transport on Spark.
        threads: how many tasks at a time Spark would run on this machine; so many ranges, each within a
            task's memory, fit at a time.
        place: says where Spark's tasks run.
        processes: gives the transport on processes of this machine; None: there is none.
    """

    def __init__(
        self,
        make: Callable[[], Transport],
        threads: int,
        place: Callable[[], SparkPlace] = spark_place,
        processes: Callable[[], InProcesses] | None = None,
    ) -> None:
        self._make, self._processes = make, processes
        self._place = place
        self._spark_transport: Transport | None = None
        self._threads = InThreads(threads)

    def start(self) -> None:
        self._transport().start()

    @property
    def slots(self) -> int:
        return self._transport().slots

    @property
    def begins_at_once(self) -> bool:
        return self._place() is not SparkPlace.NOT_STARTED

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int], in_threads: bool = True) -> Transport:
        slots = self._threads.slots
        if scan.why_not_direct() is None and is_small(
            scan.size, ranges(slots), slots, self._place(), in_threads
        ):
            if in_threads:
                return self._threads
            if self._processes is not None:
                return self._processes()
        elif self._processes is not None:
            self._processes().close()
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
