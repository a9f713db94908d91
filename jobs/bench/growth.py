"""How cost grows: the project alone over more rows, more keys, more late rows, more windows left open; each
point a case of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.workloads import WORKLOADS, left_open

NAMES = ("rows", "keys", "late", "live")
_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
_KEYS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_LATE = (0.0, 0.008, 0.1, 0.25, 0.5)
_LIVE = (10_000, 100_000, 1_000_000, 5_000_000)


def growth_cases(rows: int, work: Path) -> Iterator[Case]:
    """The points of all four axes. `rows` are those where rows do not grow; keys and windows shrink with it
    below 20 million.
    """
    scale = min(1.0, rows / 20_000_000)
    few, minutes = WORKLOADS["a"], WORKLOADS["b"]
    for share in _SHARES:  # a longer time, not more rows in each window
        yield Case(
            "growth-rows", replace(few, span_s=int(few.span_s * max(1.0, share))), int(rows * share), work
        )
    for keys in _KEYS:
        yield Case(f"growth-keys-{keys}", replace(minutes, keys=max(1, int(keys * scale))), rows, work)
    for share in _LATE:
        yield Case(
            f"growth-late-{share}",
            replace(minutes, keys=max(1, int(100_000 * scale)), late_share=share),
            rows,
            work,
        )
    for windows in _LIVE:
        yield Case(
            f"growth-live-{windows}",
            left_open(replace(minutes, keys=max(1, int(windows * scale)))),
            rows,
            work,
        )


def axis_of(label: str) -> str | None:
    """Which growth a case belongs to; None for one of the workloads."""
    return label.split("-")[1] if label.startswith("growth-") else None
