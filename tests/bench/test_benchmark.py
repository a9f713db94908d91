"""The benchmark measures whole process trees, notices contenders that disagree, keeps its measurements, and
predicts its cost. Covers benchmark, measure, results, plots and the checks of our own tables.
"""

import json
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.bench import benchmark as benchmarks
from slackwater.bench import checks
from slackwater.bench.benchmark import OWN_CONTENDERS, REPETITIONS, Benchmark
from slackwater.bench.cases import FILES, BenchmarkCase
from slackwater.bench.checks import ResultsDiffer
from slackwater.bench.contenders.duckdb_group_by import DuckDb, query
from slackwater.bench.contenders.floor import Floor
from slackwater.bench.contenders.slackwater import Slackwater
from slackwater.bench.growth import billion_cases
from slackwater.bench.measure import Measurement, measure_work, settle
from slackwater.bench.nexmark import QUERIES
from slackwater.bench.plots import plot
from slackwater.bench.results import Key, Results
from slackwater.bench.worker import ContenderFailed
from slackwater.bench.workloads import WORKLOADS, Workload
from slackwater.cli.bench import COLUMNS, columns_with_values
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.runs import opened_pipeline
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.tables.delta.folder import Folder
from tests.integration.command import slackwater

BUSY = "import time; end = time.process_time() + 0.6\nwhile time.process_time() < end: pass"


def case_of(name: str, work: Path, rows: int = 5_000) -> BenchmarkCase:
    case = BenchmarkCase(name, WORKLOADS[name], rows, work)
    case.make()
    return case


def test_cpu_and_memory_are_those_of_the_process_tree() -> None:
    _, of_busy_child = measure_work(lambda: subprocess.run([sys.executable, "-c", BUSY], check=True))
    assert 0.5 <= of_busy_child.cpu_s <= of_busy_child.wall_s + 1
    memory, of_memory = measure_work(lambda: (bytearray(200 << 20), time.sleep(1.2))[0])
    assert len(memory) == 200 << 20
    assert of_memory.peak_mb > of_busy_child.peak_mb + 150


# A worker takes CPU time; when the line comes, it ends, and its parent does not wait for it.
NOT_WAITED_FOR = f"""
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ready, is_ready = os.pipe()
if (pid := os.fork()) == 0:
    {BUSY.splitlines()[0]}
    while time.process_time() < end: pass
    os.write(is_ready, b"1")
    signal.pause()
os.read(ready, 1)
print("ready", flush=True)
input()
os.kill(pid, signal.SIGKILL)
while os.path.exists(f"/proc/{{pid}}"): pass
print("ended", flush=True)
input()
"""


def test_a_process_that_ends_takes_back_no_cpu_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NOT_WAITED_FOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def end_worker() -> str:
            print(file=process.stdin, flush=True)
            return process.stdout.readline()

        line, measurement = measure_work(end_worker)
        assert line == "ended\n"
        assert 0 <= measurement.cpu_s < 0.5
        print(file=process.stdin, flush=True)


def test_a_source_is_made_once_and_read_back_in_order_of_arrival(tmp_path: Path) -> None:
    case = case_of("a", tmp_path)
    rows = case.read(["row", "arrival_time"])
    assert rows["row"].to_pylist() == list(range(5_000))
    assert len(list(case.source.glob("*.parquet"))) == FILES
    stamp = (case.folder / "facts.json").stat().st_mtime_ns
    case.make()
    assert (case.folder / "facts.json").stat().st_mtime_ns == stamp
    arrivals = rows["arrival_time"].cast(pa.int64()).to_numpy() // 1000
    assert case.facts["from_ms"] <= arrivals.min() and arrivals.max() < case.facts["to_ms"]
    bounds = [case.facts["from_ms"], *case.facts["cuts_ms"], case.facts["to_ms"]]
    assert np.histogram(arrivals, bounds)[0] / len(arrivals) == pytest.approx([1 / 8] * 8, abs=0.05)


