"""The transport on Spark: map tasks over files or over rows that Spark has scanned, one shuffle by key-group
range, and range tasks. Tables cross as blobs, which a shuffle on one machine has in files (`blobs`).
"""

import gc
import itertools
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, reduce
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.computed_columns import compute, is_computed, stored_names, type_as_stored
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.engine.transport import task_errors
from slackwater.engine.transport.blobs import BlobFiles, from_blob, to_blobs
from slackwater.engine.transport.in_process import (
    ONLY_TRANSPORT,
    InThreads,
    MapTask,
    NumberedTask,
    PlacedTransport,
    RangeTask,
)
from slackwater.engine.transport.job_names import naming_jobs
from slackwater.engine.transport.placement import Place
from slackwater.engine.transport.process_memory import forget_peak
from slackwater.errors import RetryableError
from slackwater.runtime.settings import is_local
from slackwater.runtime.versions import Work, with_version_check
from slackwater.tables.delta.statistics import OFFSETS_WITH_SECONDS_END
from slackwater.windowing.times import LATEST_MS, to_datetime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Tables with range numbers → record batches (number, data); one such data → the table.
Send = Callable[[Iterable[tuple[int, pa.Table]]], Iterator[pa.RecordBatch]]
Receive = Callable[[pa.Buffer], pa.Table]

_TRIES = 3
_URI_START = re.compile(r"^[A-Za-z][\w+.-]*:(//[^/]*)?(?=/)")
_BYTES_AT_ONCE = 64 << 20
HERE_BYTES = 256 << 20  # reading the times of 150 MB takes 0.4 s in two threads, as a job on two cores 0.55 s


