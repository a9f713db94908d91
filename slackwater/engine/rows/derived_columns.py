"""Derived columns: what `derive` adds to the rows of the source before anything else looks at them.

Both engines, and the pass that reads times only, take the columns from here, so that they see the same.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import pyarrow as pa

from slackwater.engine.expressions import type_of, values_of
from slackwater.engine.source.computed_columns import (
    ExpressionFailure,
    append_derivations,
    is_taken,
    refuse_taken_name,
)
from slackwater.pipelines import Pipeline
from slackwater.pipelines.expressions import Expression, parse_condition


def with_derived_columns(pipeline: Pipeline, source: pa.Schema) -> pa.Schema:
    """The columns of `source` and the derived ones.

    Raises:
        PipelineError: an expression does not suit the source, or a column of its name is there already.
    """
    if not pipeline.derivations:
        return source
    return _bound(pipeline.name, pipeline.derivations, tuple(pipeline.keys), source)


@lru_cache(maxsize=256)
def _bound(
    name: str, derivations: tuple[tuple[str, Expression], ...], keys: tuple[str, ...], source: pa.Schema
) -> pa.Schema:
    subject, schema = f"Pipeline {name!r}", source
    for column, expression in derivations:
        declaration = f"derive[{column!r}]"
        if is_taken(column, schema):
            refuse_taken_name(subject, column, expression, schema, is_key=column in keys)
        schema = schema.append(pa.field(column, type_of(subject, declaration, expression, schema)))
    return schema


def derived_fields(pipeline: Pipeline, source: pa.Schema) -> list[pa.Field]:
    return list(with_derived_columns(pipeline, source))[len(source) :]


def add_derived_columns(
    pipeline: Pipeline, rows: pa.Table, source_failures: Iterable[ExpressionFailure] = ()
) -> tuple[pa.Table, list[ExpressionFailure]]:
    """(rows with derived columns, failures). A column that reads a failing one fails there, too, be it one of
    the source.
    """
    return append_derivations(pipeline.derivations, rows, source_failures, {})


def failures_of_conditions(pipeline: Pipeline, rows: pa.Table) -> list[ExpressionFailure]:
    failures = []
    for declaration, expression in expressions_of_select(pipeline).items():
        is_failed = values_of(expression, rows).is_failed
        if is_failed is not None:
            failures.append(ExpressionFailure(declaration, None, is_failed))
    return failures


def expressions_of_select(pipeline: Pipeline) -> Mapping[str, Expression]:
    """The conditions of aggregates, by their declarations."""
    return {
        f"select[{name!r}].where": parse_condition(name, aggregate.where)
        for name, aggregate in pipeline.select.items()
        if aggregate.where is not None
    }