@pytest.mark.parametrize("name", ["a", "c", "d", "e", "h", "i"])
def test_what_duckdb_writes_passes_and_one_wrong_count_does_not(name: str, tmp_path: Path) -> None:
    case = case_of(name, tmp_path)
    contender = DuckDb()
    contender.start(case)
    contender.prepare(case)
    contender.run(case)
    assert checks.check(case, "duckdb", {}).endswith("equal")
    path = case.folder / "duckdb" / "part-0.parquet"
    windows = pq.read_table(path)
    one_more = pa.array([1] + [0] * (windows.num_rows - 1))
    pq.write_table(
        windows.set_column(windows.column_names.index("n"), "n", pa.compute.add(windows["n"], one_more)), path
    )
    with pytest.raises(
        ResultsDiffer, match="duckdb has other counts or sums than a group-by over the source in"
    ):
        checks.check(case, "duckdb", {})


@pytest.mark.slow
def test_windows_that_are_closed_are_those_of_rows_that_were_not_late(tmp_path: Path) -> None:
    [case, _] = billion_cases(4_000, tmp_path)
    case.make()
    request = CatchUpRequest(case.workload.pipeline, case.facts["to_ms"], case.facts["from_ms"])
    opened = OpenedPipeline(case.workload.pipeline, str(case.folder), case.workload.pipelines)
    [row] = CatchUp(request, lambda: opened.runner(transport=InProcess), lambda line: None).run()
    assert row.rows_late > 0
    windows = 50 * 5  # of so few rows each repeat has five
    assert checks.check(case, "slackwater", {}) == f"{windows - 5} windows equal"
    published = Folder.existing_at(str(case.folder / case.workload.pipeline / "published"), ("window_date",))
    assert published is not None
    published.append(published.read().slice(0, 1))
    with pytest.raises(ResultsDiffer):
        checks.check(case, "slackwater", {})


@pytest.mark.slow
def test_the_floor_writes_each_row_of_the_project_again_and_one_less_is_noticed(tmp_path: Path) -> None:
    case, contender = case_of("a", tmp_path), Floor()
    contender.start(case)
    with pytest.raises(UsageError, match="which has not run"):
        contender.prepare(case)
    request = CatchUpRequest(case.workload.pipeline, case.facts["to_ms"], case.facts["from_ms"])
    opened = OpenedPipeline(case.workload.pipeline, str(case.folder), case.workload.pipelines)
    CatchUp(request, lambda: opened.runner(transport=InProcess), lambda line: None).run()
    contender.prepare(case)
    assert contender.run(case) == {"rows": 5_000}
    assert checks.check(case, "floor", {}).endswith("tables written again")
    ours = case.folder / case.workload.pipeline
    for table in ("panes", "published", "window_state", "runs"):
        rows = DeltaTable(str(case.folder / "floor" / table)).to_pyarrow_table().num_rows
        assert rows == DeltaTable(str(ours / table)).to_pyarrow_table().num_rows > 0
    DeltaTable(str(case.folder / "floor" / "published")).delete("n = 1")
    with pytest.raises(ResultsDiffer, match="the floor wrote other numbers of rows"):
        checks.check(case, "floor", {})


@pytest.mark.first_fast
@pytest.mark.parametrize("name", ["a", "c", "d", "h", "i"])
def test_our_windows_are_those_of_rows_that_were_not_late(name: str, tmp_path: Path) -> None:
    case = case_of(name, tmp_path, 30_000)
    request = CatchUpRequest(case.workload.pipeline, case.facts["to_ms"], case.facts["from_ms"])
    opened = OpenedPipeline(case.workload.pipeline, str(case.folder), case.workload.pipelines)
    [row] = CatchUp(request, lambda: opened.runner(transport=InProcess), lambda line: None).run()
    assert row.rows_late > 0
    assert checks.check(case, "slackwater", {}).endswith("equal")
    parked = Inspection.of(case.workload.pipeline, str(case.folder)).snapshot("window_state", None)
    fired = row.windows_fired + row.windows_refired + parked["firings"].to_pylist().count(0)
    assert checks.check(case, "flink", {"panes": fired}).startswith(f"{fired:,} panes")
    with pytest.raises(ResultsDiffer, match="Flink emitted"):
        checks.check(case, "flink", {"panes": 2 * fired})
    one_less = replace(case.workload, lateness_ms=case.workload.lateness_ms - 1_000)
    if name not in "di":  # in (i) hardly a late row lies within a second of the bound
        with pytest.raises(ResultsDiffer):
            checks.check(replace(case, workload=one_less), "slackwater", {})


