"""The table of aggregates: for each kind, which columns it takes, its accumulator and its columnar form.

A new aggregate is a file with both forms and an entry in AGGREGATES, beside its declaration in
`slackwater.jobs.pipelines.aggregates`. An aggregate from elsewhere is added by `register`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.jobs.engines.aggregates.accumulator import Accumulator
from slackwater.jobs.engines.aggregates.columnar_aggregate import ColumnarAggregate
from slackwater.jobs.engines.aggregates.count import ColumnarCount, Count
from slackwater.jobs.engines.aggregates.distinct import ColumnarCountDistinct, CountDistinct
from slackwater.jobs.engines.aggregates.doubles import ColumnarDouble, DoubleMean, DoubleSum
from slackwater.jobs.engines.aggregates.extremum import ColumnarExtremum, Extremum
from slackwater.jobs.engines.aggregates.first_or_last import ColumnarFirstOrLast, FirstOrLast
from slackwater.jobs.engines.aggregates.histograms import ApproxQuantile, ColumnarApproxQuantile
from slackwater.jobs.engines.aggregates.hyperloglog import ApproxDistinct, ColumnarApproxDistinct
from slackwater.jobs.engines.aggregates.integers import (
    ColumnarDecimal,
    ColumnarInteger,
    DecimalMean,
    DecimalSum,
    IntegerMean,
    IntegerSum,
)
from slackwater.jobs.engines.aggregates.variances import (
    ColumnarVariance,
    DecimalVariance,
    DoubleVariance,
    IntegerVariance,
)
from slackwater.jobs.pipelines.aggregates import KINDS, Aggregate

# Families of column types, each named after its test in `pyarrow.types`, and what messages call them.
COLUMN_FAMILIES = {
    "integer": "integers",
    "floating": "floats",
    "decimal": "decimals",
    "string": "strings",
    "date": "dates",
    "timestamp": "timestamps",
    "boolean": "booleans",
}
NUMERIC = ("integer", "floating", "decimal")
ORDERED = (*NUMERIC, "string", "date", "timestamp")


@dataclass(frozen=True)
class AggregatedColumn:
    """The column of the source that an aggregate reads.

    Attributes:
        family: which of COLUMN_FAMILIES its type is of.
        type: its type as stored in `window_state`.
        order: name and stored type of the source's order column, for an aggregate that ranks rows; None:
            there is none.
        hashed: the columns that a row's hash is of.
    """

    family: str
    type: pa.DataType
    order: tuple[str, pa.DataType] | None
    hashed: tuple[str, ...]


@dataclass(frozen=True)
class AggregateForms:
    """One kind of aggregate.

    Attributes:
        families: of the columns that it takes.
        accumulator: makes its accumulator for a declaration and its column.
        columnar: makes its columnar form for that accumulator and the declaration; None: it has none, and
            pipelines that select it run in the operator engine.
    """

    families: tuple[str, ...]
    accumulator: Callable[[Aggregate, AggregatedColumn], Accumulator]
    columnar: Callable[[Any, Aggregate], ColumnarAggregate] | None = None


def register(kind: str, forms: AggregateForms, settings: tuple[str, ...] = ()) -> None:
    """Add an aggregate: from now on `Aggregate(kind, column)` may be selected, with the `settings` that its
    declaration must have.

    A registration is of the process that makes it: the module that registers is one that executors import.

    Raises:
        ValueError: there is one of that kind.
    """
    if kind in KINDS or kind in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind!r}; the kinds are {', '.join(KINDS)}")
    AGGREGATES[kind] = forms
    KINDS[kind] = settings


def column_of(declared: Aggregate) -> str:
    """The column of an aggregate that has one."""
    assert declared.column is not None
    return declared.column


def _sum(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    if column.family == "decimal":
        return DecimalSum(column.type.scale)
    return DoubleSum() if column.family == "floating" else IntegerSum()


def _mean(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    if column.family == "decimal":
        return DecimalMean(column.type.scale)
    return DoubleMean() if column.family == "floating" else IntegerMean()


def _columnar_sum_or_mean(accumulator: Accumulator, declared: Aggregate) -> ColumnarAggregate:
    column, is_mean = column_of(declared), declared.kind == "mean"
    if isinstance(accumulator, DoubleSum | DoubleMean):
        return ColumnarDouble(column, is_mean=is_mean)
    if isinstance(accumulator, DecimalSum | DecimalMean):
        return ColumnarDecimal(column, is_mean=is_mean, scale=accumulator.scale)
    return ColumnarInteger(column, is_mean=is_mean)


def _variance(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    is_root = declared.kind == "stddev"
    if column.family == "decimal":
        return DecimalVariance(is_root, column.type.scale)
    return DoubleVariance(is_root) if column.family == "floating" else IntegerVariance(is_root)


def _first_or_last(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    is_last, by_event_time = declared.kind == "last", declared.by == "event_time"
    return FirstOrLast(is_last, by_event_time, column.type, column.order, column.hashed)


def _approx_distinct(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    assert declared.precision is not None
    return ApproxDistinct(declared.precision, column.type)


def _approx_quantile(declared: Aggregate, column: AggregatedColumn) -> Accumulator:
    assert declared.quantile is not None and declared.relative_error is not None
    return ApproxQuantile(declared.quantile, declared.relative_error)


_EXTREMUM = AggregateForms(
    ORDERED,
    lambda declared, column: Extremum(declared.kind, column.type),
    lambda bound, declared: ColumnarExtremum(column_of(declared), declared.kind == "min", bound.result_type),
)
_VARIANCE = AggregateForms(
    NUMERIC,
    _variance,
    lambda bound, declared: ColumnarVariance(column_of(declared), bound, declared.kind == "stddev"),
)
_FIRST_OR_LAST = AggregateForms(
    (*ORDERED, "boolean"),
    _first_or_last,
    lambda bound, declared: ColumnarFirstOrLast(column_of(declared), bound),
)

AGGREGATES: dict[str, AggregateForms] = {
    "count": AggregateForms(
        (),  # of any column, or of none
        lambda declared, column: Count(),
        lambda bound, declared: ColumnarCount(declared.column),
    ),
    "sum": AggregateForms(NUMERIC, _sum, _columnar_sum_or_mean),
    "mean": AggregateForms(NUMERIC, _mean, _columnar_sum_or_mean),
    "min": _EXTREMUM,
    "max": _EXTREMUM,
    "variance": _VARIANCE,
    "stddev": _VARIANCE,
    "first": _FIRST_OR_LAST,
    "last": _FIRST_OR_LAST,
    "count_distinct": AggregateForms(
        (*ORDERED, "boolean"),
        lambda declared, column: CountDistinct(column.type),
        lambda bound, declared: ColumnarCountDistinct(column_of(declared), bound.parts[0][1].value_type),
    ),
    "approx_distinct": AggregateForms(
        (*ORDERED, "boolean"),
        _approx_distinct,
        lambda bound, declared: ColumnarApproxDistinct(column_of(declared), bound),
    ),
    "approx_quantile": AggregateForms(
        NUMERIC,
        _approx_quantile,
        lambda bound, declared: ColumnarApproxQuantile(column_of(declared), bound),
    ),
}
