"""The transport on Spark: map tasks over files or over rows that Spark has scanned, one shuffle by key-group
range, and range tasks.

Tables cross as blobs, see `table_blobs`. No engine is known here.
"""

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.jobs.engines.source.batches import SourceBatch
from slackwater.jobs.engines.source.coverage import pieces
from slackwater.jobs.engines.source.pinned_source import PinnedSource, rewritten
from slackwater.jobs.engines.source.scan import Batches, SliceScan
from slackwater.jobs.engines.transport import task_errors
from slackwater.jobs.engines.transport.in_process import InThreads, MapTask, RangeTask, Transport
from slackwater.jobs.engines.transport.process_memory import forget_peak
from slackwater.jobs.engines.transport.table_blobs import from_blob, to_blobs
from slackwater.jobs.errors import RetryableError
from slackwater.jobs.runtime.versions import Work, with_version_check
from slackwater.windowing.times import to_datetime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HERE_BYTES = 256 << 20  # reading the times of 150 MB takes 0.4 s in two threads, as a job on two cores 0.55 s


class OnSpark:
    """Transport on a Spark session.

    Args:
        here_bytes: a scan of at most so many bytes is gathered by threads of this process, if it can read the
            files itself: a job would take longer to start.
    """

    def __init__(self, spark: "SparkSession", here_bytes: int = HERE_BYTES) -> None:
        self._spark, self._here_bytes = spark, here_bytes

    def start(self) -> None:
        """Nothing to do: the session exists."""

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
                tables_of_range = (
                    from_blob(data) for _, data in itertools.chain([first], tables) if data.is_valid
                )
                yield from to_blobs((0, table) for table in reduce(first[0], tables_of_range))

        from pyspark.sql.functions import col

        with spark_errors():
            # One empty row per range, so that each range runs even if nothing was sent to it.
            present = self._spark.range(0, ranges, 1, 1).selectExpr(
                "cast(id as int) as number", "cast(null as binary) as data"
            )
            tables = self._map(scan, task).union(present).repartitionById(ranges, col("number"))
            return _tables(_in_tasks(tables, run))

    def _map(self, scan: SliceScan, task: MapTask) -> "DataFrame":
        from pyspark.sql import DataFrame

        if scan.why_not_direct() is not None:
            if scan.others:
                return reduce(DataFrame.union, (self._map(part, task) for part in scan.parts))
            return self._map_scanned(scan, task)
        groups = scan.groups(self._spark.sparkContext.defaultParallelism)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from to_blobs(task(scan.read(groups[index])))

        return _in_tasks(self._spark.range(0, len(groups), 1, len(groups)), run)

    def _map_scanned(self, scan: SliceScan, task: MapTask) -> "DataFrame":
        """`task` over the rows of one source, which Spark scans."""
        own_scan, naming = scan.of_own_columns(), scan.naming
        columns = scan.source.schema if naming is None else naming.own_schema
        schema = pa.schema([columns.field(name) for name in own_scan.columns])
        return _in_tasks(
            self._scan(own_scan),
            lambda batches: to_blobs(task(scan.as_common(_batches_of_scan(batches, schema)))),
        )

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
        """The rows of the source at `version`, its columns named and typed as in the version that the slice
        reads; a column that it lacked is null.
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
        """The rows that live runs have read: of each arrival, those of the newest version at which any of
        them has read it.
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
    """A column by its name, whatever characters are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _batches_of_scan(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Batches:
    for batch in batches:
        yield SourceBatch(pa.Table.from_batches([batch]).cast(schema), None, True)


def _in_tasks(frame: "DataFrame", work: Work) -> "DataFrame":
    """The (number, data) rows that `work` makes of the batches of each Spark partition."""
    from pyspark.serializers import CloudPickleSerializer

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _begin_task()
        yield from work(batches)

    return frame.mapInArrow(with_version_check(CloudPickleSerializer().dumps(run)), "number int, data binary")


def _begin_task() -> None:
    """Prepare a Python worker process for its next task. The memory that earlier tasks took does not count as
    the task's. And Spark lets the process search all objects for cyclic garbage after each task, so that the
    objects of modules, most of all, are set aside."""
    forget_peak()
    if not gc.get_freeze_count():
        gc.freeze()


class DriverDied(RetryableError):
    """The JVM of Spark's driver has ended while it was at work."""


@contextmanager
def spark_errors() -> Iterator[None]:
    """Inside the block an error that Spark reports becomes one that says whose fault it is."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PythonException

    try:
        with _interrupts():
            yield
    except PythonException as error:
        raise task_errors.of_trace(str(error)) from error
    except Py4JJavaError as error:  # the JVM is alive, and this is an exception of its own
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
    """Inside the block an interrupt stays an interrupt, although the jobs that it cancels end with errors."""
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
    return [from_blob(data) for data in frame.toArrow().column("data")]
