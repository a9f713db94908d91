"""How rows and results move between tasks: two operations, the same on Spark and within one process.

What crosses is opaque: one Arrow stream per (task, key-group range) into the shuffle, Arrow tables out of it.
The JVM sees no single row.
"""

import gc
import itertools
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines import task_errors
from slackwater.jobs.engines.coverage import Stretch, pieces
from slackwater.jobs.engines.inputs import InputFile, PinnedSource, SourceBatch, rewritten, to_datetime
from slackwater.jobs.engines.overrides import Overrides
from slackwater.jobs.engines.process_memory import forget_peak
from slackwater.jobs.engines.row_groups import ROWS_AT_ONCE, Arrivals, SourceFile
from slackwater.jobs.errors import RetryableError
from slackwater.jobs.runtime.versions import Work, checked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Given = TypeVar("Given")
Result = TypeVar("Result")
Batches = Iterator[SourceBatch]
MapTask = Callable[[Batches], Iterable[tuple[int, pa.Table]]]
RangeTask = Callable[[int, Iterable[pa.Table]], Iterable[pa.Table]]

GROUP_BYTES, SMALL_GROUP_BYTES = 64 << 20, 4 << 20
HERE_BYTES = 256 << 20  # the times of 150 MB: 0.4 s in two threads, 0.55 s as a job on two cores
_CHUNK_BYTES = 256 << 20
_COMPRESSED = pa.ipc.IpcWriteOptions(
    compression="lz4", use_threads=False
)  # by the task: the JVM, through which it goes, takes longer


@dataclass(frozen=True)
class SliceScan:
    """The rows of one slice as a map side reads them: the pinned source, its chosen files, the columns
    wanted, the parent run's version, what live runs have read at newer versions than that, and the changed
    arrivals that the run honours. Of `columns` those in `first` are wanted of every row, and the rest only of
    some; None: all. Of those in `may_lack` nothing is wanted but whether they hold nulls. About
    `rows_at_once` rows are read together.

    `why_not_direct` decides who reads: the task itself, or Spark's own scan of the same pinned version.
    """

    source: PinnedSource
    files: tuple[InputFile, ...]
    columns: tuple[str, ...]
    arrival: str
    from_ms: int
    to_ms: int
    start_ms: int
    before: PinnedSource | None = None
    restated: tuple[Stretch, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)
    first: tuple[str, ...] | None = None
    rows_at_once: int = ROWS_AT_ONCE
    may_lack: tuple[str, ...] = ()

    def groups(self, tasks_at_once: int = 1) -> list[tuple[InputFile, ...]]:
        """The files, or shares of large ones, in their order, in groups of about equal size, at least one
        group: of about GROUP_BYTES, and as many as keep `tasks_at_once` busy to the end; fewer where groups
        would be small."""
        size = self.size
        rounds = max(1, round(size / (GROUP_BYTES * tasks_at_once)))
        wanted = max(1, min(rounds * tasks_at_once, int(size / SMALL_GROUP_BYTES)))
        of_group = max(size, 1) / wanted
        shares = [
            share for file in self.files for share in file.shares(round(_bytes_wanted(file) / of_group))
        ]
        ends = itertools.accumulate(map(_bytes_wanted, shares))
        groups: dict[int, list[InputFile]] = {}
        for share, end in zip(shares, ends, strict=True):
            groups.setdefault(int((end - _bytes_wanted(share) / 2) / of_group), []).append(share)
        return [tuple(group) for group in groups.values()] or [()]

    @property
    def size(self) -> float:
        """About how many bytes of its files are of the slice."""
        return sum(map(_bytes_wanted, self.files))

    def why_not_direct(self) -> str | None:
        """Why tasks can't read the files themselves; None when they can."""
        if (
            self.before is not None
            and self.holds_unread()
            and not self.source.is_certain_since(self.before, self.restated)
        ):
            return "a log that no longer says which rows are new"
        return self.source.why_not_direct

    def holds_unread(self) -> bool:
        """Whether any file may hold rows of earlier arrival that no run has read."""
        return any(file.may_hold_unread for file in self.files)

    def read(self, group: Sequence[InputFile]) -> Batches:
        """The files of `group` as batches, large ones in pieces; row groups without rows of the slice are
        left out.
        """
        arrivals = Arrivals(
            self.arrival,
            self.from_ms,
            self.to_ms,
            tuple(self.overrides.true_arrivals(self.from_ms, self.to_ms)),
        )
        for file in group:
            source = SourceFile(self.source.uri, file, self.source.schema)
            yield from source.batches(self.columns, self.first, self.may_lack, self.rows_at_once, arrivals)


