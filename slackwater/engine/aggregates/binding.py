"""Binds the aggregates of a `select` to the types of a source, each inside its own condition."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.accumulator import Accumulator, ColumnarAggregate, Columns
from slackwater.engine.aggregates.count import Count
from slackwater.engine.aggregates.table import AGGREGATES, COLUMN_FAMILIES, AggregatedColumn
from slackwater.engine.expressions import bind_condition, rows_that_meet
from slackwater.engine.rows.columns_read import columns_read
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, column_as_written
from slackwater.tables.schemas import TIME
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

Types = Mapping[str, pa.DataType]


def bind_select(pipeline: Pipeline, types: Types) -> dict[str, Accumulator]:
    """The accumulators of a pipeline's `select`, by result; raises as `bind`."""
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
) -> Accumulator:
    """The accumulator of `aggregate` on columns of `types`; `hashed_columns` are in a row's hash. Raises
    PipelineError where a column is missing, or of a type that does not suit.
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
    forms = AGGREGATES[aggregate.kind]
    family = next((family for family in forms.families if getattr(pa.types, f"is_{family}")(kind)), None)
    if family is None:
        *first, last = (COLUMN_FAMILIES[family] for family in forms.families)
        families = f"{', '.join(first)} and {last}" if first else last
        way = _way_to_number(aggregate.column, kind)
        raise PipelineError(subject, f"the column is {kind}; {aggregate.kind} takes {families}{way}")
    order = None if aggregate.by is None or order_by is None else (order_by, _type_in_tables(types[order_by]))
    return forms.accumulator(
        aggregate, AggregatedColumn(family, _type_in_tables(kind), order, hashed_columns)
    )


def _type_in_tables(kind: pa.DataType) -> pa.DataType:
    return TIME if pa.types.is_timestamp(kind) else kind


def bind_columnar(
    accumulator: Accumulator, aggregate: Aggregate, types: Mapping[str, pa.DataType]
) -> ColumnarAggregate | None:
    """The columnar form of an accumulator; None where the aggregate has none."""
    form = AGGREGATES[aggregate.kind].columnar
    if form is None:
        return None
    bound = form(accumulator, aggregate)
    if aggregate.where is None:
        return bound
    return _Conditional(bound, bind_condition(aggregate.kind, aggregate.where, types))


class _Conditional:
    """An aggregate of the rows that meet a condition."""

    def __init__(self, unconditional: ColumnarAggregate, condition: Expression) -> None:
        self._unconditional = unconditional
        self._condition = condition
        self.columns = unconditional.columns

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        positions = np.flatnonzero(rows_that_meet(self._condition, rows))
        return self._unconditional.partial(
            rows.take(pa.array(positions)), Groups(groups.codes[positions], groups.size)
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return self._unconditional.combine(accumulators, groups)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return self._unconditional.running(accumulators, starts)

    def results(self, accumulators: Columns) -> pa.Array:
        return self._unconditional.results(accumulators)

    def encode(self, accumulators: Columns) -> Columns:
        return self._unconditional.encode(accumulators)

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return self._unconditional.decode(parts)


def _way_to_number(column: str, kind: pa.DataType) -> str:
    if not pa.types.is_string(kind):
        return ""
    number = f"CAST({column_as_written(column)} AS DOUBLE)"
    return f". Name a column that is a number: derive={{{column + '_number'!r}: {number!r}}}"
