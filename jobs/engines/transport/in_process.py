"""How rows come to the functions of an engine, as a protocol; and the transport of one process, in this
thread or in several.
"""

import itertools
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import pyarrow as pa

from slackwater.jobs.engines.source.scan import Batches, SliceScan
from slackwater.jobs.engines.transport import task_errors
from slackwater.jobs.engines.transport.process_memory import forget_peak

Given = TypeVar("Given")


Result = TypeVar("Result")


MapTask = Callable[[Batches], Iterable[tuple[int, pa.Table]]]


RangeTask = Callable[[int, Iterable[pa.Table]], Iterable[pa.Table]]


class Transport(Protocol):
    """Runs map and range tasks somewhere. Engines know only this."""

    def start(self) -> None:
        """Make ready what takes long, once; may be called again."""

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int]) -> "Transport":
        """What replays this slice sooner, else this one. `ranges`: into how many ranges it is divided, of so
        many tasks at a time.
        """

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        """The tables that `task` yields over all of `scan`; range numbers are ignored. For small results:
        they come to the driver.
        """

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        """Run `task` over `scan`, bring the tables of each range number (0 … ranges - 1) together, run
        `reduce` once per range, also for ranges that received nothing; it takes all that it is given, one
        table after the other. Results come to the driver: small outputs, counts and file lists."""


class InProcess:
    """Transport without Spark: the same tasks, in `threads` of this process."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def start(self) -> None:
        """Nothing takes long."""

    @property
    def slots(self) -> int:
        return self._threads

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int]) -> "Transport":
        return self

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        return [table for _, table in self._mapped(scan, task)]

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        received: dict[int, list[pa.Table]] = defaultdict(list)
        for number, table in self._mapped(scan, task):
            received[number].append(table)
        return self._each(lambda number: reduce(number, received.pop(number, [])), range(ranges))

    def _mapped(self, scan: SliceScan, task: MapTask) -> list[tuple[int, pa.Table]]:
        return self._each(lambda group: task(scan.read(group)), scan.groups(self._threads))

    def _each(self, work: Callable[[Given], Iterable[Result]], inputs: Iterable[Given]) -> list[Result]:
        """What `work` gives of each, in their order."""
        if self._threads == 1:
            return [result for one in inputs for result in work(one)]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="task") as threads:
            return list(itertools.chain.from_iterable(threads.map(lambda one: list(work(one)), inputs)))


class InThreads(InProcess):
    """Transport within this process for what would else be done on Spark; its errors are those that would
    come from there.
    """

    def _each(self, work: Callable[[Given], Iterable[Result]], inputs: Iterable[Given]) -> list[Result]:
        forget_peak()
        try:
            return super()._each(work, inputs)
        except Exception as error:
            raise task_errors.of_error(error, "".join(traceback.format_exception(error))) from error
