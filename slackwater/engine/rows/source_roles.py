"""Checks that the columns of a source exist and have types that suit their roles."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from slackwater.errors import UsageError
from slackwater.pipelines.sources import Source


class SourceColumnError(UsageError):
    """The source lacks a column, or the column's type does not suit its role."""


def check_roles(source: Source, schema: pa.Schema, others: Sequence[str]) -> None:
    """Raise SourceColumnError where a column of a role or of `others` is missing or of an unsuitable type."""
    for name in (*source.columns, *others):
        if name not in schema.names:
            raise SourceColumnError(
                f"source {source.table!r} has no column {name!r}; it has {', '.join(schema.names)}. Mend the "
                "pipeline or the source.",
                column=name,
            )
    roles: tuple[tuple[str, str | None, tuple[Callable[[pa.DataType], bool], ...], str], ...] = (
        ("event_time", source.event_time, (pa.types.is_timestamp,), "a timestamp"),
        ("arrival_time", source.arrival_time, (pa.types.is_timestamp,), "a timestamp"),
        ("source_partition", source.source_partition, _PARTITIONING, "text, an integer, a boolean or a date"),
        (
            "order_by",
            source.order_by,
            (lambda kind: not pa.types.is_nested(kind),),
            "a plain column, whose values have an order",
        ),
    )
    for role, column, fitting, kinds in roles:
        if column is None:
            continue
        kind = schema.field(column).type
        if not any(fits(kind) for fits in fitting):
            explanation = (
                f"source {source.table!r}: {role} is column {column!r} of type {kind}; it must be {kinds}."
            )
            raise SourceColumnError(explanation, column=column)


_PARTITIONING = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
