"""Small slices are replayed where the driver stands, and only others have Spark started."""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.engine.source.pinning import pin
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport import small_slices
from slackwater.engine.transport.in_process import InProcess, InThreads, Transport
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.placement import SMALL_BYTES, Place, SparkNeeded
from slackwater.engine.transport.small_slices import SparkWhereNeeded
from slackwater.engine.transport.task_processes import TaskProcesses
from slackwater.pipelines import DeltaSource
from slackwater.runtime.settings import SparkPlace, spark_place, tasks_here
from slackwater.windowing.times import to_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture
def scan(tmp_path: Path) -> SliceScan:
    schema = pa.schema([("a", pa.timestamp("us", tz="UTC"))])
    write_deltalake(
        str(tmp_path),
        pa.Table.from_pylist([{"a": DAY + timedelta(hours=hour)} for hour in range(5)], schema=schema),
    )
    source = pin(DeltaSource("t", event_time="a", arrival_time="a"), str(tmp_path))
    low, high = to_ms(DAY), to_ms(DAY + timedelta(days=1))
    return SliceScan(source, tuple(source.files(low, high, "a", None)), ("a",), "a", low, high, low)


class RecordingTransport:
    """Counts how often the transport is made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> InProcess:
        self.times += 1
        return InProcess()


def sized(scan: SliceScan, size: int) -> SliceScan:
    return replace(scan, files=tuple(replace(file, bytes=size) for file in scan.files))


def where_spark_runs(
    make: Callable[[], Transport], processes: Callable[[], InProcesses] | None = None
) -> SparkWhereNeeded:
    """The transport of a process in which Spark has started."""
    return SparkWhereNeeded(make, 2, place=lambda: SparkPlace.HERE, processes=processes)


class TestSparkWhereNeeded:
    def test_a_small_slice_that_fits_tasks_here_needs_no_spark(self, scan: SliceScan) -> None:
        recording = RecordingTransport()
        chosen = (
            where_spark_runs(recording).for_slice(sized(scan, SMALL_BYTES), lambda slots: 2 * slots).transport
        )
        assert isinstance(chosen, InThreads)
        assert chosen.slots == 2
        chosen.start()
        assert recording.times == 0

    def test_one_of_more_bytes_does(self, scan: SliceScan) -> None:
        transport = where_spark_runs(RecordingTransport())
        assert transport.for_slice(sized(scan, SMALL_BYTES + 1), lambda slots: 1).transport is transport

    @pytest.mark.parametrize("place", SparkPlace, ids=lambda place: place.name)
    def test_on_a_cluster_a_quarter_is_small(self, scan: SliceScan, place: SparkPlace) -> None:
        most = SMALL_BYTES // 4 if place is SparkPlace.ELSEWHERE else SMALL_BYTES
        transport = SparkWhereNeeded(RecordingTransport(), 2, place=lambda: place)
        assert isinstance(
            transport.for_slice(sized(scan, most), lambda slots: 2 * slots).transport, InThreads
        )
        assert transport.begins_at_once is (place is not SparkPlace.NOT_STARTED)
        assert transport.for_slice(sized(scan, most), lambda slots: 2 * slots + 1).transport is transport
        assert transport.for_slice(sized(scan, most + 1), lambda slots: 1).transport is transport

    def test_where_spark_must_start_first_processes_replay_what_threads_can_not(
        self, scan: SliceScan
    ) -> None:
        processes = InProcesses(TaskProcesses(2, bytes))
        largest = sized(scan, SMALL_BYTES)
        larger = sized(scan, SMALL_BYTES + 1)
        transport = SparkWhereNeeded(
            RecordingTransport(), 2, place=lambda: SparkPlace.NOT_STARTED, processes=lambda: processes
        )
        assert transport.for_slice(largest, lambda slots: 2 * slots, in_threads=False).transport is processes
        assert (
            transport.for_slice(largest, lambda slots: 2 * slots + 1, in_threads=False).transport is transport
        )
        assert transport.for_slice(larger, lambda slots: 1, in_threads=False).transport is transport
        without = SparkWhereNeeded(RecordingTransport(), 2, place=lambda: SparkPlace.NOT_STARTED)
        assert without.for_slice(sized(scan, 1), lambda slots: 1, in_threads=False).transport is without
        running = where_spark_runs(RecordingTransport(), lambda: processes)
        assert running.for_slice(sized(scan, 1), lambda slots: 1, in_threads=False).transport is running

    def test_one_of_which_a_part_is_of_the_slice_counts_with_that_part(self, scan: SliceScan) -> None:
        large = sized(scan, 4 * SMALL_BYTES)
        assert isinstance(
            where_spark_runs(RecordingTransport())
            .for_slice(
                replace(large, files=tuple(replace(file, fraction=0.25) for file in large.files)),
                lambda slots: 1,
            )
            .transport,
            InThreads,
        )

    def test_one_whose_state_is_more_than_the_tasks_here_hold_does(self, scan: SliceScan) -> None:
        transport = where_spark_runs(RecordingTransport())
        assert transport.for_slice(scan, lambda slots: 2 * slots + 1).transport is transport

    def test_spark_is_given_the_memory_that_small_ones_have_left(
        self, scan: SliceScan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        freed: list[str] = []
        monkeypatch.setattr(small_slices, "give_back", lambda: freed.append("all"))
        processes = InProcesses(TaskProcesses(2, bytes))
        monkeypatch.setattr(processes, "close", lambda: freed.append("processes"))
        transport = where_spark_runs(RecordingTransport(), lambda: processes)
        transport.for_slice(sized(scan, SMALL_BYTES), lambda slots: slots)
        assert freed == []
        transport.for_slice(sized(scan, SMALL_BYTES + 1), lambda slots: slots)
        assert freed == ["processes", "all"]

    def test_one_that_only_spark_can_read_does(self, scan: SliceScan) -> None:
        transport = where_spark_runs(RecordingTransport())
        mapped = replace(scan, source=replace(scan.source, why_not_direct="column mapping"))
        assert transport.for_slice(mapped, lambda slots: 1).transport is transport

    @pytest.mark.parametrize("place", SparkPlace, ids=lambda place: place.name)
    def test_on_spark_its_tasks_replay_even_a_byte(self, scan: SliceScan, place: SparkPlace) -> None:
        transport = SparkWhereNeeded(RecordingTransport(), 2, place=lambda: place, on="spark")
        chosen = transport.for_slice(sized(scan, 1), lambda slots: 1)
        assert chosen.transport is transport
        assert chosen.placement == ("spark", "asked for by on=spark")

    @pytest.mark.parametrize(
        ("size", "in_threads", "place"),
        [
            (SMALL_BYTES, True, "threads"),
            (SMALL_BYTES + 1, True, "processes"),  # which hand tables on in files, and not in memory
            (1, False, "processes"),
        ],
    )
    def test_here_no_slice_starts_spark_whatever_its_size_and_ranges(
        self, scan: SliceScan, size: int, in_threads: bool, place: Place
    ) -> None:
        recording, processes = RecordingTransport(), InProcesses(TaskProcesses(2, bytes))
        transport = SparkWhereNeeded(
            recording, 2, place=lambda: SparkPlace.ELSEWHERE, processes=lambda: processes, on="here"
        )
        chosen = transport.for_slice(sized(scan, size), lambda slots: 9 * slots, in_threads)
        assert chosen.placement == (place, "asked for by on=here")
        without = SparkWhereNeeded(recording, 2, place=lambda: SparkPlace.HERE, on="here")
        assert without.for_slice(sized(scan, 5 * SMALL_BYTES), lambda slots: 1).placement.place == "threads"
        assert without.begins_at_once
        assert without.each(lambda number: [pa.table({"n": [number]})], 2)[1].to_pylist() == [{"n": 1}]
        assert recording.times == 0

    def test_here_what_only_spark_can_replay_is_refused_with_the_reason(self, scan: SliceScan) -> None:
        transport = SparkWhereNeeded(RecordingTransport(), 2, place=lambda: SparkPlace.HERE, on="here")
        mapped = replace(scan, source=replace(scan.source, why_not_direct="column mapping"))
        with pytest.raises(SparkNeeded, match=r"read the source \(column mapping\).*`--on auto`"):
            transport.for_slice(mapped, lambda slots: 1)
        with pytest.raises(SparkNeeded, match="pyspark is not installed"):
            transport.for_slice(scan, lambda slots: 1, in_threads=False)

    def test_a_reason_says_what_decided(self, scan: SliceScan) -> None:
        processes = InProcesses(TaskProcesses(2, bytes))
        cold = SparkWhereNeeded(
            RecordingTransport(), 2, place=lambda: SparkPlace.NOT_STARTED, processes=lambda: processes
        )
        warm = where_spark_runs(RecordingTransport(), lambda: processes)
        small, large = sized(scan, 12_000), sized(scan, 300_000_000)
        mapped = replace(scan, source=replace(scan.source, why_not_direct="deletion vectors"))
        assert [
            cold.for_slice(small, lambda slots: 1).placement,
            cold.for_slice(small, lambda slots: 1, in_threads=False).placement,
            warm.for_slice(small, lambda slots: 1, in_threads=False).placement,
            warm.for_slice(large, lambda slots: 1).placement,
            warm.for_slice(small, lambda slots: 5).placement,
            cold.for_slice(mapped, lambda slots: 1).placement,
        ] == [
            ("threads", "12 kB, at most 256 MB"),
            ("processes", "12 kB, at most 256 MB, and Spark does not run"),
            ("spark", "its tasks need processes, and Spark's run"),
            ("spark", "300 MB, more than 256 MB"),
            ("spark", "5 key-group ranges, more than 4"),
            ("spark", "Spark has to read the source (deletion vectors)"),
        ]

    def test_it_is_made_once_and_does_the_work_of_all_others(self, scan: SliceScan) -> None:
        recording = RecordingTransport()
        transport = where_spark_runs(recording)
        transport.start()
        assert transport.slots == 1
        [table] = transport.gather(scan, lambda batches: ((0, batch.rows) for batch in batches))
        assert table.num_rows == 5
        [number] = transport.shuffle(
            scan, lambda batches: ((0, batch.rows) for batch in batches), 1, lambda number, received: received
        )
        assert number.num_rows == 5
        assert recording.times == 1


class TestTasksHere:
    @pytest.mark.parametrize(
        ("master", "tasks"),
        [("local", 1), ("local[3]", 3), ("local[3,2]", 3), ("spark://host:7077", 1), ("yarn", 1)],
    )
    def test_a_master_says_how_many_run_on_this_machine(
        self, monkeypatch: pytest.MonkeyPatch, master: str, tasks: int
    ) -> None:
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        monkeypatch.setenv("SLACKWATER_MASTER", master)
        assert tasks_here() == tasks

    def test_without_one_it_is_every_core_and_under_spark_submit_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SLACKWATER_MASTER", raising=False)
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        monkeypatch.setattr("os.cpu_count", lambda: 7)
        assert tasks_here() == 7
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        assert tasks_here() == 1


class TestSparkPlace:
    @pytest.mark.parametrize(
        ("master", "place"),
        [
            ("local", SparkPlace.NOT_STARTED),
            ("local[3]", SparkPlace.NOT_STARTED),
            ("local-cluster[1,1,1024]", SparkPlace.ELSEWHERE),
            ("yarn", SparkPlace.ELSEWHERE),
        ],
        ids=str,
    )
    def test_a_session_of_this_machine_must_start(
        self, monkeypatch: pytest.MonkeyPatch, master: str, place: SparkPlace
    ) -> None:
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        monkeypatch.delitem(sys.modules, "pyspark", raising=False)
        monkeypatch.setenv("SLACKWATER_MASTER", master)
        assert spark_place() is place

    def test_spark_submit_has_started_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SLACKWATER_MASTER", raising=False)
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        assert spark_place() is SparkPlace.ELSEWHERE

    @pytest.mark.slow
    @pytest.mark.spark
    def test_one_that_runs_need_not(self, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SLACKWATER_MASTER", raising=False)
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        assert not spark.sparkContext._jsc.sc().isStopped()
        assert spark_place() is SparkPlace.HERE
