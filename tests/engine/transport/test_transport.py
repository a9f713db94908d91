"""What goes through a transport comes out the same on Spark and in one process, whoever reads the source's
files.
"""

import gc
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.source import scan as scans
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.engine.transport import on_spark as spark_transport
from slackwater.engine.transport.in_process import InProcess, InThreads, Transport
from slackwater.engine.transport.job_names import jobs_called
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.engine.transport.task_errors import TaskFailed
from slackwater.pipelines import DeltaSource
from slackwater.runtime import versions
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.times import to_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("a", TIME), ("row", pa.int64()), ("k", pa.string()), ("day", pa.date32())])


def commit(uri: Path, rows: dict[int, float | None], day: datetime | None = None) -> PinnedSource:
    """One commit of rows, given as number → hours of arrival after the start; in one file, if a `day` for all
    of them is given.
    """
    moments = {row: None if hours is None else START + timedelta(hours=hours) for row, hours in rows.items()}
    values = [
        {"a": at, "row": row, "k": f"k{row % 3}", "day": (day or at) and (day or at).date()}
        for row, at in moments.items()
    ]
    write_deltalake(
        str(uri), pa.Table.from_pylist(values, schema=SCHEMA), mode="append", partition_by=["day"]
    )
    return pin(DeltaSource("t", event_time="a", arrival_time="a"), str(uri))


def scan_of(
    source: PinnedSource, before: PinnedSource | None = None, hours: tuple[int, int] = (0, 48)
) -> SliceScan:
    low, high = (to_ms(START + timedelta(hours=hour)) for hour in hours)
    return SliceScan(
        source, tuple(source.files(low, high, "a", before)), tuple(SCHEMA.names), "a", low, high, low, before
    )


