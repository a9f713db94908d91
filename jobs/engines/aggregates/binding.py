"""From a declared aggregate and the types of the source to its accumulator, and from that to its columnar form.

The table of aggregates: `FORMS` and `_accumulator` name each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates.accumulator import Accumulator
from slackwater.jobs.engines.aggregates.columnar_aggregate import ColumnarAggregate, Columns
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
from slackwater.jobs.engines.rows.columns_read import columns_read
from slackwater.jobs.engines.rows.conditions import Condition, bind_condition
from slackwater.jobs.pipelines import Aggregate, Pipeline
from slackwater.jobs.pipelines.errors import PipelineError
from slackwater.jobs.tables.schemas import TIME
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups

Types = Mapping[str, pa.DataType]


_NUMERIC = ("integer", "floating", "decimal")


_ORDERED = (*_NUMERIC, "string", "date", "timestamp")


_FAMILIES = {
    **dict.fromkeys(("sum", "mean", "variance", "stddev", "approx_quantile"), _NUMERIC),
    **dict.fromkeys(("min", "max"), _ORDERED),
    **dict.fromkeys(("first", "last", "count_distinct", "approx_distinct"), (*_ORDERED, "boolean")),
}


_PLURALS = {
    "integer": "integers",
    "floating": "floats",
    "decimal": "decimals",
    "string": "strings",
    "date": "dates",
}


_PLURALS |= {"timestamp": "timestamps", "boolean": "booleans"}


def bind_select(pipeline: Pipeline, types: Types) -> dict[str, Accumulator]:
    """The accumulators of a pipeline's `select`, by result, on a source whose columns have `types`.

    Raises:
        PipelineError: see `bind`.
    """
    order_by, hashed = pipeline.source.order_by, columns_read(pipeline, tuple(types))
    return {
        name: bind(name, aggregate, types, order_by, hashed) for name, aggregate in pipeline.select.items()
    }


def bind(
    name: str, aggregate: Aggregate, types: Types, order_by: str | None = None, hashed: tuple[str, ...] = ()
) -> Accumulator:
    """The accumulator of `aggregate` on a source whose columns have `types`, `order_by` among them; a row's
    hash is of those `hashed`.

    Raises:
        PipelineError: a column is missing, or its type does not suit the aggregate or its condition.
    """
    subject = f"select[{name!r}] = {aggregate.kind}({aggregate.column!r})"
    if aggregate.where is not None:
        bind_condition(subject, aggregate.where, types)
    if aggregate.column is None:
        return Count()
    if aggregate.column not in types:
        raise PipelineError(
            subject, f"the source has no column {aggregate.column!r}; it has {', '.join(sorted(types))}"
        )
    if aggregate.kind == "count":
        return Count()
    kind = types[aggregate.column]
    families = _FAMILIES[aggregate.kind]
    family = next((family for family in families if getattr(pa.types, f"is_{family}")(kind)), None)
    if family is None:
        *most, final = (_PLURALS[family] for family in families)
        raise PipelineError(
            subject, f"the column is {kind}; {aggregate.kind} takes {', '.join(most)} and {final}"
        )
    if aggregate.kind in ("first", "last"):
        order = None if order_by is None else (order_by, _stored(types[order_by]))
        return FirstOrLast(
            aggregate.kind == "last", aggregate.by == "event_time", _stored(kind), order, hashed
        )
    return _accumulator(aggregate, family, _stored(kind))


def _stored(kind: pa.DataType) -> pa.DataType:
    return TIME if pa.types.is_timestamp(kind) else kind


def _accumulator(aggregate: Aggregate, family: str, kind: pa.DataType) -> Accumulator:
    match aggregate.kind, family:
        case "sum", "decimal":
            return DecimalSum(kind.scale)
        case "sum", _:
            return DoubleSum() if family == "floating" else IntegerSum()
        case "mean", "decimal":
            return DecimalMean(kind.scale)
        case "mean", _:
            return DoubleMean() if family == "floating" else IntegerMean()
        case "variance" | "stddev", "decimal":
            return DecimalVariance(aggregate.kind == "stddev", kind.scale)
        case "variance" | "stddev", _:
            return (DoubleVariance if family == "floating" else IntegerVariance)(aggregate.kind == "stddev")
        case "min" | "max", _:
            return Extremum(aggregate.kind, kind)
        case "count_distinct", _:
            return CountDistinct(kind)
        case "approx_distinct", _:
            assert aggregate.precision is not None
            return ApproxDistinct(aggregate.precision, kind)
    assert aggregate.quantile is not None and aggregate.relative_error is not None
    return ApproxQuantile(aggregate.quantile, aggregate.relative_error)


Form = Callable[[Any, Aggregate], ColumnarAggregate]


def _column(declared: Aggregate) -> str:
    assert declared.column is not None
    return declared.column


# Class of the accumulator → its columnar form, from the bound accumulator and the declaration.
FORMS: Mapping[type, Form] = {
    Count: lambda bound, declared: ColumnarCount(declared.column),
    IntegerSum: lambda bound, declared: ColumnarInteger(_column(declared), is_mean=False),
    IntegerMean: lambda bound, declared: ColumnarInteger(_column(declared), is_mean=True),
    DecimalSum: lambda bound, declared: ColumnarDecimal(_column(declared), is_mean=False, scale=bound.scale),
    DecimalMean: lambda bound, declared: ColumnarDecimal(_column(declared), is_mean=True, scale=bound.scale),
    DoubleSum: lambda bound, declared: ColumnarDouble(_column(declared), is_mean=False),
    DoubleMean: lambda bound, declared: ColumnarDouble(_column(declared), is_mean=True),
    IntegerVariance: lambda bound, declared: ColumnarVariance(
        _column(declared), bound, declared.kind == "stddev"
    ),
    DecimalVariance: lambda bound, declared: ColumnarVariance(
        _column(declared), bound, declared.kind == "stddev"
    ),
    DoubleVariance: lambda bound, declared: ColumnarVariance(
        _column(declared), bound, declared.kind == "stddev"
    ),
    FirstOrLast: lambda bound, declared: ColumnarFirstOrLast(_column(declared), bound),
    CountDistinct: lambda bound, declared: ColumnarCountDistinct(
        _column(declared), bound.parts[0][1].value_type
    ),
    ApproxDistinct: lambda bound, declared: ColumnarApproxDistinct(_column(declared), bound),
    ApproxQuantile: lambda bound, declared: ColumnarApproxQuantile(_column(declared), bound),
    Extremum: lambda bound, declared: ColumnarExtremum(
        _column(declared), declared.kind == "min", bound.result_type
    ),
}


def bind_columnar(
    accumulator: Accumulator, declared: Aggregate, types: Mapping[str, pa.DataType]
) -> ColumnarAggregate | None:
    """The columnar form of a bound accumulator; None where there is none."""
    form = FORMS.get(type(accumulator))
    if form is None:
        return None
    bound = form(accumulator, declared)
    return (
        bound
        if declared.where is None
        else _Conditional(bound, bind_condition(declared.kind, declared.where, types))
    )


class _Conditional:
    """An aggregate of the rows that meet a condition."""

    def __init__(self, whole: ColumnarAggregate, condition: Condition) -> None:
        self._whole = whole
        self._condition = condition
        self.columns = whole.columns

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        holds = self._condition.holds(rows)
        kept = np.flatnonzero(holds)
        return self._whole.partial(rows.take(pa.array(kept)), Groups(groups.codes[kept], groups.size))

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return self._whole.combine(accumulators, groups)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return self._whole.running(accumulators, starts)

    def results(self, accumulators: Columns) -> pa.Array:
        return self._whole.results(accumulators)

    def encode(self, accumulators: Columns) -> Columns:
        return self._whole.encode(accumulators)

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return self._whole.decode(parts)
