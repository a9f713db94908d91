"""The workloads of own code: what the project and Spark's functions make of windows is what DuckDB does, and
another result is refused.
"""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from slackwater.bench import checks
from slackwater.bench.benchmark import Benchmark
from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.checks import ResultsDiffer
from slackwater.bench.contenders import make
from slackwater.bench.own_code import FUNCTIONS, own_cases, windows
from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline


def case_of(function: str, work: Path, rows: int) -> BenchmarkCase:
    [case] = [case for case in own_cases(rows, work) if case.workload.function == function]
    case.make()
    return case


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_function_makes_of_windows_is_what_sql_makes_of_them(function: str, tmp_path: Path) -> None:
    case = case_of(function, tmp_path, 20_000)
    request = CatchUpRequest(case.workload.pipeline, case.facts["to_ms"], case.facts["from_ms"])
    opened = OpenedPipeline(case.workload.pipeline, str(case.folder), case.workload.pipelines)
    [row] = CatchUp(request, lambda: opened.runner(transport=InProcess), lambda line: None).run()
    assert row.rows_late > 0 or case.workload.function in ("arrivals", "timers")
    assert checks.check(case, "slackwater", {}).endswith(" windows equal")
    other = {
        "median": "top",
        "top": "median",
        "evictor": "top",
        "arrivals": "median",
        "timers": "evictor",
        "trigger": "median",
    }
    with pytest.raises(ResultsDiffer):
        checks.check(
            replace(case, workload=replace(case.workload, function=other[function])), "slackwater", {}
        )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("function", FUNCTIONS)
def test_spark_makes_the_same_of_all_rows(function: str, tmp_path: Path) -> None:
    case = case_of(function, tmp_path, 4_000)
    for name in FUNCTIONS[function].contenders:
        if name != "flink":
            contender = make(name, None)
            contender.start(case)
            contender.prepare(case)
            assert contender.run(case) == {"rows": case.facts["rows"]}
            assert checks.check(case, name, {}).endswith(" windows equal")


def test_the_reference_of_a_function_is_what_one_counts_by_hand(tmp_path: Path) -> None:
    values = {
        "median": (5, 30),
        "top": (3, 120),
        "evictor": (5, 150),
        "timers": (5, 150),
        "trigger": (5, 150),
    }
    with duckdb.connect() as connection:
        connection.execute("""
            CREATE TABLE source AS SELECT 7 AS key, TIMESTAMPTZ '2024-01-01 00:00:03Z' AS event_time,
                event_time AS arrival_time, 10 * unnest([3, 1, 5, 2, 4]) AS value, value AS row""")
        for case in own_cases(1_000, tmp_path):
            if case.workload.function in values:
                [row] = connection.execute(windows(case.workload, "source")).fetchall()
                assert row[2:] == values[case.workload.function]


def test_each_function_is_measured_beside_those_that_can_run_it(tmp_path: Path) -> None:
    benchmark = Benchmark(["own"], 10_000, None, tmp_path, contenders=["slackwater", "apply_in_arrow"])
    assert {name.rsplit(" ", 1)[0].split()[0]: None for name in benchmark.missing()} == dict.fromkeys(
        f"own-{function}" for function in FUNCTIONS
    )
    assert sum(name.endswith("apply_in_arrow") for name in benchmark.missing()) == len(FUNCTIONS) - 2
