"""From a declared aggregate and the types of the source to its accumulator."""

from collections.abc import Mapping

import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import Accumulator
from slackwater.jobs.engines.accumulators.distinct import CountDistinct
from slackwater.jobs.engines.accumulators.extremes import Extremum
from slackwater.jobs.engines.accumulators.histograms import ApproxQuantile
from slackwater.jobs.engines.accumulators.hyperloglog import ApproxDistinct
from slackwater.jobs.engines.accumulators.ranked import FirstOrLast
from slackwater.jobs.engines.accumulators.sums import (
    Count,
    DecimalMean,
    DecimalSum,
    DoubleMean,
    DoubleSum,
    IntegerMean,
    IntegerSum,
)
from slackwater.jobs.engines.accumulators.variances import DecimalVariance, DoubleVariance, IntegerVariance
from slackwater.jobs.engines.conditions import bind_condition
from slackwater.jobs.engines.rows import columns_read
from slackwater.jobs.pipelines import Aggregate, Pipeline
from slackwater.jobs.pipelines.errors import PipelineError
from slackwater.jobs.tables.schemas import TIME

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
