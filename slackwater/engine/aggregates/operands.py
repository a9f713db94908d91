"""The operands of a `select`: for each aggregate and row the value that is added, as a pair where a second
column is read, with its rank where the order of rows matters; None where nothing is added. A window with an
evictor keeps and parks them with its elements, of which any may be taken out again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.arrow_accumulators import ArrowAccumulators
from slackwater.engine.aggregates.binding import ConditionalAggregate
from slackwater.engine.aggregates.bound_aggregate import BoundAggregate, Columns
from slackwater.engine.aggregates.ranked_rows import AggregateOfRankedRows
from slackwater.engine.expressions import bind_condition, rows_that_meet
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, columns_read
from slackwater.engine.rows.python_values import to_arrow, to_python
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.snapshot import row_digests


def operands(pipeline: Pipeline, elements: pa.Table) -> list[Sequence[Any] | None]:
    """For each aggregate one value a row of `elements`; None: it only counts rows."""
    ranks: dict[str, list[Any]] = {}
    types = {field.name: field.type for field in elements.schema}
    columns: list[Sequence[Any] | None] = []
    for name, aggregate in pipeline.select.items():
        values = None if aggregate.column is None else to_python(elements.column(aggregate.column))
        if aggregate.other_column is not None and values is not None:
            values = _pairs(values, to_python(elements.column(aggregate.other_column)))
        if aggregate.where is not None:
            condition = bind_condition(f"select[{name!r}]", aggregate.where, types)
            is_chosen = rows_that_meet(condition, elements)
            values = _only(is_chosen, values)
        if aggregate.by is not None and values is not None:
            ranks = ranks or _ranks(pipeline, elements)
            values = _with_ranks(aggregate, values, ranks)
        columns.append(values)
    return columns


def accumulate_operands(
    pipeline: Pipeline,
    aggregates: Mapping[str, BoundAggregate],
    types: Mapping[str, pa.DataType],
    operands_of_rows: Sequence[Sequence[Any]],
) -> ArrowAccumulators:
    """The accumulators of elements, one row for each tuple of operands; `types` are the source's."""
    size = len(operands_of_rows)
    columns = []
    for number, (name, aggregate) in enumerate(aggregates.items()):
        declaration = pipeline.select[name]
        values = [operands_of_row[number] for operands_of_row in operands_of_rows]
        if declaration.column is None and declaration.where is None:
            values = [True] * size
        places = np.array([place for place, value in enumerate(values) if value is not None], np.int64)
        values = [value for value in values if value is not None]
        bound = aggregate.unconditional if isinstance(aggregate, ConditionalAggregate) else aggregate
        columns.append(_accumulate(declaration, bound, types, values, Groups(places, size)))
    return ArrowAccumulators.of(tuple(aggregates.values()), columns, size)


def _accumulate(
    aggregate: Aggregate,
    bound: BoundAggregate,
    types: Mapping[str, pa.DataType],
    values: Sequence[Any],
    groups: Groups,
) -> Columns:
    if aggregate.by is not None:
        return bound.combine(_ranked_values(bound, values), groups)
    if aggregate.other_column is not None:
        names = (aggregate.column or "", aggregate.other_column)
        columns = list(zip(*values, strict=True)) or [(), ()]
        arrays = [to_arrow(column, types[name]) for column, name in zip(columns, names, strict=True)]
        return bound.partial(pa.table(dict(zip(names, arrays, strict=True))), groups)
    column = aggregate.column or ""
    # Values that are counted may be of any type; it is enough that they are there.
    is_counted = aggregate.kind == "count"
    array = pa.array([True] * len(values)) if is_counted else to_arrow(values, types[column])
    return bound.partial(pa.table({column: array}), groups)


def _only(is_chosen: Any, values: list[Any] | None) -> list[Any]:
    if values is None:
        return [True if keep else None for keep in is_chosen.tolist()]
    return [value if keep else None for keep, value in zip(is_chosen.tolist(), values, strict=True)]


def _pairs(values: list[Any], others: list[Any]) -> list[Any]:
    pairs = zip(values, others, strict=True)
    return [None if None in pair else pair for pair in pairs]


def _ranks(pipeline: Pipeline, elements: pa.Table) -> dict[str, list[Any]]:
    """The columns that rank rows: times in microseconds, order column, row hash."""
    order = pipeline.roles.order_by
    names = columns_read(pipeline, elements.column_names)
    return {
        "event_time": (elements.column(EVENT).to_numpy() * np.int64(1000)).tolist(),
        "arrival": (elements.column(ARRIVAL).to_numpy() * np.int64(1000)).tolist(),
        "order": [order_rank(None)] * elements.num_rows
        if order is None
        else list(map(order_rank, to_python(elements.column(order)))),
        "hash": list(row_digests(elements.select(names), names)),
    }


def order_rank(value: Any) -> tuple[int, Any]:
    """Sort key of an order column's value: nulls first, NaN last."""
    if value is None:
        return (0, None)
    return (2, None) if isinstance(value, float) and math.isnan(value) else (1, value)


def _with_ranks(aggregate: Aggregate, values: list[Any], ranks: dict[str, list[Any]]) -> list[Any]:
    times = [ranks["event_time"], ranks["arrival"]] if aggregate.by == "event_time" else [ranks["arrival"]]
    rows = zip(values, zip(*times, strict=True), ranks["order"], ranks["hash"], strict=True)
    return [None if value is None else (time, order, digest, value) for value, time, order, digest in rows]


def _ranked_values(bound: BoundAggregate, values: Sequence[Any]) -> Columns:
    """The accumulators of single elements, of an aggregate of ranked rows, from what `_with_ranks` makes."""
    assert isinstance(bound, AggregateOfRankedRows)
    kinds = [kind for _, kind in bound.ranked_rows.columns]
    has_order = bound.ranked_rows.order is not None
    rows = [
        (value, *times, *([math.nan if order[0] == 2 else order[1]] if has_order else []), digest)
        for times, order, digest, value in values
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return bound.of_single_rows([to_arrow(column, kind) for column, kind in zip(columns, kinds, strict=True)])