class OnSpark:
    """Transport on a Spark session; threads gather scans up to `here_bytes`, faster than a job would."""

    place: Place = "spark"

    def __init__(self, spark: "SparkSession", here_bytes: int = HERE_BYTES) -> None:
        self._spark, self._here_bytes = spark, here_bytes

    def start(self) -> None:
        """Nothing to do: the session exists."""

    @property
    def slots(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    @property
    def begins_at_once(self) -> bool:
        return True

    def for_slice(
        self, scan: SliceScan, ranges: Callable[[int], int], in_threads: bool = True
    ) -> PlacedTransport:
        return PlacedTransport(self, ONLY_TRANSPORT)

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        if scan.size > self._here_bytes or scan.why_not_direct() is not None:
            return self._tables(lambda: self._map(scan, task))
        return InThreads(os.cpu_count() or 1).gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        with self.folder() as folder:
            if folder is None:
                return self._shuffle(scan, task, ranges, reduce, (to_blobs, from_blob))
            files = BlobFiles(folder)

            def send(tables: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.RecordBatch]:
                from pyspark import TaskContext

                context = TaskContext.get()
                assert context is not None, "it is called by tasks"
                return files.send(tables, str(context.partitionId()))

            return self._shuffle(scan, task, ranges, reduce, (send, files.receive))

    def _shuffle(
        self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask, way: tuple[Send, Receive]
    ) -> list[pa.Table]:
        send, receive = way

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            tables = (
                pair
                for batch in batches
                for pair in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
            )
            if (first := next(tables, None)) is not None:
                tables_of_range = (
                    receive(data.as_buffer()) for _, data in itertools.chain([first], tables) if data.is_valid
                )
                yield from to_blobs((0, table) for table in reduce(first[0], tables_of_range))

        from pyspark.sql.functions import col

        def frame() -> "DataFrame":
            # One empty row per range, so that each range runs even if nothing was sent to it.
            present = self._spark.range(0, ranges, 1, 1).selectExpr(
                "cast(id as int) as number", "cast(null as binary) as data"
            )
            tables = self._map(scan, task, send).union(present).repartitionById(ranges, col("number"))
            return _in_tasks(tables, run)

        return self._tables(frame)

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from to_blobs((number, table) for table in task(number))

        return self._tables(lambda: _in_tasks(self._spark.range(0, count, 1, count), run)) if count else []

    def folder(self) -> AbstractContextManager[str | None]:
        context = self._spark.sparkContext
        if not is_local(context.master):
            return nullcontext()
        return TemporaryDirectory(prefix="tasks-", dir=context._temp_dir, ignore_cleanup_errors=True)

    def _tables(self, make_frame: "Callable[[], DataFrame]") -> list[pa.Table]:
        """The tables in the column `data` of a frame, made and run once more where executors were lost."""
        with naming_jobs(self._spark.sparkContext):
            for _ in range(_TRIES - 1):
                with suppress(task_errors.ExecutorsLost):
                    return _collect(make_frame)
            return _collect(make_frame)

    def _map(self, scan: SliceScan, task: MapTask, send: Send = to_blobs) -> "DataFrame":
        from pyspark.sql import DataFrame

        if scan.why_not_direct() is not None:
            if scan.others:
                return reduce(DataFrame.union, (self._map(part, task, send) for part in scan.parts))
            return self._map_scanned(scan, task, send)
        groups = scan.groups(self._spark.sparkContext.defaultParallelism)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from send(task(scan.read(groups[index])))

        return _in_tasks(self._spark.range(0, len(groups), 1, len(groups)), run)

    def _map_scanned(self, scan: SliceScan, task: MapTask, send: Send) -> "DataFrame":
        """`task` over one source that Spark scans: the slice's rows, and earlier rows in `UnreadFiles`."""
        from pyspark.sql import DataFrame

        own_scan, naming = scan.with_own_columns(), scan.naming
        schema = scan.source.schema if naming is None else naming.own_schema
        columns = own_scan.columns
        own_scan = replace(own_scan, columns=tuple(stored_names(schema, columns)))

        def map_rows(rows: "DataFrame", unread: UnreadFiles | None) -> "DataFrame":
            return _in_tasks(
                rows,
                lambda batches: send(
                    task(
                        scan.as_common(
                            _batches_of_scan(_larger(batches, scan.rows_at_once), schema, columns, unread)
                        )
                    )
                ),
            )

        unread_files: dict[UnreadFiles, list[InputFile]] = {}
        for file in scan.files:
            if file.may_hold_unread:
                unread = UnreadFiles(file.listed_at or scan.source.version, file.read_to_ms)
                unread_files.setdefault(unread, []).append(file)
        frames = [map_rows(self._rows_of_slice(own_scan), None)]
        frames += [
            map_rows(self._unread_rows(own_scan, unread, files), unread)
            for unread, files in unread_files.items()
        ]
        return reduce(DataFrame.union, frames)

    def _rows_of_slice(self, scan: SliceScan) -> "DataFrame":
        if is_computed(scan.source.schema.field(scan.arrival)):
            return self._rows_at(scan, scan.source.version)  # whoever judges the rows computes their arrivals
        arrival = _arrival(scan, min((scan.from_ms, *scan.overrides.true_arrivals(scan.from_ms, scan.to_ms))))
        condition = (arrival >= to_datetime(scan.from_ms)) & (arrival < to_datetime(scan.to_ms))
        for true_ms in scan.overrides.true_arrivals(scan.from_ms, scan.to_ms):
            condition = condition | ((arrival >= to_datetime(true_ms)) & (arrival < to_datetime(true_ms + 1)))
        return self._rows_at(scan, scan.source.version).where(condition)

    def _unread_rows(self, scan: SliceScan, unread: "UnreadFiles", files: Sequence[InputFile]) -> "DataFrame":
        from pyspark.sql.functions import unix_millis

        if is_computed(scan.source.schema.field(scan.arrival)):
            return self._rows_at(scan, unread.version, files)
        first_ms = scan.start_ms if unread.read_to_ms is None else max(scan.start_ms, unread.read_to_ms)
        arrival = _arrival(scan, first_ms)
        is_unread = (arrival >= to_datetime(first_ms)) & (arrival < to_datetime(scan.from_ms))
        if unread.read_to_ms is None:
            is_unread = is_unread | arrival.isNull() | (unix_millis(arrival) > LATEST_MS)
        return self._rows_at(scan, unread.version, files).where(is_unread)

    def _rows_at(self, scan: SliceScan, version: int, files: Sequence[InputFile] = ()) -> "DataFrame":
        """The source's rows at `version`, or in `files`, with the names and types that the slice reads."""
        from pyspark.sql.functions import lit

        frame = self._spark.read.format("delta").option("versionAsOf", version).load(scan.source.uri)
        if files:
            frame = frame.where(_stands_in(files))
        if version == scan.source.version:
            return frame.select(*map(_column, scan.columns))
        types = {field.name: field.dataType for field in self._rows_at(scan, scan.source.version).schema}
        names = scan.source.names_at(version)
        values = [lit(None) if names[name] is None else _column(str(names[name])) for name in scan.columns]
        return frame.select(
            *(value.cast(types[name]).alias(name) for name, value in zip(scan.columns, values, strict=True))
        )


class UnreadFiles(NamedTuple):
    """Files that may hold unread rows: a version that lists them, and how far a restatement has read them."""

    version: int
    read_to_ms: int | None


def _stands_in(files: Sequence[InputFile]) -> "Column":
    """Whether a row of a Delta table is in one of these files. Spark names them as parts of a URI; the log
    names a file of another table by a URI, whose scheme Spark may write otherwise.
    """
    from pyspark.sql.functions import col, lit, replace, url_decode

    path = url_decode(replace(col("_metadata.file_path"), lit("+"), lit("%2B")))
    names = (_URI_START.sub("", file.path).lstrip("/") for file in files)
    return reduce(operator.or_, (path.endswith(f"/{name}") for name in names))


def _column(name: str) -> "Column":
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _arrival(scan: SliceScan, first_ms: int) -> "Column":
    """The arrival column; plus zero, which stops Delta's file skipping, if the log's bounds may be skewed."""
    from pyspark.sql.functions import expr

    arrival = _column(scan.arrival)
    may_be_skewed = to_datetime(first_ms) < OFFSETS_WITH_SECONDS_END
    return arrival + expr("INTERVAL 0 SECOND") if may_be_skewed else arrival


def _larger(batches: Iterator[pa.RecordBatch], most_rows: int) -> Iterator[pa.Table]:
    """Record batches together, up to so many rows or _BYTES_AT_ONCE: Spark gives 10,000 rows at a time."""
    pieces, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        if pieces and (rows + batch.num_rows > most_rows or size + batch.nbytes > _BYTES_AT_ONCE):
            yield pa.Table.from_batches(pieces)
            pieces, rows, size = [], 0, 0
        pieces.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if pieces:
        yield pa.Table.from_batches(pieces)


def _batches_of_scan(
    tables: Iterator[pa.Table], schema: pa.Schema, columns: Sequence[str], unread: UnreadFiles | None
) -> Batches:
    """Batches with `columns` of rows that Spark has scanned: of the slice, or of files with unread rows."""
    for table in tables:
        stored_schema = pa.schema(
            [(name, type_as_stored(schema.field(name), is_local_in_file=True)) for name in table.column_names]
        )
        computed_rows = compute(schema, columns, table.combine_chunks().cast(stored_schema))
        yield SourceBatch(
            computed_rows.rows,
            None,
            may_hold_unread=unread is not None,
            read_to_ms=None if unread is None else unread.read_to_ms,
            is_part=unread is not None,
            failures=computed_rows.failures,
            item_numbers=computed_rows.item_numbers,
        )


def _in_tasks(frame: "DataFrame", work: Work) -> "DataFrame":
    """The (number, data) rows that `work` makes of the batches of each Spark partition."""
    from pyspark.serializers import CloudPickleSerializer

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _begin_task()
        yield from work(batches)

    return frame.mapInArrow(with_version_check(CloudPickleSerializer().dumps(run)), "number int, data binary")


def _begin_task() -> None:
    """Prepare a Python worker for its next task: forget the memory peak of earlier tasks, and set modules
    aside from Spark's search for cyclic garbage after each task.
    """
    forget_peak()
    _set_modules_aside()


@cache
def _set_modules_aside() -> None:
    """Once a process: asking `gc` whether it was done takes a walk over all that was set aside."""
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
        raise task_errors.error_from_trace(str(error)) from error
    except Py4JJavaError as error:  # the JVM is alive, and this is an exception of its own
        failure = task_errors.error_from_java(str(error))
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


def _collect(make_frame: "Callable[[], DataFrame]") -> list[pa.Table]:
    with spark_errors():
        return [from_blob(data.as_buffer()) for data in make_frame().toArrow().column("data")]
