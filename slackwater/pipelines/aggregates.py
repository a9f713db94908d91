"""The aggregates that a pipeline may select, as declarations: what to compute on which column, over which
rows of the window. How they accumulate, in which typed columns, is `slackwater.engine.aggregates`.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import parse_condition

# Each kind, and the settings that its declaration must have.
KINDS: dict[str, tuple[str, ...]] = {
    "count": (),
    "sum": (),
    "mean": (),
    "min": (),
    "max": (),
    "variance": (),
    "stddev": (),
    "var_pop": (),
    "stddev_pop": (),
    "bool_and": (),
    "bool_or": (),
    "bit_and": (),
    "bit_or": (),
    "bit_xor": (),
    "first": ("by",),
    "last": ("by",),
    "count_distinct": (),
    "sum_distinct": (),
    "collect_set": (),
    "approx_distinct": ("precision",),
    "approx_quantile": ("quantile", "relative_error"),
}


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a window's elements.

    Attributes:
        kind: the name of its function below.
        column: the source column that it reads; None only for ``count()``, which counts elements.
        where: a condition (see `slackwater.pipelines.expressions`): rows that do not meet it are left
            out, as if they were null.
        by: of first and last: ``event_time`` or ``arrival``.
        precision: of approx_distinct: 2 ** precision registers.
        quantile: of approx_quantile: 0 to 1.
        relative_error: of approx_quantile.

    Nulls are skipped, as in SQL: an aggregate over nothing but nulls is null (a count is 0).
    """

    kind: str
    column: str | None = None
    where: str | None = None
    by: str | None = None
    precision: int | None = None
    quantile: float | None = None
    relative_error: float | None = None

    def __post_init__(self) -> None:
        subject = f"aggregate {self.kind}"
        if self.kind not in KINDS:
            raise PipelineError(f"aggregate {self.kind!r}", f"it is one of {', '.join(KINDS)}")
        if self.column is None and self.kind != "count":
            raise PipelineError(
                f"aggregate {self.kind}()", "it needs a column, e.g. " + f'{self.kind}("amount")'
            )
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise PipelineError(subject, f"the column is {self.column!r}; give its name as text")
        if self.where is not None:
            parse_condition(subject, self.where)
        self._check_settings(subject)

    @property
    def columns(self) -> tuple[str, ...]:
        """The source columns that it reads, the columns of its condition last."""
        column = () if self.column is None else (self.column,)
        if self.where is None:
            return column
        return (*column, *parse_condition(f"aggregate {self.kind}", self.where).columns)

    def _check_settings(self, subject: str) -> None:
        for name in ("by", "precision", "quantile", "relative_error"):
            if (getattr(self, name) is not None) != (name in KINDS[self.kind]):
                kinds = [kind for kind, settings in KINDS.items() if name in settings]
                raise PipelineError(
                    subject,
                    f"{name} is {getattr(self, name)!r}; it belongs to {' and '.join(kinds)}, which must "
                    "have it",
                )
        if self.by is not None and self.by not in ("event_time", "arrival"):
            raise PipelineError(subject, f"by is {self.by!r}; it is 'event_time' or 'arrival'")
        if self.precision is not None and not (type(self.precision) is int and 4 <= self.precision <= 16):
            raise PipelineError(
                subject, f"precision is {self.precision!r}; it is a whole number from 4 to 16"
            )
        if self.quantile is not None and not (
            type(self.quantile) in (int, float) and 0 <= self.quantile <= 1
        ):
            raise PipelineError(subject, f"quantile is {self.quantile!r}; it is a number from 0 to 1")
        if self.relative_error is not None and not (
            type(self.relative_error) is float and 0.0001 <= self.relative_error <= 0.5
        ):
            raise PipelineError(
                subject, f"relative_error is {self.relative_error!r}; it is a number from 0.0001 to 0.5"
            )


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Elements of the window, or those whose `column` is not null."""
    return Aggregate("count", column, where)


def sum(column: str, *, where: str | None = None) -> Aggregate:
    """Sum of a numeric column: exact for integers (an overflow of bigint at a firing is an error), rounded
    once for floats.
    """
    return Aggregate("sum", column, where)


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """Mean of a numeric column as a double, from an exact sum, rounded once at a firing."""
    return Aggregate("mean", column, where)


def min(column: str, *, where: str | None = None) -> Aggregate:
    """Smallest value of a column; NaN is greater than every number."""
    return Aggregate("min", column, where)


def max(column: str, *, where: str | None = None) -> Aggregate:
    """Greatest value of a column; NaN is greater than every number."""
    return Aggregate("max", column, where)


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """Sample variance of a numeric column (SQL's VAR_SAMP: divided by n − 1) as a double, from exact sums,
    rounded once at a firing. Null of fewer than two values; NaN when a value is NaN or infinite.
    """
    return Aggregate("variance", column, where)


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """Sample standard deviation (SQL's STDDEV_SAMP): the square root of the exact variance, rounded once."""
    return Aggregate("stddev", column, where)


def var_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Variance of a population (SQL's VAR_POP: divided by n), exact as `variance`; 0 of one value."""
    return Aggregate("var_pop", column, where)


def stddev_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Standard deviation of a population (SQL's STDDEV_POP): the square root of `var_pop`, rounded once."""
    return Aggregate("stddev_pop", column, where)


def bool_and(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean column is true in all rows."""
    return Aggregate("bool_and", column, where)


def bool_or(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean column is true in any row."""
    return Aggregate("bool_or", column, where)


def bit_and(column: str, *, where: str | None = None) -> Aggregate:
    """The bits that are set in all values of an integer column, as its type."""
    return Aggregate("bit_and", column, where)


def bit_or(column: str, *, where: str | None = None) -> Aggregate:
    """The bits that are set in any value of an integer column, as its type."""
    return Aggregate("bit_or", column, where)


def bit_xor(column: str, *, where: str | None = None) -> Aggregate:
    """The bits that are set in an odd number of values of an integer column, as its type."""
    return Aggregate("bit_xor", column, where)


def first(
    column: str, *, by: Literal["event_time", "arrival"] = "event_time", where: str | None = None
) -> Aggregate:
    """The value of the first row whose `column` is not null: by (event time, arrival, order column, row
    hash), with ``by="arrival"`` without the event time. The firsts of two columns come from the same row
    where both have a value in it.
    """
    return Aggregate("first", column, where, by=by)


def last(
    column: str, *, by: Literal["event_time", "arrival"] = "event_time", where: str | None = None
) -> Aggregate:
    """The value of the last row whose `column` is not null; the order is that of `first`."""
    return Aggregate("last", column, where, by=by)


def count_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """How many different values, exactly. All of them are kept while the window is open: see
    `approx_distinct` for many.
    """
    return Aggregate("count_distinct", column, where)


def sum_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """Sum of the different values of a numeric column, exact as `sum`. All of them are kept while the window
    is open.
    """
    return Aggregate("sum_distinct", column, where)


def collect_set(column: str, *, where: str | None = None) -> Aggregate:
    """The different values of a column as an ascending list, NaN last. All of them are kept while the window
    is open.
    """
    return Aggregate("collect_set", column, where)


def approx_distinct(column: str, *, precision: int = 12, where: str | None = None) -> Aggregate:
    """About how many different values: HyperLogLog with 2 ** precision registers. The standard error is 1.04
    / √(2 ** precision), by default 1.6 %. At most 2 ** precision bytes a window.
    """
    return Aggregate("approx_distinct", column, where, precision=precision)


def approx_quantile(
    column: str, quantile: float, *, relative_error: float = 0.01, where: str | None = None
) -> Aggregate:
    """A quantile of a numeric column as a double, within `relative_error` of an element of the window. That
    element is the one at position ⌊quantile · (n − 1)⌋ of the n values in order, counted from 0; NaN comes
    last. A histogram with buckets of equal relative width; values below 2.3e-308 count as 0.
    """
    return Aggregate("approx_quantile", column, where, quantile=quantile, relative_error=relative_error)