@pytest.mark.parametrize("name", ["a", "c"])
def test_the_query_for_windows_is_a_count_by_hand(name: str, tmp_path: Path) -> None:
    workload, expected = WORKLOADS[name], {}
    rows = pa.table(
        {
            "key": [1, 1, 2],
            "event_time": pa.array([0, 10_500_000, 3_000_000], pa.timestamp("us", tz="UTC")),
            "value": [5, 6, 7],
        }
    )
    for key, us, value in ((1, 0, 5), (1, 10_500_000, 6), (2, 3_000_000, 7)):
        ms = us // 1000
        start = ms - ms % workload.slide_ms
        while start > ms - workload.size_ms:
            n, total = expected.get((key, start * 1000), (0, 0))
            expected[key, start * 1000] = (n + 1, total + value)
            start -= workload.slide_ms
    with duckdb.connect() as connection:
        connection.register("events", rows)
        windows = connection.execute(query(workload, "events")).fetchall()
    assert {(key, start): (n, total) for key, start, n, total in windows} == expected


def test_sessions_are_split_where_the_pause_is_longer_than_the_gap(tmp_path: Path) -> None:
    times = [0, 10_000_000, 20_000_001, 5_000_000]
    rows = pa.table(
        {
            "key": [1, 1, 1, 2],
            "event_time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "value": [1, 2, 4, 8],
        }
    )
    with duckdb.connect() as connection:
        connection.register("events", rows)
        sessions = connection.execute(query(WORKLOADS["d"], "events")).fetchall()
    assert sorted(sessions) == [(1, 0, 2, 3), (1, 20_000_001, 1, 4), (2, 5_000_000, 1, 8)]


class FakeWorker:
    """Answers at once; the contender `duckdb` never does."""

    requests: list[tuple[str, str]]

    def __init__(self, contender: str, engine: str | None, log: Path) -> None:
        self.contender = contender

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        self.requests.append((self.contender, case.label))
        if self.contender == "duckdb":
            raise ContenderFailed("duckdb: ended", contender="duckdb", log="")
        return {
            "wall_s": 2.0 if self.contender in OWN_CONTENDERS else 4.0,
            "cpu_s": 1.0,
            "peak_mb": 10.0,
            "rows": case.rows,
            "panes": 1,
        }

    def stop(self) -> None:
        self.requests.append((self.contender, "stopped"))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    requests: list[tuple[str, str]] = []
    monkeypatch.setattr(FakeWorker, "requests", requests, raising=False)
    monkeypatch.setattr(benchmarks, "Worker", FakeWorker)
    monkeypatch.setattr(checks, "check", lambda *_: "equal")
    monkeypatch.setattr(benchmarks.flink, "is_possible", lambda: True)
    return requests


BURNING = (
    "import time\nwhile time.process_time() < {seconds}: pass\nprint('rests', flush=True)\ntime.sleep(60)"
)


@pytest.mark.parametrize(("seconds", "rests"), [(1.5, True), (60, False)])
def test_a_measurement_waits_until_what_was_started_before_rests_but_not_for_ever(
    seconds: float, rests: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURNING.format(seconds=seconds)], stdout=subprocess.PIPE
    ) as process:
        settle(at_most_s=30.0 if rests else 1.2)
        assert bool(select.select([process.stdout], [], [], 0)[0]) is rests
        process.kill()


def test_cpu_seconds_until_a_moment_lie_between_those_of_two_samples() -> None:
    measurement = Measurement(2.0, 5.0, 1.0, samples=((0.0, 0.0), (0.5, 1.0), (1.0, 1.0), (2.0, 5.0)))
    assert [measurement.cpu_until(seconds) for seconds in (0.0, 0.25, 0.75, 1.5, 2.0)] == [
        0.0,
        0.5,
        1.0,
        3.0,
        5.0,
    ]


def test_samples_reach_from_the_beginning_of_the_work_to_its_end() -> None:
    _, measurement = measure_work(lambda: time.sleep(1.2))
    assert (
        measurement.samples[0] == (0.0, 0.0)
        and len(measurement.samples) > 2
        and sorted(measurement.samples) == list(measurement.samples)
    )
    wall_s, cpu_s = measurement.samples[-1]
    assert (round(wall_s, 3), round(cpu_s, 2)) == (measurement.wall_s, measurement.cpu_s)


