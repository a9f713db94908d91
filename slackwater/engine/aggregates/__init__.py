"""The aggregates that a pipeline may select. Each has an accumulator for one element at a time and a form on
whole columns; both make the same parts and results, to the bit. `table` lists them.
"""

from slackwater.engine.aggregates.accumulator import (
    Accumulator,
    ColumnarAggregate,
    Columns,
    OverflowAtRow,
    Part,
    ResultOverflow,
    combine_spans,
)
from slackwater.engine.aggregates.binding import bind, bind_columnar, bind_select
from slackwater.engine.aggregates.operands import operands
from slackwater.engine.aggregates.select_function import SelectFunction
from slackwater.engine.aggregates.table import AggregatedColumn, AggregateForms, register
from slackwater.engine.aggregates.unknown import (
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
    "SelectFunction",
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
    "unknown_in",
]
