"""The aggregates that a pipeline may select. Each is one file with two forms, an accumulator for one element
at a time and a columnar form for whole columns; both make the same parts and results, to the bit. `table`
lists them.
"""

from slackwater.jobs.engines.aggregates.accumulator import Accumulator, Part, ResultOverflow
from slackwater.jobs.engines.aggregates.binding import bind, bind_columnar, bind_select
from slackwater.jobs.engines.aggregates.columnar_aggregate import ColumnarAggregate, Columns, OverflowAtRow
from slackwater.jobs.engines.aggregates.operands import operands, totals
from slackwater.jobs.engines.aggregates.select_function import RowStretch, SelectFunction, StretchFunction
from slackwater.jobs.engines.aggregates.spans import combine_spans
from slackwater.jobs.engines.aggregates.table import AggregatedColumn, AggregateForms, register
from slackwater.jobs.engines.aggregates.unknown import (
    UNKNOWN,
    UnknowableAccumulator,
    UnknowableColumns,
    none_unknown,
    text_of_unknown,
    unknown_in,
)

__all__ = [
    "UNKNOWN",
    "Accumulator",
    "AggregateForms",
    "AggregatedColumn",
    "ColumnarAggregate",
    "Columns",
    "OverflowAtRow",
    "Part",
    "ResultOverflow",
    "RowStretch",
    "SelectFunction",
    "StretchFunction",
    "UnknowableAccumulator",
    "UnknowableColumns",
    "bind",
    "bind_columnar",
    "bind_select",
    "combine_spans",
    "none_unknown",
    "operands",
    "register",
    "text_of_unknown",
    "totals",
    "unknown_in",
]
