"""The cases of own code: pipelines whose results a function of the user makes, beside what a user of Spark or
Flink would write for them.

Each case names what a function makes of a window in DuckDB's SQL, so that a second system checks it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS, Workload

NAME = "own"
TOP, KEPT, MANY = 3, 10, 1_000
LATENESS_MS = 5_000
SPARK = ("apply_in_arrow", "apply_in_pandas")


@dataclass(frozen=True)
class OwnCode:
    """What a workload's function does.

    Attributes:
        title: in words.
        n, total: SQL: the two numbers that it makes of the rows of a window, which have `value` and `row`.
        contenders: what else can run it, beside the project.
        by_arrival: whether windows are of arrival times.
        takes_late_rows: whether a row counts that comes after its window was cleaned up.
    """

    title: str
    n: str
    total: str
    contenders: tuple[str, ...] = (*SPARK, "flink")
    by_arrival: bool = False
    takes_late_rows: bool = False


FUNCTIONS: Mapping[str, OwnCode] = MappingProxyType(
    {
        "median": OwnCode("median of each window", "count(*)", "list_sort(list(value))[(count(*) + 1) // 2]"),
        "top": OwnCode(
            f"sum of the {TOP} greatest of each window, vectorized",
            f"least(count(*), {TOP})",
            f"list_sum(list_reverse_sort(list(value))[1:{TOP}])",
        ),
        "evictor": OwnCode(
            f"sum of the last {KEPT} of each window",
            f"least(count(*), {KEPT})",
            f"list_sum(list(value ORDER BY row DESC)[1:{KEPT}])",
        ),
        "arrivals": OwnCode(
            "median of each window of processing time",
            "count(*)",
            "list_sort(list(value))[(count(*) + 1) // 2]",
            SPARK,  # Flink's clock is that of the wall
            by_arrival=True,
        ),
        "timers": OwnCode(
            "state and timers, no windows",
            "count(*)",
            "sum(value)",
            ("transform_with_state_batch", "apply_in_pandas", "flink"),
            takes_late_rows=True,
        ),
        "trigger": OwnCode("count and sum, by a trigger of one's own", "count(*)", "sum(value)", ("flink",)),
    }
)


def own_workload(function: str) -> Workload:
    """The rows and windows of workload (a), with a function of the user."""
    return replace(
        WORKLOADS["a"],
        name=f"{NAME}-{function}",
        title=FUNCTIONS[function].title,
        pipeline=f"bench_{function}",
        lateness_ms=0 if FUNCTIONS[function].by_arrival else LATENESS_MS,
        function=function,
    )


def own_cases(rows: int, work: Path) -> Iterator[BenchmarkCase]:
    for function in FUNCTIONS:
        workload = own_workload(function)
        yield BenchmarkCase(workload.name, workload, rows, work)


def windows(workload: Workload, rows: str, condition: str = "true") -> str:
    """SQL over the relation `rows` (key, event_time, arrival_time, value, row): key, window_start_us, n,
    total, of the rows for which `condition` holds; it may name `window_start_us`.
    """
    function, size = FUNCTIONS[workload.function], workload.size_ms * 1000
    time = "arrival_time" if function.by_arrival else "event_time"
    return (
        f"SELECT key, window_start_us, {function.n} AS n, ({function.total})::bigint AS total FROM "
        f"(SELECT *, epoch_us({time}) - epoch_us({time}) % {size} AS window_start_us FROM {rows}) "
        f"WHERE {condition} GROUP BY key, window_start_us"
    )
