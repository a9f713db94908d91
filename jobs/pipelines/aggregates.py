"""The aggregates that a pipeline may select, as declarations: what to compute on which column.

How they accumulate, and which typed columns hold their state, is `jobs.engines.accumulators`.
"""

from dataclasses import dataclass

from jobs.pipelines.errors import PipelineError

_KINDS = ("count", "sum", "mean", "min", "max")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a window's elements.

    Attributes:
        kind: ``count``, ``sum``, ``min``, ``max`` or ``mean``.
        column: the source column that it reads; None only for ``count()``, which counts elements.

    Nulls are SQL's: they are skipped, and an aggregate over none but nulls is null (a count is 0).
    """

    kind: str
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise PipelineError(f"aggregate {self.kind!r}", f"it is one of {', '.join(_KINDS)}")
        if self.column is None and self.kind != "count":
            raise PipelineError(f"aggregate {self.kind}()", "it needs a column, e.g. " + f'{self.kind}("amount")')
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise PipelineError(f"aggregate {self.kind}", f"the column is {self.column!r}; give its name as text")


def count(column: str | None = None) -> Aggregate:
    """Elements of the window, or those whose `column` is not null."""
    return Aggregate("count", column)


def sum(column: str) -> Aggregate:
    """Sum of a numeric column: exact for integers (an overflow of bigint at a firing is an error), rounded once for floats."""
    return Aggregate("sum", column)


def mean(column: str) -> Aggregate:
    """Mean of a numeric column as a double, from an exact sum, rounded once at a firing."""
    return Aggregate("mean", column)


def min_(column: str) -> Aggregate:
    """Smallest value of a column; NaN is greater than every number."""
    return Aggregate("min", column)


def max_(column: str) -> Aggregate:
    """Greatest value of a column; NaN is greater than every number."""
    return Aggregate("max", column)