def test_contenders_take_turns_and_what_was_measured_is_not_measured_again(
    tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    lines: list[str] = []
    summary = Benchmark(["b"], 10_000, None, tmp_path, lines=lines.append).run()
    runs = [contender for contender, label in requests if label == "b"]
    ours, last_eighth = OWN_CONTENDERS
    assert runs == [ours, "floor", last_eighth, "spark_native", "flink"] * REPETITIONS
    assert any("without duckdb: ended" in line for line in lines)
    by_name = {row["contender"]: row for row in summary}
    assert {"wall_ratio", "per_cpu_ratio"} <= set(columns_with_values(summary)) < set(COLUMNS)
    assert by_name["slackwater"]["wall_ratio"] == 0.5 and by_name["flink"]["wall_ratio"] == 1.0
    assert by_name["slackwater"]["per_cpu_ratio"] == 1.0 and by_name["slackwater"]["runs"] == REPETITIONS
    assert "duckdb" not in by_name
    assert not (tmp_path / "b-10000").exists(), "sources are removed when their case is done"

    requests.clear()
    again = Benchmark(["b"], 10_000, None, tmp_path, lines=lines.append)
    assert sum(again.missing().values()) == REPETITIONS, "duckdb's alone"
    assert again.run() == summary
    assert {contender for contender, _ in requests} == {"duckdb"}


def test_another_engine_or_another_number_of_rows_is_another_measurement(
    tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    Benchmark(["b"], 10_000, None, tmp_path, lines=lambda line: None).run()
    missing = Benchmark(["b"], 10_000, "operator", tmp_path).missing()
    assert [name for name, count in missing.items() if count] == [
        "b 10,000 slackwater",
        "b 10,000 floor",
        "b 10,000 slackwater_last_eighth",
        "b 10,000 duckdb",
    ]
    assert sum(Benchmark(["b"], 20_000, None, tmp_path).missing().values()) == REPETITIONS * 6
    assert sum(Benchmark(["b"], 20_000, None, tmp_path, repetitions=1).missing().values()) == 6


def test_cost_shrinks_with_what_is_done_and_is_refused_when_the_disk_is_too_small(
    tmp_path: Path, requests: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Benchmark(["b"], 10_000, None, tmp_path).cost()
    Benchmark(["b"], 10_000, None, tmp_path, lines=lambda line: None).run()
    after = Benchmark(["b"], 10_000, None, tmp_path).cost()
    assert after[1] < before[1] and before[0] == 10_000 * 110
    with pytest.raises(UsageError, match="the benchmark needs about"):
        Benchmark(["b"], 10**13, None, tmp_path).check_disk()


def test_results_are_medians_of_their_runs(tmp_path: Path) -> None:
    results, key = Results(tmp_path), Key("a", 100, "flink", "")
    for wall in (3.0, 1.0, 2.0):
        facts = {
            "state_s": wall / 2,
            "phases": {"validate": 0.1},
            "task_mb": 400,
        }
        results.add(
            key, {"wall_s": wall, "cpu_s": wall * 2, "peak_mb": 5.0, "rows": 100, "check": "equal", **facts}
        )
    [row] = Results(tmp_path).summary([key, Key("a", 100, "duckdb", "")])
    assert (row["wall_s"], row["cpu_s"], row["rows_per_s"], row["runs"]) == (2.0, 4.0, 50, 3)
    assert row["wall_ratio"] is None and row["per_cpu_ratio"] == 1.0
    assert (row["state_share"], row["validation_share"]) == (0.25, 0.05)
    assert row["task_mb"] == 400


def test_the_time_until_the_commit_is_compared_beside_the_whole(tmp_path: Path) -> None:
    results, ours, anchor = (
        Results(tmp_path),
        Key("a", 100, "slackwater", ""),
        Key("a", 100, "spark_native", ""),
    )
    for wall in (4.0, 6.0, 5.0):
        until = {"committed_s": wall - 3, "committed_cpu_s": wall - 4.5}
        results.add(
            ours, {"wall_s": wall, **until, "cpu_s": 1.0, "peak_mb": 5.0, "rows": 100, "check": "equal"}
        )
    results.add(anchor, {"wall_s": 4.0, "cpu_s": 1.0, "peak_mb": 5.0, "rows": 100, "check": "equal"})
    results.add(
        flink := Key("a", 100, "flink", ""),
        {"wall_s": 4.0, "cpu_s": 2.0, "peak_mb": 5.0, "rows": 100, "check": "equal"},
    )
    eighth = Key("a", 100, "slackwater_last_eighth", "")
    results.add(
        eighth,
        {"wall_s": 2.0, "committed_s": 0.5, "cpu_s": 1.0, "peak_mb": 5.0, "rows": 12, "check": "equal"},
    )
    row, other, part, _ = results.summary([ours, anchor, eighth, flink])
    assert (row["committed_s"], row["committed_ratio"], row["wall_ratio"]) == (2.0, 0.5, 1.25)
    assert (part["part_ratio"], part["wall_ratio"], row["part_ratio"]) == (0.25, None, None)
    assert (other["committed_s"], other["committed_ratio"]) == (None, None)
    assert (row["per_cpu_ratio"], row["committed_per_cpu_ratio"], other["committed_per_cpu_ratio"]) == (
        2.0,
        4.0,
        None,
    )


def test_workloads_and_growth_are_drawn_into_one_picture(tmp_path: Path) -> None:
    numbers = {"wall_s": 1.0, "cpu_s": 2.0, "peak_mb": 3.0}
    rows = [{"workload": "a", "contender": name, "rows": 10, **numbers} for name in ("slackwater", "duckdb")]
    rows += [
        {"workload": "growth-rows", "contender": "slackwater", "rows": count, **numbers} for count in (10, 20)
    ]
    rows += [
        {"workload": f"growth-late-{share}", "contender": "slackwater", "rows": 10, **numbers}
        for share in (0.0, 0.5)
    ]
    assert plot(rows, tmp_path / "all.png")
    assert (tmp_path / "all.png").read_bytes()[:4] == b"\x89PNG"
    assert not plot([], tmp_path / "none.png")


def test_an_unknown_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="no workload is called 'z'; there are a, b, c, d, e, f, g, h, i, j, growth, nexmark"
    ):
        Benchmark(["z"], 10_000, None, tmp_path)
    with pytest.raises(UsageError, match="no contender is called 'spork'; there are slackwater"):
        Benchmark(["a"], 10_000, None, tmp_path, contenders=["spork"])


def test_a_dry_run_says_what_it_would_cost_and_makes_nothing(tmp_path: Path) -> None:
    process = slackwater(
        "bench", "--only", "a,growth", "--rows", 20_000_000, "--work", tmp_path / "work", "--dry-run"
    )
    assert process.returncode == 0, process.stderr
    assert "runs to do below" in process.stderr and "GB of disk and" in process.stderr
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_small_benchmark_gives_equal_windows_for_each_contender(tmp_path: Path) -> None:
    process = slackwater(
        "bench",
        "--only",
        "d",
        "--contenders",
        "slackwater,floor,spark_native,duckdb",
        "--rows",
        20_000,
        "--work",
        tmp_path,
        "--output",
        "json",
        timeout=590,
    )
    assert process.returncode == 0, process.stderr
    rows = {row["contender"]: row for row in json.loads(process.stdout)}
    assert set(rows) == {"slackwater", "floor", "spark_native", "duckdb"}
    assert rows["slackwater"]["floor_ratio"] > 0 and rows["slackwater"]["duckdb_ratio"] > 0
    assert {"workload", "contender", "rows", "wall_s", "cpu_s", "peak_mb"} <= set(rows["slackwater"])
    assert rows["slackwater"]["check"] == "1,000 keys equal"
    assert all(row["runs"] == REPETITIONS for row in rows.values())


@pytest.mark.first_fast
@pytest.mark.parametrize("workload", QUERIES, ids=lambda workload: workload.query)
def test_what_we_leave_of_nexmark_passes_and_without_panes_it_does_not(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    case = BenchmarkCase(workload.name, workload, 6_000, tmp_path)
    case.make()
    contender = Slackwater(None)
    contender.prepare(case)
    facts = contender.run(case)
    assert facts["rows"] == case.facts["rows"] and facts["task_mb"] > 50
    assert (facts["state_s"] > 0) == (facts["engine"] == "columnar")
    assert checks.check(case, "slackwater", {}).endswith("equal")
    live_rows = Inspection.live
    without_panes = pa.array([], pa.int64())
    monkeypatch.setattr(
        Inspection,
        "live",
        lambda tables, name: (
            live_rows(tables, name).take(without_panes) if name == "panes" else live_rows(tables, name)
        ),
    )
    with pytest.raises(ResultsDiffer):
        checks.check(case, "slackwater", {})