def _bytes_wanted(file: InputFile) -> float:
    return file.bytes * file.fraction


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

    def _each(self, work: Callable[[Given], Iterable[Result]], given: Iterable[Given]) -> list[Result]:
        """What `work` gives of each, in their order."""
        if self._threads == 1:
            return [found for one in given for found in work(one)]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="task") as threads:
            return list(itertools.chain.from_iterable(threads.map(lambda one: list(work(one)), given)))


class InThreads(InProcess):
    """Transport within this process for what would else be done on Spark; its errors are those that would
    come from there.
    """

    def _each(self, work: Callable[[Given], Iterable[Result]], given: Iterable[Given]) -> list[Result]:
        forget_peak()
        try:
            return super()._each(work, given)
        except Exception as error:
            raise task_errors.of_error(error, "".join(traceback.format_exception(error))) from error


class OnSpark:
    """Transport on a Spark session.

    Args:
        here_bytes: a scan of no more is gathered by threads of this process, if it may read the files itself:
            a job takes longer to start.
    """

    def __init__(self, spark: "SparkSession", here_bytes: int = HERE_BYTES) -> None:
        self._spark, self._here_bytes = spark, here_bytes

    def start(self) -> None:
        """The session is there."""

    @property
    def slots(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    def for_slice(self, scan: SliceScan, ranges: Callable[[int], int]) -> "Transport":
        return self

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        if scan.size > self._here_bytes or scan.why_not_direct() is not None:
            with _reported():
                return _tables(self._map(scan, task))
        return InThreads(os.cpu_count() or 1).gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            sent = (
                pair
                for batch in batches
                for pair in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
            )
            if (first := next(sent, None)) is not None:
                received = (
                    _decode(data.as_buffer()) for _, data in itertools.chain([first], sent) if data.is_valid
                )
                yield from _blobs((0, table) for table in reduce(first[0], received))

        from pyspark.sql.functions import col

        with _reported():
            # One empty row per range, so that each range runs even if nothing was sent to it.
            present = self._spark.range(0, ranges, 1, 1).selectExpr(
                "cast(id as int) as number", "cast(null as binary) as data"
            )
            sent = self._map(scan, task).union(present).repartitionById(ranges, col("number"))
            return _tables(_in_tasks(sent, run))

    def _map(self, scan: SliceScan, task: MapTask) -> "DataFrame":
        if scan.why_not_direct() is not None:
            schema = pa.schema([scan.source.schema.field(name) for name in scan.columns])
            return _in_tasks(self._scan(scan), lambda batches: _blobs(task(_scanned(batches, schema))))
        groups = scan.groups(self._spark.sparkContext.defaultParallelism)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from _blobs(task(scan.read(groups[index])))

        return _in_tasks(self._spark.range(0, len(groups), 1, len(groups)), run)

    def _scan(self, scan: SliceScan) -> "DataFrame":
        arrival = _column(scan.arrival)
        rows = self._rows_at(scan, scan.source.version)
        wanted = (arrival >= to_datetime(scan.from_ms)) & (arrival < to_datetime(scan.to_ms))
        for true_ms in scan.overrides.true_arrivals(scan.from_ms, scan.to_ms):
            wanted = wanted | ((arrival >= to_datetime(true_ms)) & (arrival < to_datetime(true_ms + 1)))
        in_slice = rows.where(wanted)
        # Where the log is gone, only the rows say whether a deletion vector hides some that were read.
        if not scan.holds_unread() and (scan.before is None or scan.source.has_log_since(scan.before)):
            return in_slice
        earlier = arrival.isNull() | (
            (arrival >= to_datetime(scan.start_ms)) & (arrival < to_datetime(scan.from_ms))
        )
        unread = rows.where(earlier)
        if scan.before is not None:
            read_before = self._read_before(scan, scan.before).where(earlier)
            is_certain = scan.source.is_certain_since(scan.before, scan.restated)
            if not is_certain and not read_before.exceptAll(unread).isEmpty():
                raise rewritten(scan.source, scan.before, "a comparison of both versions")
            unread = unread.exceptAll(read_before)
        return in_slice.unionByName(unread)

    def _rows_at(self, scan: SliceScan, version: int) -> "DataFrame":
        """The source at `version`, its columns named and typed as in the version that the slice reads; null
        where it lacked one.
        """
        from pyspark.sql.functions import lit

        frame = self._spark.read.format("delta").option("versionAsOf", version).load(scan.source.uri)
        if version == scan.source.version:
            return frame.select(*map(_column, scan.columns))
        types = {field.name: field.dataType for field in self._rows_at(scan, scan.source.version).schema}
        names = scan.source.names_at(version)
        values = [lit(None) if names[name] is None else _column(str(names[name])) for name in scan.columns]
        return frame.select(
            *(value.cast(types[name]).alias(name) for name, value in zip(scan.columns, values, strict=True))
        )

    def _read_before(self, scan: SliceScan, before: PinnedSource) -> "DataFrame":
        """What live runs have read: of each arrival, the rows of the newest version that any of them has
        pinned.
        """
        arrival = _column(scan.arrival)
        known = pieces(scan.restated)
        if not known:
            return self._rows_at(scan, before.version)
        newest = max(piece.version for piece in known)
        read = self._rows_at(scan, before.version).where(arrival >= to_datetime(known[-1].to_ms))
        read = read.unionByName(self._rows_at(scan, newest).where(arrival.isNull()))
        low = None
        for piece in known:
            part = self._rows_at(scan, piece.version).where(arrival < to_datetime(piece.to_ms))
            read = read.unionByName(part if low is None else part.where(arrival >= to_datetime(low)))
            low = piece.to_ms
        return read


def _column(name: str) -> "Column":
    """A column by its name, whatever characters that has."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _scanned(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Batches:
    for batch in batches:
        yield SourceBatch(pa.Table.from_batches([batch]).cast(schema), None, True)


def _in_tasks(frame: "DataFrame", work: Work) -> "DataFrame":
    """(number, data) of what `work` gives of the batches of each partition."""
    from pyspark.serializers import CloudPickleSerializer

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _begin_task()
        yield from work(batches)

    return frame.mapInArrow(checked(CloudPickleSerializer().dumps(run)), "number int, data binary")


def _begin_task() -> None:
    """In a process of Python tasks, before each: what memory others took is not this one's. And Spark has it
    search all objects for cyclic garbage after each task; the modules, which are most of them, are none."""
    forget_peak()
    if not gc.get_freeze_count():
        gc.freeze()


def _blobs(tables: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.RecordBatch]:
    for number, table in tables:
        rows = max(1, table.num_rows * _CHUNK_BYTES // max(table.nbytes, 1))
        for start in range(0, max(table.num_rows, 1), rows):
            yield pa.record_batch(
                [pa.array([number], pa.int32()), _encode(table.slice(start, rows))], names=["number", "data"]
            )


def _encode(table: pa.Table) -> pa.Array:
    """One binary value that holds the table, without a copy of the stream that it is written to."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, data.size], np.int32)), data]
    )


