"""The table of aggregates: for each kind the types of columns that it takes, its accumulator and its columnar
form.

A new aggregate is a file with both forms and an entry in AGGREGATES, beside its declaration in
`slackwater.pipelines.aggregates`. An aggregate from elsewhere is added by `register`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.engine.aggregates.accumulator import Accumulator, ColumnarAggregate
from slackwater.engine.aggregates.count import ColumnarCount, Count
from slackwater.engine.aggregates.distinct import ColumnarCountDistinct, CountDistinct
from slackwater.engine.aggregates.doubles import ColumnarDouble, DoubleMean, DoubleSum
from slackwater.engine.aggregates.extremum import ColumnarExtremum, Extremum
from slackwater.engine.aggregates.first_or_last import ColumnarFirstOrLast, FirstOrLast
from slackwater.engine.aggregates.histograms import ApproxQuantile, ColumnarApproxQuantile
from slackwater.engine.aggregates.hyperloglog import ApproxDistinct, ColumnarApproxDistinct
from slackwater.engine.aggregates.integers import (
    ColumnarDecimal,
    ColumnarInteger,
    DecimalMean,
    DecimalSum,
    IntegerMean,
    IntegerSum,
)
from slackwater.engine.aggregates.variances import (
    ColumnarVariance,
    DecimalVariance,
    DoubleVariance,
    IntegerVariance,
)
from slackwater.pipelines.aggregates import KINDS, Aggregate

# Families of column types: the name of the test in `pyarrow.types` → the word for it in messages.
COLUMN_FAMILIES = {
    "integer": "integers",
    "floating": "floats",
    "decimal": "decimals",
    "string": "strings",
    "date": "dates",
    "timestamp": "timestamps",
    "boolean": "booleans",
}
NUMERIC_FAMILIES = ("integer", "floating", "decimal")
ORDERED_FAMILIES = (*NUMERIC_FAMILIES, "string", "date", "timestamp")


@dataclass(frozen=True)
class AggregatedColumn:
    """The column of the source that an aggregate reads; `family` is one of COLUMN_FAMILIES.

    Attributes:
        order: (name, type in `window_state`) of the source's order column, for an aggregate that ranks rows;
            None: there is no such column.
        hashed_columns: the columns that a row's hash covers.
    """

    family: str
    type: pa.DataType
    order: tuple[str, pa.DataType] | None
    hashed_columns: tuple[str, ...]


@dataclass(frozen=True)
class AggregateForms:
    """The forms of one kind of aggregate; pipelines without a columnar one run in the operator engine."""

    families: tuple[str, ...]
    accumulator: Callable[[Aggregate, AggregatedColumn], Accumulator]
    columnar: Callable[[Any, Aggregate], ColumnarAggregate] | None = None


def register(kind: str, forms: AggregateForms, settings: tuple[str, ...] = ()) -> None:
    """From now on `Aggregate(kind, column)` may be selected, with `settings` in its declaration, in this
    process only: call it in a module that executors import. Raises ValueError where the kind exists.
    """
    if kind in KINDS or kind in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind!r}; the kinds are {', '.join(KINDS)}")
    AGGREGATES[kind] = forms
    KINDS[kind] = settings


def column_of(aggregate: Aggregate) -> str:
    assert aggregate.column is not None
    return aggregate.column


def _sum(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    if column.family == "decimal":
        return DecimalSum(column.type.scale)
    return DoubleSum() if column.family == "floating" else IntegerSum()


def _mean(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    if column.family == "decimal":
        return DecimalMean(column.type.scale)
    return DoubleMean() if column.family == "floating" else IntegerMean()


def _columnar_sum_or_mean(accumulator: Accumulator, aggregate: Aggregate) -> ColumnarAggregate:
    column, is_mean = column_of(aggregate), aggregate.kind == "mean"
    if isinstance(accumulator, DoubleSum | DoubleMean):
        return ColumnarDouble(column, is_mean=is_mean)
    if isinstance(accumulator, DecimalSum | DecimalMean):
        return ColumnarDecimal(column, is_mean=is_mean, scale=accumulator.scale)
    return ColumnarInteger(column, is_mean=is_mean)


def _variance(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    is_root = aggregate.kind == "stddev"
    if column.family == "decimal":
        return DecimalVariance(is_root, column.type.scale)
    return DoubleVariance(is_root) if column.family == "floating" else IntegerVariance(is_root)


def _first_or_last(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    is_last, by_event_time = aggregate.kind == "last", aggregate.by == "event_time"
    return FirstOrLast(is_last, by_event_time, column.type, column.order, column.hashed_columns)


def _approx_distinct(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    assert aggregate.precision is not None
    return ApproxDistinct(aggregate.precision, column.type)


def _approx_quantile(aggregate: Aggregate, column: AggregatedColumn) -> Accumulator:
    assert aggregate.quantile is not None and aggregate.relative_error is not None
    return ApproxQuantile(aggregate.quantile, aggregate.relative_error)


_EXTREMUM = AggregateForms(
    ORDERED_FAMILIES,
    lambda aggregate, column: Extremum(aggregate.kind, column.type),
    lambda bound, aggregate: ColumnarExtremum(
        column_of(aggregate), aggregate.kind == "min", bound.result_type
    ),
)
_VARIANCE = AggregateForms(
    NUMERIC_FAMILIES,
    _variance,
    lambda bound, aggregate: ColumnarVariance(column_of(aggregate), bound, aggregate.kind == "stddev"),
)
_FIRST_OR_LAST = AggregateForms(
    (*ORDERED_FAMILIES, "boolean"),
    _first_or_last,
    lambda bound, aggregate: ColumnarFirstOrLast(column_of(aggregate), bound),
)

AGGREGATES: dict[str, AggregateForms] = {
    "count": AggregateForms(
        (),  # takes any column, or none
        lambda aggregate, column: Count(),
        lambda bound, aggregate: ColumnarCount(aggregate.column),
    ),
    "sum": AggregateForms(NUMERIC_FAMILIES, _sum, _columnar_sum_or_mean),
    "mean": AggregateForms(NUMERIC_FAMILIES, _mean, _columnar_sum_or_mean),
    "min": _EXTREMUM,
    "max": _EXTREMUM,
    "variance": _VARIANCE,
    "stddev": _VARIANCE,
    "first": _FIRST_OR_LAST,
    "last": _FIRST_OR_LAST,
    "count_distinct": AggregateForms(
        (*ORDERED_FAMILIES, "boolean"),
        lambda aggregate, column: CountDistinct(column.type),
        lambda bound, aggregate: ColumnarCountDistinct(column_of(aggregate), bound.parts[0][1].value_type),
    ),
    "approx_distinct": AggregateForms(
        (*ORDERED_FAMILIES, "boolean"),
        _approx_distinct,
        lambda bound, aggregate: ColumnarApproxDistinct(column_of(aggregate), bound),
    ),
    "approx_quantile": AggregateForms(
        NUMERIC_FAMILIES,
        _approx_quantile,
        lambda bound, aggregate: ColumnarApproxQuantile(column_of(aggregate), bound),
    ),
}
