"""The transport on Spark: map tasks that read files or scanned rows, one shuffle by key-group range, range
tasks.

Rows cross as Arrow IPC in binary columns. No engine is known here.
"""

import gc
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.source.batches import SourceBatch
from slackwater.jobs.engines.source.coverage import pieces
from slackwater.jobs.engines.source.pinned_source import PinnedSource, rewritten
from slackwater.jobs.engines.transport import task_errors
from slackwater.jobs.engines.transport.process_memory import forget_peak
from slackwater.jobs.errors import RetryableError
from slackwater.jobs.runtime.versions import Work, with_version_check
from slackwater.windowing.times import to_datetime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
from slackwater.jobs.engines.source.scan import Batches, SliceScan
from slackwater.jobs.engines.transport.in_process import InThreads, MapTask, RangeTask, Transport

HERE_BYTES = 256 << 20  # the times of 150 MB: 0.4 s in two threads, 0.55 s as a job on two cores


_CHUNK_BYTES = 256 << 20


_COMPRESSED = pa.ipc.IpcWriteOptions(
    compression="lz4", use_threads=False
)  # by the task: the JVM, through which it goes, takes longer


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
            with spark_errors():
                return _tables(self._map(scan, task))
        return InThreads(os.cpu_count() or 1).gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            tables = (
                pair
                for batch in batches
                for pair in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
            )
            if (first := next(tables, None)) is not None:
                received = (
                    _decode(data.as_buffer()) for _, data in itertools.chain([first], tables) if data.is_valid
                )
                yield from _blobs((0, table) for table in reduce(first[0], received))

        from pyspark.sql.functions import col

        with spark_errors():
            # One empty row per range, so that each range runs even if nothing was sent to it.
            present = self._spark.range(0, ranges, 1, 1).selectExpr(
                "cast(id as int) as number", "cast(null as binary) as data"
            )
            tables = self._map(scan, task).union(present).repartitionById(ranges, col("number"))
            return _tables(_in_tasks(tables, run))

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
        condition = (arrival >= to_datetime(scan.from_ms)) & (arrival < to_datetime(scan.to_ms))
        for true_ms in scan.overrides.true_arrivals(scan.from_ms, scan.to_ms):
            condition = condition | ((arrival >= to_datetime(true_ms)) & (arrival < to_datetime(true_ms + 1)))
        in_slice = rows.where(condition)
        # Where the log is gone, only the rows say whether a deletion vector hides some that were read.
        if not scan.holds_unread() and (scan.before is None or scan.source.has_log_since(scan.before)):
            return in_slice
        earlier = arrival.isNull() | (
            (arrival >= to_datetime(scan.start_ms)) & (arrival < to_datetime(scan.from_ms))
        )
        unread = rows.where(earlier)
        if scan.before is not None:
            read_before = self._read_before(scan, scan.before).where(earlier)
            is_certain = scan.source.is_certain_since(scan.before, scan.newer_reads)
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
        pieces_read = pieces(scan.newer_reads)
        if not pieces_read:
            return self._rows_at(scan, before.version)
        newest = max(piece.version for piece in pieces_read)
        read = self._rows_at(scan, before.version).where(arrival >= to_datetime(pieces_read[-1].to_ms))
        read = read.unionByName(self._rows_at(scan, newest).where(arrival.isNull()))
        low = None
        for piece in pieces_read:
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

    return frame.mapInArrow(with_version_check(CloudPickleSerializer().dumps(run)), "number int, data binary")


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
def spark_errors() -> Iterator[None]:
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
