"""The rows of a workload are a function of its rules, its size and its seed, and are what the rules say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.growth import NAMES, axis_of, growth_cases
from slackwater.bench.pipelines import bench_a
from slackwater.bench.workloads import START_MS, WORKLOADS, rows_of
from slackwater.pipelines.registry import load

ROWS = 20_000


def ms(column: pa.ChunkedArray) -> np.ndarray:
    return column.cast(pa.int64()).to_numpy() // 1000


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_rows_in_order_of_arrival(name: str) -> None:
    rows = rows_of(WORKLOADS[name], ROWS)
    assert rows.equals(rows_of(WORKLOADS[name], ROWS))
    assert not rows.equals(rows_of(WORKLOADS[name], ROWS, seed=2))
    assert rows.num_rows == ROWS
    assert (np.diff(ms(rows["arrival_time"])) >= 0).all()
    assert rows["row"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("name", WORKLOADS)
def test_most_rows_come_within_two_seconds_and_the_late_share_later(name: str) -> None:
    workload = replace(WORKLOADS[name], late_share=0.1)
    rows = rows_of(workload, ROWS)
    delays = ms(rows["arrival_time"]) - ms(rows["event_time"])
    late = delays >= workload.late_by_ms[0]
    assert late.mean() == pytest.approx(0.1, abs=0.01)
    assert (delays[~late] < 2_000).all() and delays.min() >= 0
    assert delays.max() < workload.late_by_ms[1]
    assert ms(rows["event_time"]).min() >= START_MS


def test_a_workload_that_repeats_itself_goes_on_where_it_was(tmp_path: Path) -> None:
    workload = replace(WORKLOADS["a"], repeats=3)
    case = BenchmarkCase("three", workload, 3 * ROWS, tmp_path)
    case.make()
    rows = case.read(["event_time", "arrival_time", "row"])
    assert rows["row"].to_pylist() == list(range(3 * ROWS))
    times = ms(rows["event_time"]).reshape(3, ROWS)
    span = 5 * workload.size_ms  # of so few rows
    assert (times // span - START_MS // span).tolist() == [[number] * ROWS for number in range(3)]
    assert len({tuple(part - part.min()) for part in times}) == 3, "each with rows of its own"
    assert case.facts["to_ms"] > ms(rows["arrival_time"]).max() >= case.facts["to_ms"] - 1_000


def test_keys_are_as_many_as_wide_and_as_hot_as_declared() -> None:
    assert pc.count_distinct(rows_of(WORKLOADS["a"], ROWS)["key"]).as_py() == 1_000
    assert rows_of(WORKLOADS["e"], ROWS).schema.field("key").type == pa.string()
    hot = rows_of(WORKLOADS["f"], ROWS)["key"]
    assert pc.sum(pc.equal(hot, 0)).as_py() / ROWS == pytest.approx(0.5, abs=0.02)


def test_sessions_have_pauses_longer_than_the_gap() -> None:
    workload = WORKLOADS["d"]
    rows = rows_of(workload, ROWS).sort_by([("key", "ascending"), ("event_time", "ascending")])
    pauses = np.diff(ms(rows["event_time"]))[np.diff(rows["key"].to_numpy()) == 0]
    assert (pauses > workload.size_ms).mean() == pytest.approx(0.05, abs=0.01)


def test_each_pipeline_of_a_workload_is_declared() -> None:
    pipelines_by_name = load("slackwater.bench.pipelines")
    assert {workload.pipeline for workload in WORKLOADS.values()} <= set(pipelines_by_name)
    assert pipelines_by_name["bench_a"] == bench_a


def test_growth_has_four_axes_with_one_thing_growing_along_each(tmp_path) -> None:
    cases = list(growth_cases(20_000_000, tmp_path))
    assert {axis_of(case.label) for case in cases} == set(NAMES)
    assert axis_of("a") is None
    by_axis = {name: [case for case in cases if axis_of(case.label) == name] for name in NAMES}
    assert [case.rows for case in by_axis["rows"]] == [
        5_000_000,
        10_000_000,
        20_000_000,
        40_000_000,
        80_000_000,
    ]
    assert [case.workload.keys for case in by_axis["keys"]][-1] == 10_000_000
    assert [case.workload.late_share for case in by_axis["late"]][-1] == 0.5
    assert [case.workload.keys for case in by_axis["live"]] == [10_000, 100_000, 1_000_000, 5_000_000]
    assert len({case.folder for case in cases}) == len(cases)
    pipelines_by_name = load("slackwater.bench.pipelines")
    windows = {(case.workload.pipeline, case.workload.size_ms) for case in cases}
    assert windows == {
        (name, pipelines_by_name[name].window_ms) for name, _ in windows
    }  # what the checks count by is what is replayed
