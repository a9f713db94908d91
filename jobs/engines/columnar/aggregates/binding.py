"""From a bound accumulator to its columnar form, with the aggregate's own condition around it.

Which type of column suits which aggregate has been decided before, by `slackwater.jobs.engines.accumulators`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.accumulators import Accumulator
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
from slackwater.jobs.engines.columnar.aggregates.counts import ColumnarCount
from slackwater.jobs.engines.columnar.aggregates.distinct import ColumnarCountDistinct
from slackwater.jobs.engines.columnar.aggregates.exact_doubles import ColumnarDouble
from slackwater.jobs.engines.columnar.aggregates.exact_integers import ColumnarDecimal, ColumnarInteger
from slackwater.jobs.engines.columnar.aggregates.extrema import ColumnarExtremum
from slackwater.jobs.engines.columnar.aggregates.protocol import ColumnarAggregate, Columns
from slackwater.jobs.engines.columnar.aggregates.ranked import ColumnarFirstOrLast
from slackwater.jobs.engines.columnar.aggregates.sketches import (
    ColumnarApproxDistinct,
    ColumnarApproxQuantile,
)
from slackwater.jobs.engines.columnar.aggregates.variances import ColumnarVariance
from slackwater.jobs.engines.conditions import Condition, bind_condition
from slackwater.jobs.pipelines import Aggregate
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups

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
