"""The aggregates that a pipeline may select, as declarations: what to compute on which column, over which
rows of the window. How they accumulate, in which typed columns, is `slackwater.engine.aggregates`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from slackwater.pipelines.columns import is_type
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import parse_condition
from slackwater.pipelines.mistyped_names import no_function
from slackwater.windowing import AggregateFunction

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
    **dict.fromkeys(("covar_pop", "covar_samp", "corr"), ("other_column",)),
    **dict.fromkeys(("regr_slope", "regr_intercept", "regr_r2"), ("other_column",)),
    "bool_and": (),
    "bool_or": (),
    "bit_and": (),
    "bit_or": (),
    "bit_xor": (),
    "first": ("by",),
    "last": ("by",),
    "min_by": ("other_column",),
    "max_by": ("other_column",),
    "collect_list": ("by",),
    "string_agg": ("by", "separator"),
    "count_distinct": (),
    "sum_distinct": (),
    "collect_set": (),
    "mode": (),
    "top": ("limit",),
    "median": (),
    "quantile": ("quantile",),
    "histogram": ("bounds",),
    "function": ("function", "returns"),
    "approx_distinct": ("precision",),
    "approx_quantile": ("quantile", "relative_error"),
}
# Settings that the declaration may have or lack.
OPTIONAL_SETTINGS: dict[str, tuple[str, ...]] = {"collect_list": ("limit",)}
# Of each setting what holds for its values, and in words.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "by": (lambda value: value in ("event_time", "arrival"), "'event_time' or 'arrival'"),
    "precision": (lambda value: type(value) is int and 4 <= value <= 16, "a whole number from 4 to 16"),
    "quantile": (lambda value: type(value) in (int, float) and 0 <= value <= 1, "a number from 0 to 1"),
    "relative_error": (
        lambda value: type(value) is float and 0.0001 <= value <= 0.5,
        "a number from 0.0001 to 0.5",
    ),
    "other_column": (lambda value: isinstance(value, str) and value != "", "the name of a column"),
    "limit": (lambda value: type(value) is int and value >= 1, "a whole number from 1"),
    "separator": (lambda value: isinstance(value, str), "a text"),
    "bounds": (
        lambda value: (
            isinstance(value, tuple)
            and len(value) > 0
            and all(type(bound) in (int, float) and bound == bound for bound in value)
            and all(low < high for low, high in pairwise(value))
        ),
        "a list of ascending numbers, at least one",
    ),
    "function": (lambda value: isinstance(value, AggregateFunction), "an AggregateFunction"),
    "returns": (is_type, "a type, such as 'long' or 'array<string>'"),
}
# Settings that earlier versions lacked: the config hash of declarations without them is as it was.
SETTINGS_LEFT_OUT = ("other_column", "limit", "separator", "bounds", "function", "returns")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a window's elements.

    Attributes:
        kind: the name of its function below.
        column: the source column that it reads; None only for ``count()``, which counts elements.
        where: a condition (see `slackwater.pipelines.expressions`): rows that do not meet it are left
            out, as if they were null.
        by: of those that depend on the order of rows: ``event_time`` or ``arrival``.
        precision: of approx_distinct: 2 ** precision registers.
        quantile: of quantile and approx_quantile: 0 to 1.
        relative_error: of approx_quantile.
        other_column: the second source column, of an aggregate that reads two.
        limit: at most how many items a list has.
        separator: of string_agg: what stands between two texts.
        bounds: of histogram: numbers, ascending.
        function, returns: of function: the user's, and the SQL type of its results.

    Nulls are skipped, as in SQL: an aggregate over nothing but nulls is null (a count is 0).
    """

    kind: str
    column: str | None = None
    where: str | None = None
    by: str | None = None
    precision: int | None = None
    quantile: float | None = None
    relative_error: float | None = None
    other_column: str | None = None
    limit: int | None = None
    separator: str | None = None
    bounds: Sequence[float] | None = None
    function: AggregateFunction | None = None
    returns: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.bounds, list):  # as a declaration or the ledger has them
            object.__setattr__(self, "bounds", tuple(self.bounds))
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
        names = (self.column, self.other_column)
        return (*(name for name in names if name is not None), *self.columns_of_condition)

    @property
    def columns_of_condition(self) -> tuple[str, ...]:
        return () if self.where is None else parse_condition(f"aggregate {self.kind}", self.where).columns

    def _check_settings(self, subject: str) -> None:
        for name, (holds, rule) in _RULES.items():
            value, is_needed = getattr(self, name), name in KINDS[self.kind]
            if value is None and not is_needed:
                continue
            if value is None or not (is_needed or name in OPTIONAL_SETTINGS.get(self.kind, ())):
                kinds = [
                    kind
                    for kind, settings in KINDS.items()
                    if name in (*settings, *OPTIONAL_SETTINGS.get(kind, ()))
                ]
                *first, last = kinds
                words = f"{', '.join(first)} and {last}" if first else last
                must = ", which must have it" if value is None else ""
                raise PipelineError(subject, f"{name} is {value!r}; it belongs to {words}{must}")
            if not holds(value):
                raise PipelineError(subject, f"{name} is {value!r}; it is {rule}")


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


