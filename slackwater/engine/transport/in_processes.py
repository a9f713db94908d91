"""The transport on processes of this machine, which begins within a second where Spark takes ten. As on
Spark, tasks are pickled, and tables go to range tasks in files.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from slackwater.engine.source.files import InputFile
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.blobs import BlobFiles, from_blob, to_blobs
from slackwater.engine.transport.in_process import InThreads, MapTask, NumberedTask, RangeTask
from slackwater.engine.transport.placement import Place
from slackwater.engine.transport.task_processes import Blob, TaskProcesses


class InProcesses(InThreads):
    """Transport on `processes`; what is gathered comes from threads of this process."""

    place: Place = "processes"

    def __init__(self, processes: TaskProcesses) -> None:
        super().__init__(processes.count)
        self._processes = processes

    def start(self) -> None:
        """Have the processes start; nobody waits for them."""
        self._processes.start()

    def close(self) -> None:
        self._processes.close()

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        with self.folder() as folder:
            files = BlobFiles(folder)
            places: dict[int, list[bytes]] = defaultdict(list)
            groups = scan.groups(self.slots)
            for number, place in self._processes.run(
                partial(_send, files, task, scan, (number, group)) for number, group in enumerate(groups)
            ):
                places[number].append(place)
            return _tables(
                self._processes.run(
                    partial(_reduce, files, reduce, number, places[number]) for number in range(ranges)
                )
            )

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        return _tables(self._processes.run(partial(_call, task, number) for number in range(count)))


def _send(
    files: BlobFiles, task: MapTask, scan: SliceScan, numbered_group: tuple[int, Sequence[InputFile]]
) -> Iterator[pa.RecordBatch]:
    number, group = numbered_group
    return files.send(task(scan.read(group)), str(number))


def _reduce(
    files: BlobFiles, reduce: RangeTask, number: int, places: Iterable[bytes]
) -> Iterator[pa.RecordBatch]:
    tables = (files.receive(pa.py_buffer(place)) for place in places)
    return to_blobs((number, table) for table in reduce(number, tables))


def _call(task: NumberedTask, number: int) -> Iterator[pa.RecordBatch]:
    return to_blobs((number, table) for table in task(number))


def _tables(blobs: Iterable[Blob]) -> list[pa.Table]:
    return [from_blob(pa.py_buffer(data)) for _, data in blobs]
