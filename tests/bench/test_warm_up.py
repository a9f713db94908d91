"""Before each measurement the contender replays a small case where the measured one will run."""

from pathlib import Path

import pytest

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders import slackwater as contenders
from slackwater.bench.contenders.slackwater import Slackwater
from slackwater.bench.own_code import own_workload
from slackwater.bench.workloads import WORKLOADS, Workload
from slackwater.engine.transport.in_process import InProcess, Transport
from slackwater.runs import opened_pipeline


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the Spark sessions that were wanted; threads stand for them."""
    names: list[str] = []

    def wanted(name: str) -> Transport:
        names.append(name)
        return InProcess()

    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda name: lambda: wanted(name))
    return names


def warm_up(workload: Workload, work: Path) -> None:
    large = BenchmarkCase("large", workload, 2_000, work)
    small = BenchmarkCase("small", workload, 1_000, work)
    for case in (large, small):
        case.make()
    contender = Slackwater(None)
    contender.start(small)
    contender.prepare(large)
    assert (small.folder / workload.pipeline).exists()
    assert not (large.folder / workload.pipeline).exists()


@pytest.mark.slow
def test_threads_are_warm_for_a_small_case(sessions: list[str], tmp_path: Path) -> None:
    warm_up(WORKLOADS["a"], tmp_path)
    assert sessions == []


@pytest.mark.slow
def test_spark_is_warm_for_a_large_one(
    sessions: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contenders, "SMALL_BYTES", 0)
    warm_up(WORKLOADS["a"], tmp_path)
    assert sessions == [WORKLOADS["a"].pipeline]


@pytest.mark.slow
def test_spark_is_warm_for_functions_of_the_users(sessions: list[str], tmp_path: Path) -> None:
    workload = own_workload("median")
    warm_up(workload, tmp_path)
    assert sessions == [workload.pipeline]
