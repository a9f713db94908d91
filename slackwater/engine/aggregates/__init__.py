"""The aggregates that a pipeline may select, on whole columns. `table` lists them."""

from slackwater.engine.aggregates.arrow_accumulators import ArrowAccumulators, combine_elements
from slackwater.engine.aggregates.binding import bind, bind_select
from slackwater.engine.aggregates.bound_aggregate import (
    BoundAggregate,
    Columns,
    OverflowAtRow,
    ResultOverflow,
)
from slackwater.engine.aggregates.operands import accumulate_operands, operands
from slackwater.engine.aggregates.parked_columns import (
    names_of_parts,
    parked_parts,
    read_accumulators,
    texts_of_unknown,
)
from slackwater.engine.aggregates.table import AggregatedColumn, AggregateKind, register
from slackwater.engine.aggregates.unknown import UnknowableAggregate, none_unknown, unknown_in

__all__ = [
    "AggregateKind",
    "AggregatedColumn",
    "ArrowAccumulators",
    "BoundAggregate",
    "Columns",
    "OverflowAtRow",
    "ResultOverflow",
    "UnknowableAggregate",
    "accumulate_operands",
    "bind",
    "bind_select",
    "combine_elements",
    "names_of_parts",
    "none_unknown",
    "operands",
    "parked_parts",
    "read_accumulators",
    "register",
    "texts_of_unknown",
    "unknown_in",
]
