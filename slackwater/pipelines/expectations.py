"""Expectations: conditions on the panes or the input of a run that it must meet before it may be published.

An expectation of the panes is computed as one aggregate over the staged panes whose kind is not `withdrawn`;
null results are ignored unless `not_null` asks for them. An expectation of the input is judged from the
counts of the run's rows and from the source's progress. Great Expectations itself validates a suite.
"""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import no_function
from slackwater.pipelines.suites import Suite, suite_of

Severity = Literal["reject", "warn"]


@dataclass(frozen=True)
class Expectation:
    """One check of one column of the panes.

    Attributes:
        kind: ``between``, ``in_set`` or ``not_null``.
        column: a key column or a result column.
        minimum, maximum: inclusive bounds of ``between``; None leaves a side open.
        values: the allowed values of ``in_set``.
        severity: ``reject`` keeps the run from being published, ``warn`` only reports the failure.
    """

    kind: str
    column: str
    minimum: Any = None
    maximum: Any = None
    values: tuple[Any, ...] = ()
    severity: Severity = "reject"

    def __post_init__(self) -> None:
        subject = f"expect.{self.kind}({self.column!r})"
        if not isinstance(self.column, str) or not self.column:
            raise PipelineError(subject, "the column is missing; give the name of a key or a result as text")
        _check_severity(subject, self.severity)
        if self.kind == "between":
            self._check_bounds(subject)
        if self.kind == "in_set":
            self._check_values(subject)

    def _check_bounds(self, subject: str) -> None:
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if not bounds:
            raise PipelineError(subject, "give min, max or both")
        if any(bound != bound for bound in bounds):
            raise PipelineError(subject, "a bound is NaN, which no value is between")
        try:
            in_order = bounds[0] <= bounds[-1]
        except TypeError as error:
            raise PipelineError(
                subject, f"min {self.minimum!r} and max {self.maximum!r} can't be compared"
            ) from error
        if not in_order:
            raise PipelineError(subject, f"min {self.minimum!r} is greater than max {self.maximum!r}")

    def _check_values(self, subject: str) -> None:
        if not self.values:
            raise PipelineError(subject, "the set of values is empty")
        if None in self.values:
            raise PipelineError(
                subject, "None is among the values; nulls are ignored unless expect.not_null asks for them"
            )

    @property
    def title(self) -> str:
        """The name of the expectation in `validations`, on the terminal and in Airflow."""
        if self.kind == "between":
            low = "" if self.minimum is None else f"{self.minimum} <= "
            high = "" if self.maximum is None else f" <= {self.maximum}"
            return f"{low}{self.column}{high}"
        if self.kind == "in_set":
            return f"{self.column} in {list(self.values)}"
        return f"{self.column} is not null"


@dataclass(frozen=True)
class HistoryBound:
    """A bound that follows from earlier runs, see `history`."""

    times: float
    runs: int = 10
    of: Literal["median", "mean"] = "median"

    def __post_init__(self) -> None:
        subject = "expect.history"
        if not _is_number(self.times) or self.times <= 0:
            raise PipelineError(subject, f"times is {self.times!r}; it is a number above 0")
        if not isinstance(self.runs, int) or isinstance(self.runs, bool) or not 1 <= self.runs <= MOST_RUNS:
            raise PipelineError(subject, f"runs is {self.runs!r}; it is 1 to {MOST_RUNS}")
        if self.of not in ("median", "mean"):
            raise PipelineError(subject, f"of is {self.of!r}; it is 'median' or 'mean'")

    def __str__(self) -> str:
        return f"{self.times:g} x {self.of} of {self.runs} runs"


MOST_RUNS = 1000
InputKind = Literal["rows", "late_share", "quarantine_share", "freshness"]
Bound = int | float | HistoryBound | timedelta


