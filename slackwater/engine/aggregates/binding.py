"""Binds the aggregates of a `select` to the types of a source, each inside its own condition."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import BoundAggregate, Columns
from slackwater.engine.aggregates.count import Count
from slackwater.engine.aggregates.table import (
    AGGREGATES,
    COLUMN_FAMILIES,
    NUMERIC_FAMILIES,
    AggregatedColumn,
    OtherColumn,
)
from slackwater.engine.expressions import bind_condition, rows_that_meet
from slackwater.engine.rows.columns_read import columns_read
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, column_as_written
from slackwater.tables.schemas import TIME
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

Types = Mapping[str, pa.DataType]


def bind_select(pipeline: Pipeline, types: Types) -> dict[str, BoundAggregate]:
    """The aggregates of a pipeline's `select`, by result; raises as `bind`."""
    order_by, hashed_columns = pipeline.roles.order_by, columns_read(pipeline, tuple(types))
    return {
        name: bind(name, aggregate, types, order_by, hashed_columns)
        for name, aggregate in pipeline.select.items()
    }


def bind(
    name: str,
    aggregate: Aggregate,
    types: Types,
    order_by: str | None = None,
    hashed_columns: tuple[str, ...] = (),
) -> BoundAggregate:
    """`aggregate` on columns of `types`; `hashed_columns` are in a row's hash. Raises PipelineError where a
    column is missing, or of a type that does not suit.
    """
    subject = f"select[{name!r}] = {aggregate.kind}({aggregate.column!r})"
    condition = None if aggregate.where is None else bind_condition(subject, aggregate.where, types)
    bound = _bind_unconditional(subject, aggregate, types, order_by, hashed_columns)
    return bound if condition is None else ConditionalAggregate(bound, condition)


def _bind_unconditional(
    subject: str, aggregate: Aggregate, types: Types, order_by: str | None, hashed_columns: tuple[str, ...]
) -> BoundAggregate:
    if aggregate.column is None:
        return Count(None)
    entry = AGGREGATES[aggregate.kind]
    family = _family_of(subject, aggregate, aggregate.column, entry.families, types)
    other = None
    if aggregate.other_column is not None:
        _family_of(subject, aggregate, aggregate.other_column, entry.other_families, types)
        other = OtherColumn(aggregate.other_column, _type_in_tables(types[aggregate.other_column]))
    order = None if aggregate.by is None or order_by is None else (order_by, _type_in_tables(types[order_by]))
    column = AggregatedColumn(
        name=aggregate.column,
        family=family,
        type=_type_in_tables(types[aggregate.column]),
        order=order,
        hashed_columns=hashed_columns,
        other=other,
    )
    return entry.bind(aggregate, column)


def _family_of(
    subject: str, aggregate: Aggregate, column: str, families: tuple[str, ...], types: Types
) -> str:
    """Which of `families` the column's type is of, "" where any type will do."""
    if column not in types:
        raise PipelineError(
            subject, f"the source has no column {column!r}; it has {', '.join(sorted(types))}"
        )
    column_type = types[column]
    family = next((name for name in families if getattr(pa.types, f"is_{name}")(column_type)), "")
    if families and not family:
        *first, last = (COLUMN_FAMILIES[family] for family in families)
        words = f"{', '.join(first)} and {last}" if first else last
        name = "the column" if column == aggregate.column else f"the column {column!r}"
        way = _way_to_number(column, column_type) if families == NUMERIC_FAMILIES else ""
        raise PipelineError(subject, f"{name} is {column_type}; {aggregate.kind} takes {words}{way}")
    return family


def _type_in_tables(kind: pa.DataType) -> pa.DataType:
    return TIME if pa.types.is_timestamp(kind) else kind


class ConditionalAggregate:
    """An aggregate of the rows that meet a condition."""

    def __init__(self, unconditional: BoundAggregate, condition: Expression) -> None:
        self.unconditional = unconditional
        self._condition = condition
        self.columns = unconditional.columns
        self.parts = unconditional.parts
        self.result_type = unconditional.result_type

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        positions = np.flatnonzero(rows_that_meet(self._condition, rows))
        return self.unconditional.partial(
            rows.take(pa.array(positions)), Groups(groups.codes[positions], groups.size)
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return self.unconditional.combine(accumulators, groups)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return self.unconditional.running(accumulators, starts)

    def results(self, accumulators: Columns) -> pa.Array:
        return self.unconditional.results(accumulators)

    def encode(self, accumulators: Columns) -> Columns:
        return self.unconditional.encode(accumulators)

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return self.unconditional.decode(parts)


def _way_to_number(column: str, kind: pa.DataType) -> str:
    if not pa.types.is_string(kind):
        return ""
    number = f"CAST({column_as_written(column)} AS DOUBLE)"
    return f". Name a column that is a number: derive={{{column + '_number'!r}: {number!r}}}"