def _decode(data: Any) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


class DriverDied(RetryableError):
    """The JVM of Spark's driver has gone while it was at work."""


@contextmanager
def _reported() -> Iterator[None]:
    """What Spark reports becomes an error that says whose fault it is."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PythonException

    try:
        with _interrupts():
            yield
    except PythonException as error:
        raise task_errors.of_trace(str(error)) from error
    except Py4JJavaError as error:  # the JVM is there, and says what it has met
        failure = task_errors.of_java(str(error))
        if failure is None:
            raise
        raise failure from error
    except (Py4JError, ConnectionError) as error:
        raise DriverDied(
            "the Java process of Spark's driver has gone: it ran out of memory, as it then has said above, "
            "or was ended; what it was at "
            "work on is not committed. Repeat the command; where memory lacked, with more of it: "
            "`--driver-memory 4g` for spark-submit, "
            "else PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell' in the environment."
        ) from error


@contextmanager
def _interrupts() -> Iterator[None]:
    """An interrupt stays one: that the jobs which it has cancelled end with errors is no failure."""
    try:
        yield
    except Exception as error:
        before = error.__context__
        while before is not None:
            if isinstance(before, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            before = before.__context__
        raise


def _tables(frame: "DataFrame") -> list[pa.Table]:
    return [_decode(data.as_buffer()) for data in frame.toArrow().column("data")]
