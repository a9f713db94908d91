"""The protocol of a transport, and the transport within one process, in its thread or in several."""

import itertools
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.engine.transport import task_errors
from slackwater.engine.transport.placement import Place, Placement
from slackwater.engine.transport.process_memory import forget_peak
from slackwater.engine.transport.task_folder import folder_of_tasks

Input = TypeVar("Input")
Result = TypeVar("Result")

MapTask = Callable[[Batches], Iterable[tuple[int, pa.Table]]]
RangeTask = Callable[[int, Iterable[pa.Table]], Iterable[pa.Table]]
NumberedTask = Callable[[int], Iterable[pa.Table]]

# Why a transport that knows no other replays a slice.
ONLY_TRANSPORT = "the caller has chosen it"


class Transport(Protocol):
    """Runs map and range tasks somewhere. Engines know only this."""

    @property
    def place(self) -> Place: ...

    def start(self) -> None:
        """Start whatever takes long to start. Calls after the first do nothing."""

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""

    @property
    def begins_at_once(self) -> bool:
        """Whether tasks begin without a start that takes many seconds."""

    def for_slice(
        self, scan: SliceScan, ranges: Callable[[int], int], in_threads: bool = True
    ) -> "PlacedTransport":
        """The transport that replays this slice soonest. `ranges`: tasks at a time → into how many ranges the
        slice is divided. Raises SparkNeeded where only Spark could, and may not start.
        """

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        """The tables that `task` yields over all of `scan`, to the driver: for small results."""

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        """Run `task` over `scan`, bring the tables of each range number (0 … ranges - 1) together, and run
        `reduce` once for each range, also for ranges that received nothing; it consumes all of its tables,
        one after the other. Results come to the driver: small outputs, counts and file lists."""

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        """Run `task` once for each number below `count`. Results as of `shuffle`, in any order."""

    def folder(self) -> AbstractContextManager[str | None]:
        """A folder for the files of tasks, which goes with the block; None where tasks run on other machines
        than the driver, so that they share none.
        """


class PlacedTransport(NamedTuple):
    """The transport that replays a slice, and why it is this one."""

    transport: Transport
    reason: str

    @property
    def placement(self) -> Placement:
        return Placement(self.transport.place, self.reason)


class InProcess:
    place: Place = "threads"

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def start(self) -> None:
        """Nothing to do."""

    @property
    def slots(self) -> int:
        return self._threads

    @property
    def begins_at_once(self) -> bool:
        return True

    def for_slice(
        self, scan: SliceScan, ranges: Callable[[int], int], in_threads: bool = True
    ) -> PlacedTransport:
        return PlacedTransport(self, ONLY_TRANSPORT)

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        return [table for _, table in self._run_map_tasks(scan, task)]

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        tables_by_range: dict[int, list[pa.Table]] = defaultdict(list)
        for number, table in self._run_map_tasks(scan, task):
            tables_by_range[number].append(table)
        return self._each(
            lambda number: reduce(number, _take_out(tables_by_range.pop(number, []))), range(ranges)
        )

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        return self._each(task, range(count))

    def folder(self) -> AbstractContextManager[str]:
        return folder_of_tasks()

    def _run_map_tasks(self, scan: SliceScan, task: MapTask) -> list[tuple[int, pa.Table]]:
        return self._each(lambda group: task(scan.read(group)), scan.groups(self._threads))

    def _each(self, work: Callable[[Input], Iterable[Result]], inputs: Iterable[Input]) -> list[Result]:
        if self._threads == 1:
            return [result for value in inputs for result in work(value)]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="task") as threads:
            return list(itertools.chain.from_iterable(threads.map(lambda value: list(work(value)), inputs)))


def _take_out(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """The tables, each held no longer than whoever takes it holds it."""
    tables.reverse()
    while tables:
        yield tables.pop()


class InThreads(InProcess):
    """Transport on threads in place of Spark: a task's error is the error that it would cause on Spark."""

    def _each(self, work: Callable[[Input], Iterable[Result]], inputs: Iterable[Input]) -> list[Result]:
        forget_peak()
        try:
            return super()._each(work, inputs)
        except Exception as error:
            raise task_errors.error_from_error(error, "".join(traceback.format_exception(error))) from error