def covar_pop(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """Covariance of two numeric columns over the rows in which both have a value (SQL's COVAR_POP: divided by
    n), as a double, from exact sums of their doubles, rounded once at a firing. NaN when a value is NaN or
    infinite.
    """
    return Aggregate("covar_pop", x, where, other_column=y)


def covar_samp(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """As `covar_pop`, of a sample: divided by n − 1, null of fewer than two rows."""
    return Aggregate("covar_samp", x, where, other_column=y)


def corr(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """Pearson's correlation of two numeric columns, exact as `covar_pop`; null where all values of one are
    equal.
    """
    return Aggregate("corr", x, where, other_column=y)


def regr_slope(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Slope of the line y = slope · x + intercept that fits two numeric columns best (least squares), exact
    as `covar_pop`; null where all x are equal. The arguments are y, x, as in SQL.
    """
    return Aggregate("regr_slope", y, where, other_column=x)


def regr_intercept(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Intercept of the line of `regr_slope`."""
    return Aggregate("regr_intercept", y, where, other_column=x)


def regr_r2(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Determination (R²) of the line of `regr_slope`; 1 where all y are equal."""
    return Aggregate("regr_r2", y, where, other_column=x)


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


def min_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """The value of `column` in the row where the column `by` is least. Rows in which either is null are left
    out; of rows that are equal in `by` the least value counts.
    """
    return Aggregate("min_by", column, where, other_column=by)


def max_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """The value of `column` in the row where the column `by` is greatest (NaN is greater than every number).
    Rows in which either is null are left out; of rows that are equal in `by` the greatest value counts.
    """
    return Aggregate("max_by", column, where, other_column=by)


def collect_list(
    column: str,
    *,
    by: Literal["event_time", "arrival"] = "event_time",
    limit: int | None = None,
    where: str | None = None,
) -> Aggregate:
    """The values of a column as a list, in the order of `first`; with `limit` no more than the first ones.
    They are kept while the window is open, each with its times and a hash of its row.
    """
    return Aggregate("collect_list", column, where, by=by, limit=limit)


def string_agg(
    column: str,
    separator: str,
    *,
    by: Literal["event_time", "arrival"] = "event_time",
    where: str | None = None,
) -> Aggregate:
    """The values of a text column as one text, in the order of `first`, with `separator` between them. They
    are kept as those of `collect_list`.
    """
    return Aggregate("string_agg", column, where, by=by, separator=separator)


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


def mode(column: str, *, where: str | None = None) -> Aggregate:
    """The most frequent value of a column, of equally frequent ones the least. All different values are kept
    while the window is open, each with its count; so they are for `top`, `median` and `quantile`.
    """
    return Aggregate("mode", column, where)


def top(column: str, n: int, *, where: str | None = None) -> Aggregate:
    """The `n` most frequent values of a column, of equally frequent ones the least first, as a list of
    structs of `value` and `count`.
    """
    return Aggregate("top", column, where, limit=n)


def median(column: str, *, where: str | None = None) -> Aggregate:
    """The exact median of a numeric column as a double: `quantile` at 0.5."""
    return Aggregate("median", column, where)


def quantile(column: str, quantile: float, *, where: str | None = None) -> Aggregate:
    """An exact quantile of a numeric column as a double: of n values in order, counted from 0, the one at
    position quantile · (n − 1), between two values by linear interpolation (`quantile_cont` of SQL), rounded
    once. NaN comes last. See `approx_quantile` for many different values.
    """
    return Aggregate("quantile", column, where, quantile=quantile)


def histogram(column: str, bounds: Sequence[float], *, where: str | None = None) -> Aggregate:
    """How many values of a numeric column lie between ascending bounds, as a list of one count more than
    there are bounds: of values up to the first one, of those above it up to the second, …, of those above the
    last, NaN among them.
    """
    return Aggregate("histogram", column, where, bounds=bounds)


def function(
    function: AggregateFunction, column: str, *, returns: str, where: str | None = None
) -> Aggregate:
    """A function of your own over the values of a column, beside other aggregates: ``create_accumulator``,
    ``add(value, accumulator)``, ``merge`` and ``get_result``. It is handed no nulls. Its accumulator is plain
    values (numbers, texts, times, lists, tuples, dicts), parked as JSON, and must not depend on the order of
    values or of merges. `returns` is the SQL type of its results: ``double``, ``array<string>``.
    """
    return Aggregate("function", column, where, function=function, returns=returns)


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


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Any:
        raise no_function("agg", name, globals())
