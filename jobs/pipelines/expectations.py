"""Expectations: conditions that the panes of a run must meet before they may be published.

Each is computed as one aggregate over the staged panes whose kind is not `withdrawn`. Null results are
ignored unless `not_null` asks for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from slackwater.jobs.pipelines.errors import PipelineError

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
        if self.severity not in ("reject", "warn"):
            raise PipelineError(subject, f"severity is {self.severity!r}; it is 'reject' or 'warn'")
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
        """How the expectation is named in `validations`, on the terminal and in Airflow."""
        if self.kind == "between":
            low = "" if self.minimum is None else f"{self.minimum} <= "
            high = "" if self.maximum is None else f" <= {self.maximum}"
            return f"{low}{self.column}{high}"
        if self.kind == "in_set":
            return f"{self.column} in {list(self.values)}"
        return f"{self.column} is not null"


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
