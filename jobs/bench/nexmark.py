"""Queries 5, 7, 11 and 12 of Nexmark as workloads of the project alone, beside what was published of Flink.

The published figures are of another machine and another job (see docs/performance.md): they stand there to
be read, nothing is divided by them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.workloads import Workload

NAME = "nexmark"
# Thousands of events a second and core of Flink 1.13 with RocksDB, as its Nexmark repository reports them.
PUBLISHED_FLINK: Mapping[str, float] = MappingProxyType({"q5": 22.14, "q7": 12.33, "q11": 39.7, "q12": 75.67})
_KEYS = {"q5": "auction", "q7": "event", "q11": "bidder", "q12": "bidder"}


def _query(name: str, title: str, kind: str, slide_ms: int, lateness_ms: int = 10_000) -> Workload:
    return Workload(
        f"nexmark-{name}",
        title,
        f"nexmark_{name}",
        0,
        0,
        kind,  # type: ignore[arg-type]
        10_000,
        slide_ms,
        lateness_ms,
        (0, 0),
        query=name,
    )


QUERIES = (
    _query("q5", "Nexmark q5, bids of each auction, sliding 10 s / 2 s", "sliding", 2_000),
    _query("q7", "Nexmark q7, highest bid of 10 s", "tumbling", 10_000),
    _query("q11", "Nexmark q11, sessions of bidders, gap 10 s", "session", 0),
    _query("q12", "Nexmark q12, bids of each bidder in 10 s of processing time", "tumbling", 10_000, 0),
)


def nexmark_cases(rows: int, work: Path) -> Iterator[Case]:
    """One case a query."""
    for workload in QUERIES:
        yield Case(workload.name, workload, rows, work)


def columns(workload: Workload) -> str:
    """SQL: the columns of a source that the checks look at; of Nexmark's events the bids, with the time by
    which a query takes them.
    """
    if not workload.query:
        return "*"
    time = "arrival_time" if workload.query == "q12" else "event_time"
    return f"{_KEYS[workload.query]} AS key, {time} AS event_time, arrival_time, 0 AS value"


def rows(workload: Workload) -> str:
    """SQL: which rows of a source the checks look at."""
    return "event = 'bid'" if workload.query else "true"


def columns_left(workload: Workload, table: str) -> str:
    """SQL: the columns of one of our tables that the checks look at. What is counted are elements: q7 has no
    count of its own.
    """
    if not workload.query:
        return "*"
    also = {
        "panes": "window_start, window_end, firing, kind, elements AS n, 0 AS total",
        "parked": "window_start, window_end, firings, elements AS n__count, 0 AS total__sum",
        "late": "windows, 0 AS value",
    }
    return f"{_KEYS[workload.query]} AS key, {also[table]}"


def published_flink(label: str) -> float | None:
    """Thousands of events a second and core that were published for Flink; None for a workload that is no
    query of Nexmark.
    """
    return PUBLISHED_FLINK.get(label.removeprefix("nexmark-"))
