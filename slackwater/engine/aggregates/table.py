"""The table of aggregates: for each kind the types of columns that it takes, and what it is bound to.

A new aggregate is a file with its `BoundAggregate` and an entry in AGGREGATES, beside its declaration in
`slackwater.pipelines.aggregates`. An aggregate from elsewhere is added by `register`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from slackwater.engine.aggregates.bits import BitFold
from slackwater.engine.aggregates.bound_aggregate import BoundAggregate
from slackwater.engine.aggregates.count import Count
from slackwater.engine.aggregates.covariances import FORMULAS, PairMoments
from slackwater.engine.aggregates.distinct import CollectSet, CountDistinct, SumDistinct
from slackwater.engine.aggregates.doubles import DoubleSum
from slackwater.engine.aggregates.extreme_row import ExtremeRow
from slackwater.engine.aggregates.extremum import Extremum
from slackwater.engine.aggregates.first_or_last import FirstOrLast
from slackwater.engine.aggregates.frequencies import Mode, Top
from slackwater.engine.aggregates.histograms import ApproxQuantile, Histogram
from slackwater.engine.aggregates.hyperloglog import ApproxDistinct
from slackwater.engine.aggregates.integers import DecimalSum, IntegerSum
from slackwater.engine.aggregates.lists import CollectList, StringAgg
from slackwater.engine.aggregates.own_function import OwnFunction
from slackwater.engine.aggregates.quantiles import Quantile
from slackwater.engine.aggregates.ranked_rows import RankedRows
from slackwater.engine.aggregates.variances import (
    DecimalVariance,
    DoubleVariance,
    IntegerVariance,
    Spread,
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
COMPARABLE_FAMILIES = (*ORDERED_FAMILIES, "boolean")


class OtherColumn(NamedTuple):
    """The second column of an aggregate that reads two."""

    name: str
    type: pa.DataType


@dataclass(frozen=True)
class AggregatedColumn:
    """The column of the source that an aggregate reads; `family` is one of COLUMN_FAMILIES.

    Attributes:
        other: the second column, of an aggregate that reads two.
        order: (name, type in `window_state`) of the source's order column, for an aggregate that ranks rows;
            None: there is no such column.
        hashed_columns: the columns that a row's hash covers.
    """

    name: str
    family: str
    type: pa.DataType
    order: tuple[str, pa.DataType] | None
    hashed_columns: tuple[str, ...]
    other: OtherColumn | None = None


@dataclass(frozen=True)
class AggregateKind:
    """One kind of aggregate: the families of columns that it takes, none for any column, and the aggregate
    bound to one.

    Attributes:
        other_families: those of the second column, of an aggregate that reads two.
    """

    families: tuple[str, ...]
    bind: Callable[[Aggregate, AggregatedColumn], BoundAggregate]
    other_families: tuple[str, ...] = ()


def register(kind: str, entry: AggregateKind, settings: tuple[str, ...] = ()) -> None:
    """From now on `Aggregate(kind, column)` may be selected, with `settings` in its declaration, in this
    process only: call it in a module that executors import. Raises ValueError where the kind exists.
    """
    if kind in KINDS or kind in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind!r}; the kinds are {', '.join(KINDS)}")
    AGGREGATES[kind] = entry
    KINDS[kind] = settings


def _sum_or_mean(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    is_mean = aggregate.kind == "mean"
    if column.family == "decimal":
        return DecimalSum(column.name, is_mean, column.type.scale)
    return (DoubleSum if column.family == "floating" else IntegerSum)(column.name, is_mean)


def _variance(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    spread = Spread(
        is_root=aggregate.kind.startswith("stddev"), is_of_sample=not aggregate.kind.endswith("_pop")
    )
    if column.family == "decimal":
        return DecimalVariance(column.name, spread, column.type.scale)
    return (DoubleVariance if column.family == "floating" else IntegerVariance)(column.name, spread)


def _sum_distinct(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    return SumDistinct(column.name, column.type, _sum_or_mean(aggregate, column))


def _extremum(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    return Extremum(column.name, aggregate.kind, aggregate.kind in ("min", "bool_and"), column.type)


def _ranked_rows(aggregate: Aggregate, column: AggregatedColumn) -> RankedRows:
    return RankedRows(
        column=column.name,
        kind=column.type,
        by_event_time=aggregate.by == "event_time",
        order=column.order,
        hashed_columns=column.hashed_columns,
    )


def _first_or_last(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    return FirstOrLast(_ranked_rows(aggregate, column), is_last=aggregate.kind == "last")


def _collect_list(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    return CollectList(_ranked_rows(aggregate, column), aggregate.limit)


def _string_agg(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.separator is not None
    return StringAgg(_ranked_rows(aggregate, column), aggregate.separator)


def _extreme_row(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert column.other is not None
    return ExtremeRow((column.name, column.type), column.other, is_max=aggregate.kind == "max_by")


def _top(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.limit is not None
    return Top(column.name, column.type, aggregate.limit)


def _quantile(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    return Quantile(column.name, column.type, 0.5 if aggregate.quantile is None else aggregate.quantile)


def _pair_moments(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert column.other is not None
    x, y = column.name, column.other.name
    # The arguments of SQL's regressions are y, x.
    return PairMoments(*((y, x) if aggregate.kind.startswith("regr") else (x, y)), aggregate.kind)


def _histogram(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.bounds is not None
    return Histogram(column.name, tuple(aggregate.bounds))


def _own_function(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.function is not None and aggregate.returns is not None
    return OwnFunction(column.name, column.type, aggregate.function, aggregate.returns)


def _approx_distinct(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.precision is not None
    return ApproxDistinct(column.name, aggregate.precision)


def _approx_quantile(aggregate: Aggregate, column: AggregatedColumn) -> BoundAggregate:
    assert aggregate.quantile is not None and aggregate.relative_error is not None
    return ApproxQuantile(column.name, aggregate.quantile, aggregate.relative_error)


_EXTREMUM = AggregateKind(ORDERED_FAMILIES, _extremum)
_EXTREMUM_OF_BOOLEANS = AggregateKind(("boolean",), _extremum)
_BIT_FOLD = AggregateKind(
    ("integer",), lambda aggregate, column: BitFold(column.name, aggregate.kind, column.type)
)
_SUM_OR_MEAN = AggregateKind(NUMERIC_FAMILIES, _sum_or_mean)
_VARIANCE = AggregateKind(NUMERIC_FAMILIES, _variance)
_FIRST_OR_LAST = AggregateKind(COMPARABLE_FAMILIES, _first_or_last)

_EXTREME_ROW = AggregateKind(COMPARABLE_FAMILIES, _extreme_row, ORDERED_FAMILIES)
_PAIR_MOMENTS = AggregateKind(NUMERIC_FAMILIES, _pair_moments, NUMERIC_FAMILIES)
_QUANTILE = AggregateKind(NUMERIC_FAMILIES, _quantile)

AGGREGATES: dict[str, AggregateKind] = {
    "count": AggregateKind((), lambda aggregate, column: Count(column.name)),
    "sum": _SUM_OR_MEAN,
    "mean": _SUM_OR_MEAN,
    "min": _EXTREMUM,
    "max": _EXTREMUM,
    "variance": _VARIANCE,
    "stddev": _VARIANCE,
    "var_pop": _VARIANCE,
    "stddev_pop": _VARIANCE,
    **dict.fromkeys(FORMULAS, _PAIR_MOMENTS),
    "bool_and": _EXTREMUM_OF_BOOLEANS,
    "bool_or": _EXTREMUM_OF_BOOLEANS,
    "bit_and": _BIT_FOLD,
    "bit_or": _BIT_FOLD,
    "bit_xor": _BIT_FOLD,
    "first": _FIRST_OR_LAST,
    "last": _FIRST_OR_LAST,
    "min_by": _EXTREME_ROW,
    "max_by": _EXTREME_ROW,
    "collect_list": AggregateKind(COMPARABLE_FAMILIES, _collect_list),
    "string_agg": AggregateKind(("string",), _string_agg),
    "count_distinct": AggregateKind(
        COMPARABLE_FAMILIES, lambda aggregate, column: CountDistinct(column.name, column.type)
    ),
    "sum_distinct": AggregateKind(NUMERIC_FAMILIES, _sum_distinct),
    "collect_set": AggregateKind(
        COMPARABLE_FAMILIES, lambda aggregate, column: CollectSet(column.name, column.type)
    ),
    "mode": AggregateKind(COMPARABLE_FAMILIES, lambda aggregate, column: Mode(column.name, column.type)),
    "top": AggregateKind(COMPARABLE_FAMILIES, _top),
    "median": _QUANTILE,
    "quantile": _QUANTILE,
    "histogram": AggregateKind(NUMERIC_FAMILIES, _histogram),
    "function": AggregateKind((), _own_function),
    "approx_distinct": AggregateKind(COMPARABLE_FAMILIES, _approx_distinct),
    "approx_quantile": AggregateKind(NUMERIC_FAMILIES, _approx_quantile),
}