def of_groups(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Groups are of so many bytes."""
    for name in ("GROUP_BYTES", "SMALL_GROUP_BYTES"):
        monkeypatch.setattr(scans, name, size)


def judging(low: int, high: int) -> Callable[[Batches], Iterator[tuple[int, pa.Table]]]:
    """A map task: rows of the slice to the range of their number, and rows without an arrival that are this
    run's to range 0.
    """

    def task(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        for batch in batches:
            arrival = batch.rows.column("a")
            ms = pc.cast(arrival, "int64")
            inside = batch.rows.filter(pc.and_(pc.greater_equal(ms, low * 1000), pc.less(ms, high * 1000)))
            for number in (0, 1):
                yield number, inside.filter(pc.equal(pc.bit_wise_and(inside.column("row"), 1), number))
            if batch.may_hold_unread:
                yield 0, batch.rows.filter(pc.is_null(arrival))

    return task


def summing(number: int, received: Iterable[pa.Table]) -> Iterable[pa.Table]:
    tables = list(received)
    rows = pa.concat_tables(tables).sort_by("row") if tables else None
    yield pa.table({"range": [number], "tables": [len(tables)]})
    if rows is not None:
        yield rows


def gathered(carrier: Transport, scan: SliceScan) -> list[dict[str, Any]]:
    tables = carrier.gather(scan, judging(scan.from_ms, scan.to_ms))
    return sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["row"])


def shuffled(carrier: Transport, scan: SliceScan, ranges: int) -> dict[int, list[int]]:
    """Row numbers by range."""
    rows_by_range: dict[int, list[int]] = {}
    number = None
    for table in carrier.shuffle(scan, judging(scan.from_ms, scan.to_ms), ranges, summing):
        if "range" in table.column_names:
            number = table.column("range")[0].as_py()
            rows_by_range[number] = []
        else:
            assert number is not None
            rows_by_range[number] += table.column("row").to_pylist()
    return rows_by_range


ROWS = {0: 1.0, 1: 2.0, 2: 30.0, 3: 47.9, 4: 48.0, 5: None, 6: 30.5, 7: -0.5}
IN_SLICE = [0, 1, 2, 3, 5, 6]


class TestInProcess:
    def test_a_gather_brings_what_the_tasks_gave(self, tmp_path: Path) -> None:
        assert [row["row"] for row in gathered(InProcess(), scan_of(commit(tmp_path, ROWS)))] == IN_SLICE

    def test_a_shuffle_brings_each_range_together_and_runs_empty_ones_too(self, tmp_path: Path) -> None:
        source = commit(tmp_path, ROWS)
        assert shuffled(InProcess(), scan_of(source), 3) == {0: [0, 2, 5, 6], 1: [1, 3], 2: []}

    def test_a_slice_without_files_still_runs_every_range(self, tmp_path: Path) -> None:
        source = commit(tmp_path, {1: 1.0})
        scan = scan_of(source, hours=(100, 124))
        assert (scan.files, scan.groups()) == ((), [()])
        assert shuffled(InProcess(), scan, 2) == {0: [], 1: []}


class TestInThreads:
    def test_they_give_what_one_thread_gives(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        scan = scan_of(commit(tmp_path, ROWS))
        of_groups(monkeypatch, scan.files[0].bytes)
        assert gathered(InThreads(3), scan) == gathered(InProcess(), scan)
        assert list(shuffled(InThreads(3), scan, 5).items()) == list(shuffled(InProcess(), scan, 5).items())

    def test_tasks_run_beside_each_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        scan = scan_of(commit(tmp_path, ROWS))
        of_groups(monkeypatch, scan.files[0].bytes)
        met = threading.Barrier(2, timeout=30)

        def meeting(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
            for number, _ in enumerate(batches):
                if not number:
                    met.wait()
            yield 0, pa.table({})

        assert len(scan.groups(2)) == 2
        InThreads(2).gather(scan, meeting)
        with pytest.raises(TaskFailed, match="BrokenBarrierError"):
            met.abort()
            InThreads(2).gather(scan, meeting)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_an_error_is_told_as_spark_tells_it(self, tmp_path: Path, threads: int) -> None:
        def failing(number: int, received: Iterable[pa.Table]) -> Iterator[pa.Table]:
            raise UserCodeError("the sum does not fit bigint")

        scan = scan_of(commit(tmp_path, ROWS))
        with pytest.raises(
            TaskFailed,
            match=r"^a task failed: slackwater.windowing.errors.UserCodeError: the sum does not fit bigint",
        ) as error:
            InThreads(threads).shuffle(scan, judging(scan.from_ms, scan.to_ms), 2, failing)
        assert "Traceback" in error.value.trace


class TestGroups:
    def test_files_are_read_in_groups_of_about_equal_size_that_keep_their_order(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for row in range(6):
            source = commit(tmp_path, {row: float(row)})
        scan = scan_of(source)
        size = scan.files[0].bytes
        monkeypatch.setattr(scans, "GROUP_BYTES", 2 * size)
        assert [len(group) for group in scan.groups()] == [6]
        monkeypatch.setattr(scans, "SMALL_GROUP_BYTES", size)
        assert [len(group) for group in scan.groups()] == [2, 2, 2]
        assert tuple(file for group in scan.groups() for file in group) == scan.files

    def test_there_are_as_many_groups_as_keep_all_tasks_busy_to_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for row in range(8):
            source = commit(tmp_path, {row: float(row)})
        scan = scan_of(source)
        size = scan.files[0].bytes
        monkeypatch.setattr(scans, "GROUP_BYTES", 3 * size)
        monkeypatch.setattr(scans, "SMALL_GROUP_BYTES", size)
        assert [len(group) for group in scan.groups(2)] == [4, 4]
        assert [len(group) for group in scan.groups(4)] == [2, 2, 2, 2]
        monkeypatch.setattr(scans, "SMALL_GROUP_BYTES", 4 * size)
        assert [len(group) for group in scan.groups(4)] == [4, 4]

    def test_a_file_greater_than_a_group_is_divided(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for row in range(2):
            source = commit(tmp_path, {row: float(row)})
        scan = scan_of(source)
        of_groups(monkeypatch, scan.files[0].bytes // 2)
        assert [[file.share for file in group] for group in scan.groups()] == [[(0, 2)], [(1, 2)]] * 2

    def test_of_a_file_that_lies_partly_in_the_slice_so_much_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for rows in ({0: 0.0, 1: 32.0}, {2: 32.0, 3: 40.0}):
            source = commit(tmp_path, rows, day=START)
        scan = scan_of(source, before=source, hours=(31, 48))
        of_groups(monkeypatch, scan.files[0].bytes // 2)
        assert [round(file.fraction, 2) for file in scan.files] in ([0.03, 1.0], [1.0, 0.03])
        assert sorted(file.share for group in scan.groups(2) for file in group) == [(0, 1), (0, 2), (1, 2)]


class TestWhoReads:
    def test_tasks_read_files_themselves_unless_the_source_says_otherwise(self, tmp_path: Path) -> None:
        source = commit(tmp_path, ROWS)
        assert scan_of(source).why_not_direct() is None
        assert scan_of(replace(source, why_not_direct="column mapping")).why_not_direct() == "column mapping"

    def test_unread_rows_that_were_compacted_with_others_are_read_in_the_files_that_brought_them(
        self, tmp_path: Path
    ) -> None:
        commit(tmp_path, {1: None})
        before = commit(tmp_path, {2: None, 3: 1.0})
        DeltaTable(str(tmp_path)).optimize.compact()
        after = commit(tmp_path, {4: None, 5: 2.0})
        assert scan_of(after, before).why_not_direct() is None
        DeltaTable(str(tmp_path)).optimize.compact()
        after = pin(DeltaSource("t", event_time="a", arrival_time="a"), str(tmp_path))
        scan = scan_of(after, before)
        assert scan.why_not_direct() is None
        assert [row["row"] for row in gathered(InProcess(), scan) if row["a"] is None] == [4]


class TestOnSpark:
    @pytest.mark.slow
    def test_it_gives_what_one_process_gives(
        self, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scan = scan_of(commit(tmp_path, ROWS))
        of_groups(monkeypatch, scan.files[0].bytes)
        assert len(scan.groups()) > 1
        assert gathered(OnSpark(spark, here_bytes=0), scan) == gathered(InProcess(), scan)
        assert shuffled(OnSpark(spark), scan, 3) == shuffled(InProcess(), scan, 3)

    @pytest.mark.slow
    def test_a_small_gather_starts_no_job(
        self, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scan = scan_of(commit(tmp_path, ROWS))
        of_groups(monkeypatch, scan.files[0].bytes)
        read_here: list[int] = []

        def task(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
            for number, table in judging(scan.from_ms, scan.to_ms)(batches):
                read_here.append(table.num_rows)
                yield number, table

        tables = OnSpark(spark).gather(scan, task)
        assert sorted(row["row"] for table in tables for row in table.to_pylist()) == IN_SLICE
        assert sum(read_here) == len(IN_SLICE)
        read_here.clear()
        OnSpark(spark, here_bytes=0).gather(scan, task)
        assert not read_here, "Spark's tasks read in processes of their own"

    @pytest.mark.slow
    def test_its_own_scan_gives_the_same_types_and_tells_rows_without_an_arrival_once(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        commit(tmp_path, {1: None, 2: 1.0, 7: -0.5})
        before = commit(tmp_path, {3: None, 8: 48.0})
        commit(tmp_path, {4: None, 5: 2.0})
        DeltaTable(str(tmp_path)).optimize.compact()
        source = pin(DeltaSource("t", event_time="a", arrival_time="a"), str(tmp_path))
        scan = scan_of(replace(source, why_not_direct="column mapping by numbers"), before)
        tables = OnSpark(spark).gather(scan, lambda batches: ((0, batch.rows) for batch in batches))
        assert {table.schema for table in tables} == {SCHEMA}
        assert pa.concat_tables(tables).sort_by("row").column("row").to_pylist() == [2, 4, 5]

    @pytest.mark.slow
    def test_a_task_gets_the_record_batches_of_sparks_scan_together(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        most_rows = "spark.sql.execution.arrow.maxRecordsPerBatch"
        source = commit(tmp_path, {row: 1.0 + row for row in range(9)}, START)
        scan = scan_of(replace(source, why_not_direct="column mapping by numbers"))

        def sizes(rows_at_once: int) -> list[int]:
            scan_in_parts = replace(scan, rows_at_once=rows_at_once)
            tables = OnSpark(spark).gather(
                scan_in_parts, lambda batches: ((0, batch.rows) for batch in batches)
            )
            return [table.num_rows for table in tables]

        default = spark.conf.get(most_rows)
        spark.conf.set(most_rows, 2)
        try:
            assert (sizes(rows_at_once=100), sizes(rows_at_once=5)) == ([9], [2 + 2, 2 + 2 + 1])
        finally:
            spark.conf.set(most_rows, default)

    @pytest.mark.slow
    def test_its_own_scan_leaves_out_what_a_restatement_has_read(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        before = commit(tmp_path, {1: 1.0, 2: 30.0})
        reread_source = commit(tmp_path, {3: 2.0, 4: 31.0, 5: None})
        later = commit(tmp_path, {6: 3.0, 7: 32.0, 8: None, 9: 50.0})
        day = [to_ms(START + timedelta(hours=hours)) for hours in (0, 24, 48, 72)]
        newer_reads = (ReadRange(day[0], day[1], reread_source.version),)
        files = tuple(later.files(day[2], day[3], "a", before, newer_reads=newer_reads))
        scan = SliceScan(later, files, tuple(SCHEMA.names), "a", day[2], day[3], day[0], before, newer_reads)
        by_spark = replace(scan, source=replace(later, why_not_direct="deletion vectors"))
        tables = OnSpark(spark).gather(by_spark, lambda batches: ((0, batch.rows) for batch in batches))
        rows = pa.concat_tables(tables).sort_by("row").column("row").to_pylist()
        assert rows == [4, 6, 7, 8, 9], "3 and 5 were read by the restatement of the first day, 4 by nobody"

    @pytest.mark.slow
    def test_what_spark_deleted_by_vector_is_gone_and_mapped_columns_are_found(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        rows = [(START + timedelta(hours=row), row, f"k{row}", START.date()) for row in range(4)]
        written = (
            spark.createDataFrame(rows, "a timestamp, row long, k string, day date")
            .coalesce(1)
            .write.format("delta")
        )
        written.option("delta.enableDeletionVectors", "true").option("delta.columnMapping.mode", "name").save(
            f"{tmp_path}/t"
        )
        spark.sql(f"DELETE FROM delta.`{tmp_path}/t` WHERE row = 2")
        source = pin(DeltaSource("t", event_time="a", arrival_time="a"), f"{tmp_path}/t")
        assert source.why_not_direct is None
        scan = scan_of(source)
        by_spark = replace(scan, source=replace(source, why_not_direct="column mapping by numbers"))
        assert [row["row"] for row in gathered(InProcess(), scan)] == [0, 1, 3]
        assert gathered(OnSpark(spark), by_spark) == gathered(InProcess(), scan)

    def test_jobs_stages_and_executions_are_called_by_what_started_them(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        name, scan = "rides [2013-01-04, 2013-01-05): replay, run 7", scan_of(commit(tmp_path, ROWS))
        context = spark.sparkContext
        context.setJobDescription("the user's")
        try:
            with jobs_called(name, "run 7"):
                shuffled(OnSpark(spark), scan, 2)
                gathered(OnSpark(spark, here_bytes=-1), scan)
            assert context.getLocalProperty("spark.job.description") == "the user's"
            assert context.getLocalProperty("spark.jobGroup.id") is None
        finally:
            context._jsc.sc().clearJobGroup()
        tracker, jobs = context.statusTracker(), context._jsc.sc().statusStore()
        numbers = tracker.getJobIdsForGroup("run 7")
        assert len(numbers) >= 2
        assert {str(jobs.job(number).description()) for number in numbers} == {f"Some({name})"}
        stages = {stage for number in numbers for stage in tracker.getJobInfo(number).stageIds}
        described = {str(jobs.lastStageAttempt(stage).description()) for stage in stages}
        assert described - {"None"} == {f"Some({name})"}, "but for stages that are skipped"
        executions = spark._jsparkSession.sharedState().statusStore().executionsList()
        newest = executions.apply(executions.size() - 1)
        assert newest.description() == name

    def test_what_a_task_process_has_loaded_is_not_searched_for_garbage(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        def loaded(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
            module = vars(spark_transport)
            yield 0, pa.table({"is_spared": [not any(item is module for item in gc.get_objects())]})

        [rows_by_range] = OnSpark(spark, here_bytes=0).gather(scan_of(commit(tmp_path, {1: 1.0})), loaded)
        assert rows_by_range.to_pylist() == [{"is_spared": True}]

    def test_the_error_of_a_task_is_what_the_user_reads(self, spark: "SparkSession", tmp_path: Path) -> None:
        def failing(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
            for _ in batches:
                raise UserCodeError("the sum does not fit bigint")
            yield 0, pa.table({})

        with pytest.raises(
            TaskFailed,
            match=r"^a task failed: slackwater.windowing.errors.UserCodeError: the sum does not fit bigint",
        ) as error:
            OnSpark(spark, here_bytes=0).gather(scan_of(commit(tmp_path, ROWS)), failing)
        assert "Traceback" in error.value.trace

    def test_executors_with_other_versions_than_the_driver_are_refused(
        self, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own_versions = versions.versions()
        monkeypatch.setattr(versions, "versions", lambda: {**own_versions, "numpy": "1.26.4"})
        scan = scan_of(commit(tmp_path, ROWS))
        refusals = (
            rf"a task failed: slackwater.runtime.versions.DifferentVersions: .* has numpy "
            rf"{own_versions['numpy']} where the driver has 1\.26\.4"
        )
        with pytest.raises(TaskFailed, match=refusals):
            OnSpark(spark, here_bytes=0).gather(scan, judging(scan.from_ms, scan.to_ms))
        assert gathered(OnSpark(spark), scan) == gathered(InProcess(), scan), (
            "threads of the driver have its versions"
        )

    def test_a_python_of_another_version_is_told_in_a_line(self) -> None:
        from pyspark.errors import PySparkRuntimeError, PythonException

        facts = {"worker_version": "3.12", "driver_version": "3.11"}
        raised = PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=facts)
        trace = "".join(traceback.format_exception(raised))
        message = (
            r"^a task failed: Python in worker has different version: 3\.12 than that in driver: 3\.11, .+ "
            r"PYSPARK_PYTHON names .+$"
        )
        with pytest.raises(TaskFailed, match=message), spark_transport.spark_errors():
            raise PythonException(f"An exception was thrown from the Python worker:\n{trace}")
