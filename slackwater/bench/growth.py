"""Cases of the project alone: how cost grows with more rows, keys, late rows or open windows; and a billion
rows a night, which are fifty times the time and the rows, so windows are as large as ever.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS, left_open

NAMES = ("rows", "keys", "late", "live")
_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
_KEYS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_LATE = (0.0, 0.008, 0.1, 0.25, 0.5)
_LIVE = (10_000, 100_000, 1_000_000, 5_000_000)


def growth_cases(rows: int, work: Path) -> Iterator[BenchmarkCase]:
    """The points of all four axes. On three of them each case has `rows` rows; below 20 million rows, keys
    and windows shrink in proportion.
    """
    scale = min(1.0, rows / 20_000_000)
    few_keys, many_keys = WORKLOADS["a"], WORKLOADS["b"]
    for share in _SHARES:  # a longer time, not more rows in each window
        yield BenchmarkCase(
            "growth-rows",
            replace(few_keys, span_s=int(few_keys.span_s * max(1.0, share))),
            int(rows * share),
            work,
        )
    for keys in _KEYS:
        yield BenchmarkCase(
            f"growth-keys-{keys}", replace(many_keys, keys=max(1, int(keys * scale))), rows, work
        )
    for share in _LATE:
        yield BenchmarkCase(
            f"growth-late-{share}",
            replace(many_keys, keys=max(1, int(100_000 * scale)), late_share=share),
            rows,
            work,
        )
    for windows in _LIVE:
        yield BenchmarkCase(
            f"growth-live-{windows}",
            left_open(replace(many_keys, keys=max(1, int(windows * scale)))),
            rows,
            work,
        )


def axis_of(label: str) -> str | None:
    """The axis to which the case with that label belongs; None for a case of the workloads."""
    return label.split("-")[1] if label.startswith("growth-") else None


BILLION = "billion"
_TIMES = 50
_WORKLOADS = ("a", "b")


def billion_cases(rows: int, work: Path) -> Iterator[BenchmarkCase]:
    """Cases of fifty times `rows` rows: a billion, of twenty million."""
    for name in _WORKLOADS:
        workload = replace(WORKLOADS[name], repeats=_TIMES)
        yield BenchmarkCase(f"{BILLION}-{name}", workload, _TIMES * rows, work)


def is_of_billion(label: str) -> bool:
    return label.startswith(f"{BILLION}-")
