"""The cases of a billion rows a night: fifty times the time and the rows, so windows are as large as ever."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS

NAME = "billion"
_TIMES = 50
_WORKLOADS = ("a", "b")


def billion_cases(rows: int, work: Path) -> Iterator[BenchmarkCase]:
    """Cases of fifty times `rows` rows: a billion, of twenty million."""
    for name in _WORKLOADS:
        workload = replace(WORKLOADS[name], repeats=_TIMES)
        yield BenchmarkCase(f"{NAME}-{name}", workload, _TIMES * rows, work)


def is_of_billion(label: str) -> bool:
    return label.startswith(f"{NAME}-")
