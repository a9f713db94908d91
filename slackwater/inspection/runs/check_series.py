"""The results of every check over time: which runs passed it, and what it observed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.inspection.runs.run_series import RunFigures
from slackwater.inspection.sql.views import LineageViews

_BOUNDS = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?) … (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check of one run: whether it held, what it saw, and how many rows broke it, of how many; None where
    it does not count.
    """

    passed: bool
    observed: str | None
    unexpected: int | None
    checked: int | None

    @property
    def bounds(self) -> tuple[float, float] | None:
        match = _BOUNDS.fullmatch(self.observed or "")
        return (float(match[1]), float(match[2])) if match else None


@dataclass(frozen=True, kw_only=True)
class CheckSeries:
    """One check over runs: the expectation, or the invariant that is always checked; what a failure does
    (reject, warn or note); and a result for each run, None for a run that did not have it.
    """

    title: str
    severity: str
    results: Sequence[CheckResult | None]

    @property
    def failures(self) -> list[int]:
        return [
            place for place, result in enumerate(self.results) if result is not None and not result.passed
        ]

    @property
    def newest(self) -> CheckResult | None:
        return next((result for result in reversed(self.results) if result is not None), None)


def check_series(views: LineageViews, runs: Sequence[RunFigures]) -> list[CheckSeries]:
    """The checks of `runs`, in the newest one's order; those that it no longer has come last."""
    if not runs:
        return []
    rows = views.query(
        "SELECT run_id, expectation, severity, passed, observed, unexpected, checked FROM validations "
        "WHERE list_contains(?, run_id)",
        [[run.run_id for run in runs]],
    ).to_pylist()
    place_by_run_id = {run.run_id: place for place, run in enumerate(runs)}
    rows.sort(key=lambda row: -place_by_run_id[row["run_id"]])
    severities: dict[str, str] = {}
    results: dict[str, list[CheckResult | None]] = {}
    for row in rows:
        title = row["expectation"]
        severities.setdefault(title, row["severity"])
        results.setdefault(title, [None] * len(runs))[place_by_run_id[row["run_id"]]] = CheckResult(
            passed=bool(row["passed"]),
            observed=row["observed"],
            unexpected=row["unexpected"],
            checked=row["checked"],
        )
    return [
        CheckSeries(title=title, severity=severities[title], results=series)
        for title, series in results.items()
    ]
