"""The operands of a `select`: for each aggregate and row the value that is added, with its rank for `first`
and `last`; None where nothing is. Nulls and conditions are decided here, for all rows of a range at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.first_or_last import order_rank
from slackwater.engine.expressions import bind_condition, rows_that_meet
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, columns_read
from slackwater.engine.rows.python_values import to_python
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.windowing.snapshot import row_digests


def operands(pipeline: Pipeline, elements: pa.Table) -> list[Sequence[Any] | None]:
    """For each aggregate one value a row of `elements`; None: it only counts rows."""
    ranks: dict[str, list[Any]] = {}
    types = {field.name: field.type for field in elements.schema}
    columns: list[Sequence[Any] | None] = []
    for name, aggregate in pipeline.select.items():
        values = None if aggregate.column is None else to_python(elements.column(aggregate.column))
        if aggregate.where is not None:
            condition = bind_condition(f"select[{name!r}]", aggregate.where, types)
            is_chosen = rows_that_meet(condition, elements)
            values = _only(is_chosen, values)
        if aggregate.by is not None and values is not None:
            ranks = ranks or _ranks(pipeline, elements)
            values = _with_ranks(aggregate, values, ranks)
        columns.append(values)
    return columns


def _only(is_chosen: Any, values: list[Any] | None) -> list[Any]:
    if values is None:
        return [True if keep else None for keep in is_chosen.tolist()]
    return [value if keep else None for keep, value in zip(is_chosen.tolist(), values, strict=True)]


def _ranks(pipeline: Pipeline, elements: pa.Table) -> dict[str, list[Any]]:
    """The columns by which `first` and `last` rank rows: times in microseconds, order column, row hash."""
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


def _with_ranks(aggregate: Aggregate, values: list[Any], ranks: dict[str, list[Any]]) -> list[Any]:
    times = [ranks["event_time"], ranks["arrival"]] if aggregate.by == "event_time" else [ranks["arrival"]]
    rows = zip(values, zip(*times, strict=True), ranks["order"], ranks["hash"], strict=True)
    return [None if value is None else (time, order, digest, value) for value, time, order, digest in rows]