@dataclass(frozen=True)
class InputExpectation:
    """One check of the rows that a run has read.

    Attributes:
        kind: the name of the function below that makes it.
        minimum, maximum: inclusive bounds; None leaves a side open. Of ``freshness`` the maximum is a
            timedelta.
        severity: ``reject`` keeps the run from being published, ``warn`` only reports the failure.
    """

    kind: InputKind
    minimum: Bound | None = None
    maximum: Bound | None = None
    severity: Severity = "reject"

    def __post_init__(self) -> None:
        subject = f"expect.{self.kind}"
        _check_severity(subject, self.severity)
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if not bounds:
            raise PipelineError(subject, "give min, max or both" if self.kind == "rows" else "give max")
        for bound in bounds:
            self._check_bound(subject, bound)
        if len(bounds) == 2 and all(_is_number(bound) for bound in bounds) and bounds[0] > bounds[1]:  # type: ignore[operator]
            raise PipelineError(subject, f"min {self.minimum!r} is greater than max {self.maximum!r}")

    def _check_bound(self, subject: str, bound: Bound) -> None:
        if self.kind == "freshness":
            if not isinstance(bound, timedelta) or bound < timedelta(0):
                raise PipelineError(subject, f"max is {bound!r}; it is a datetime.timedelta, not below 0")
        elif isinstance(bound, HistoryBound):
            return
        elif not _is_number(bound) or bound < 0:  # type: ignore[operator]
            raise PipelineError(
                subject, f"{bound!r} is no bound; give a number from 0, or expect.history(...)"
            )
        elif self.kind != "rows" and bound > 1:  # type: ignore[operator]
            raise PipelineError(subject, f"max is {bound!r}; a share is at most 1")

    @property
    def title(self) -> str:
        """The name of the expectation in `validations`, on the terminal and in Airflow."""
        if self.kind == "freshness":
            return f"newest event at most {self.maximum} before the slice's end"
        low = "" if self.minimum is None else f"{self.minimum} <= "
        high = "" if self.maximum is None else f" <= {self.maximum}"
        return f"{low}{self.kind.replace('_', ' ')}{high}"


def _check_severity(subject: str, severity: object) -> None:
    if severity not in ("reject", "warn"):
        raise PipelineError(subject, f"severity is {severity!r}; it is 'reject' or 'warn'")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def between(column: str, min: Any = None, max: Any = None, *, severity: Severity = "reject") -> Expectation:
    """Every value of `column` lies in [min, max]; a bound left out is open."""
    return Expectation("between", column, minimum=min, maximum=max, severity=severity)


def in_set(column: str, values: Iterable[Any], *, severity: Severity = "reject") -> Expectation:
    """Every value of `column` is one of `values`, a list or another collection but no text."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise PipelineError(f"expect.in_set({column!r})", f"the values are {values!r}; give a list")
    return Expectation("in_set", column, values=tuple(values), severity=severity)


def not_null(column: str, *, severity: Severity = "reject") -> Expectation:
    """No value of `column` is null."""
    return Expectation("not_null", column, severity=severity)


def rows(
    min: int | float | HistoryBound | None = None,
    max: int | float | HistoryBound | None = None,
    *,
    severity: Severity = "reject",
) -> InputExpectation:
    """The run has read from `min` to `max` rows of the source, those that `where` leaves out not counted."""
    return InputExpectation("rows", min, max, severity)


def late_share(max: float | HistoryBound, *, severity: Severity = "reject") -> InputExpectation:
    """At most this share of the rows, from 0 to 1, came too late for their windows."""
    return InputExpectation("late_share", maximum=max, severity=severity)


def quarantine_share(max: float | HistoryBound, *, severity: Severity = "reject") -> InputExpectation:
    """At most this share of the rows, from 0 to 1, went to quarantine."""
    return InputExpectation("quarantine_share", maximum=max, severity=severity)


def freshness(max: timedelta, *, severity: Severity = "reject") -> InputExpectation:
    """The newest event time that the source has had so far, and each of several sources, lies at most this
    long before the slice's end.
    """
    return InputExpectation("freshness", maximum=max, severity=severity)


def history(times: float, *, runs: int = 10, of: Literal["median", "mean"] = "median") -> HistoryBound:
    """A bound for `rows`, `late_share` and `quarantine_share`: `times` the median, or the mean, of what the
    last `runs` runs before the slice had. Rows count in proportion to the length of the slices.
    """
    return HistoryBound(times, runs, of)


def suite(
    suite: Any,
    *,
    severity: Severity | None = None,
    context: Any = None,
    custom: str | None = None,
) -> Suite:
    """A suite of Great Expectations for the rows that the run would publish, which the library itself
    validates. `suite` is a file that ends in ``.json``, relative to the file that declares the pipeline;
    the name of a suite in the library's context; or an `ExpectationSuite`. `severity` is of the whole suite;
    without it ``critical`` expectations reject, ``warning`` and ``info`` warn. `context` is the folder of the
    context, relative to the file, or a context; without it the environment's ``SLACKWATER_GX_CONTEXT`` names
    the folder. `custom` is a Python file with expectations of your own, also relative to the file; it is
    loaded when a run validates.
    """
    folder = Path(sys._getframe(1).f_globals.get("__file__", "")).parent
    subject = f"expect.suite({suite!r})"
    if severity is not None:
        _check_severity(subject, severity)
    name, expectations = suite_of(suite, folder, context)
    try:
        code = None if custom is None else (folder / custom).read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(subject, f"custom: {error}") from error
    return Suite(name, expectations, severity, code)


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Any:
        raise no_function("expect", name, globals())
