"""Queries 5, 7, 11 and 12 of Nexmark as workloads of the project alone, beside the figures that are published
for Flink.

Those were measured on another machine with another job (see docs/performance.md): they are shown, and no
ratio is computed from them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import FROM_JSON, Workload

NAME = "nexmark"
# Thousands of events a second and core of Flink 1.13 with RocksDB, as its Nexmark repository reports them.
PUBLISHED_FLINK: Mapping[str, float] = MappingProxyType({"q5": 22.14, "q7": 12.33, "q11": 39.7, "q12": 75.67})
_KEYS = {"q5": "auction", "q7": "event", "q11": "bidder", "q12": "bidder"}


def _query(name: str, title: str, kind: str, slide_ms: int, lateness_ms: int = 10_000) -> Workload:
    return Workload(
        name=f"nexmark-{name}",
        title=title,
        pipeline=f"nexmark_{name}",
        keys=0,
        span_s=0,
        kind=kind,  # type: ignore[arg-type]
        size_ms=10_000,
        slide_ms=slide_ms,
        lateness_ms=lateness_ms,
        late_by_ms=(0, 0),
        query=name,
    )


QUERIES = (
    _query("q5", "Nexmark q5, bids of each auction, sliding 10 s / 2 s", "sliding", 2_000),
    _query("q7", "Nexmark q7, highest bid of 10 s", "tumbling", 10_000),
    _query("q11", "Nexmark q11, sessions of bidders, gap 10 s", "session", 0),
    _query("q12", "Nexmark q12, bids of each bidder in 10 s of processing time", "tumbling", 10_000, 0),
)


def nexmark_cases(rows: int, work: Path) -> Iterator[BenchmarkCase]:
    for workload in QUERIES:
        yield BenchmarkCase(workload.name, workload, rows, work)


def columns(workload: Workload) -> str:
    """SQL: the columns of a source that the checks read. Of Nexmark's events only bids have them; the event
    time is the one by which the query assigns windows.
    """
    if workload.is_json:
        return f"*, {', '.join(f'{text} AS {name}' for name, text in FROM_JSON.items())}"
    if not workload.query:
        return "*"
    time = "arrival_time" if workload.query == "q12" else "event_time"
    return f"{_KEYS[workload.query]} AS key, {time} AS event_time, arrival_time, 0 AS value"


def rows(workload: Workload) -> str:
    """SQL: the condition on the rows of a source that the checks read."""
    return "event = 'bid'" if workload.query else "true"


def result_columns(workload: Workload, table: str) -> str:
    """SQL: the columns of one of our tables that the checks read. Nexmark's count is of elements, because q7
    selects none; windows of all rows have the key 0.
    """
    if not workload.query:
        return "0 AS key, *" if workload.has_one_key else "*"
    columns_by_table = {
        "panes": "window_start, window_end, firing, kind, elements AS n, 0 AS total",
        "parked": "window_start, window_end, firings, elements AS n__count, 0 AS total__sum",
        "late": "windows, 0 AS value",
    }
    return f"{_KEYS[workload.query]} AS key, {columns_by_table[table]}"


def published_flink(label: str) -> float | None:
    """Thousands of events a second and core that were published for Flink; None for a workload that is no
    query of Nexmark.
    """
    return PUBLISHED_FLINK.get(label.removeprefix("nexmark-"))
