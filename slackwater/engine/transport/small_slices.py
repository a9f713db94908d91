"""The transport of a command: threads or processes for small slices, and Spark where it is needed."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pyarrow as pa

from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import (
    InThreads,
    MapTask,
    NumberedTask,
    PlacedTransport,
    RangeTask,
    Transport,
)
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.placement import On, Place, SliceNeeds, Workers, placement_of
from slackwater.runtime.memory import give_back
from slackwater.runtime.settings import SparkPlace, spark_place


class SparkWhereNeeded:
    """A transport that starts Spark when it is first needed: no JVM starts for a refusal, a small slice or a
    run that finds nothing to do; none at all where `on` is `here`.

    Args:
        make: makes the transport on Spark.
        threads: how many tasks at a time Spark would run on this machine; so many ranges, each within a
            task's memory, fit at a time.
        processes: gives the transport on processes of this machine, or None.
        on: where slices are to be replayed; `auto` leaves it to their size.
    """

    place: Place = "spark"

    def __init__(
        self,
        make: Callable[[], Transport],
        threads: int,
        place: Callable[[], SparkPlace] = spark_place,
        processes: Callable[[], InProcesses] | None = None,
        on: On = "auto",
    ) -> None:
        self._make, self._processes = make, processes
        self._spark_place, self._on = place, on
        self._transport_of_all: Transport | None = None
        self._threads = InThreads(threads)

    def start(self) -> None:
        self._transport().start()

    @property
    def slots(self) -> int:
        return self._transport().slots

    @property
    def begins_at_once(self) -> bool:
        return self._on == "here" or self._spark_place() is not SparkPlace.NOT_STARTED

    def for_slice(
        self, scan: SliceScan, ranges: Callable[[int], int], in_threads: bool = True
    ) -> PlacedTransport:
        workers = Workers(self._threads.slots, self._spark_place(), self._processes is not None)
        needs = SliceNeeds(scan.size, ranges(workers.slots), in_threads, scan.why_not_direct())
        place, reason = placement_of(needs, workers, self._on)
        if place == "threads":
            return PlacedTransport(self._threads, reason)
        if place == "processes":
            assert self._processes is not None
            return PlacedTransport(self._processes(), reason)
        if self._processes is not None:
            self._processes().close()
        give_back()
        return PlacedTransport(self, reason)

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        return self._transport().gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        return self._transport().shuffle(scan, task, ranges, reduce)

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        return self._transport().each(task, count)

    def folder(self) -> AbstractContextManager[str | None]:
        return self._transport().folder()

    def _transport(self) -> Transport:
        """The transport of what is no slice, or no small one."""
        if self._transport_of_all is None:
            self._transport_of_all = self._transport_here() if self._on == "here" else self._make()
        return self._transport_of_all

    def _transport_here(self) -> Transport:
        return self._threads if self._processes is None else self._processes()
