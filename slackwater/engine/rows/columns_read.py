"""Which columns of the source a pipeline reads, and whether they exist and have types that suit roles."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from slackwater.engine.rows.derived_columns import expressions_of_select
from slackwater.engine.source.time_suggestions import suggest_time
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.expressions import column_as_written
from slackwater.pipelines.sources import ITEM, ITEM_NUMBER, Source
from slackwater.pipelines.windows import sees_elements

# Columns that a replay adds to rows of the source.
ARRIVAL, EVENT, KEY_GROUP, SOURCE_FILE = "__arrival_ms", "__event_ms", "__key_group", "__source_file"
KEY_NUMBER, PLACE = "__key_number", "__place"
ADDED_COLUMNS = {ARRIVAL, EVENT, KEY_GROUP, SOURCE_FILE, KEY_NUMBER, PLACE}


def element_columns(pipeline: Pipeline, source: Sequence[str]) -> tuple[str, ...]:
    """The source columns of an element for the pipeline's code; none where no code looks at elements."""
    if not sees_elements(pipeline):
        return ()
    return _columns_of_functions(pipeline, source)


def watermark_columns(pipeline: Pipeline, source: Sequence[str]) -> tuple[str, ...]:
    """The source columns of an element for the function of a punctuated strategy."""
    if pipeline.watermarks.watermark_of is None:
        return ()
    return _columns_of_functions(pipeline, source)


def _columns_of_functions(pipeline: Pipeline, source: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source_columns(source) if pipeline.columns is None else pipeline.columns))


def source_columns(names: Sequence[str]) -> list[str]:
    """The columns of a table of elements without those that a replay adds."""
    return [name for name in names if name not in ADDED_COLUMNS]


def columns_read(pipeline: Pipeline, source: Sequence[str]) -> tuple[str, ...]:
    """The columns that the pipeline's meaning depends on, each once; `source` includes derived columns."""
    aggregates = (name for aggregate in pipeline.select.values() for name in aggregate.columns)
    roles = (
        *pipeline.keys,
        *pipeline.roles.columns,
        *columns_of_condition(pipeline),
        *pipeline.distinct_columns,
    )
    functions = (*element_columns(pipeline, source), *watermark_columns(pipeline, source))
    return tuple(dict.fromkeys((*roles, *aggregates, *functions, *columns_of_derivations(pipeline))))


def columns_of_condition(pipeline: Pipeline) -> tuple[str, ...]:
    return () if pipeline.condition is None else pipeline.condition.columns


def columns_of_derivations(pipeline: Pipeline) -> tuple[str, ...]:
    names = (name for _, expression in pipeline.derivations for name in expression.columns)
    return tuple(dict.fromkeys(name for name in names if name not in pipeline.derive))


def columns_of_points(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns of the source that hold keys and times, or that derived columns are computed from."""
    source = pipeline.roles
    names = (*pipeline.keys, source.event_time, source.arrival_time, *columns_of_derivations(pipeline))
    return tuple(dict.fromkeys(name for name in names if name not in pipeline.derive))


def columns_judged(pipeline: Pipeline, source: Sequence[str]) -> tuple[str, ...]:
    """The columns besides keys and times by which a row is judged: of expressions and the condition, and
    columns of the source that are computed, which may fail on a row.
    """
    columns_of_select = (
        name for expression in expressions_of_select(pipeline).values() for name in expression.columns
    )
    expressions = (*columns_of_condition(pipeline), *columns_of_derivations(pipeline), *columns_of_select)
    names_read = {*expressions, *columns_read(pipeline, source)}
    return (*expressions, *(name for name in _computed_columns(pipeline) if name in names_read))


def _computed_columns(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns that the sources compute, under the names that all sources share."""
    names = (
        source.rename.get(name, name)
        for source in pipeline.sources
        for name in (*source.derive, *((ITEM, ITEM_NUMBER) if source.explode else ()))
    )
    return tuple(dict.fromkeys(names))


def check_key_types(pipeline: Pipeline, schema: pa.Schema) -> None:
    """Raise SourceColumnError for key or `distinct_by` columns that Flink can't hash alike everywhere."""
    hashable_types = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date32)
    for argument, subject, columns in (
        ("key_by", "key column {!r} is {}; keys", pipeline.keys),
        (
            "distinct_by",
            "distinct_by names the column {!r}, which is {}; its columns",
            pipeline.distinct_columns,
        ),
    ):
        for name in columns:
            kind = schema.field(name).type
            if any(is_kind(kind) for is_kind in hashable_types):
                continue
            derived_name = f"{name}_text"
            names = [derived_name if column == name else column for column in columns]
            raise SourceColumnError(
                f"{subject.format(name, kind)} are integers, strings, booleans and dates. Derive one of it: "
                f"derive={{{derived_name!r}: {_text_of(name, kind)!r}}}, {argument}={names!r}",
                column=name,
            )


def _text_of(column: str, kind: pa.DataType) -> str:
    """SQL for the text of a column, or of the first plain field within it."""
    path = column_as_written(column)
    while pa.types.is_struct(kind) and kind.num_fields:
        path, kind = f"{path}.{column_as_written(kind.field(0).name)}", kind.field(0).type
    return f"CAST({path} AS VARCHAR)"


class SourceColumnError(UsageError):
    """The source lacks a column, or the column's type does not suit its role."""


def check_roles(
    source: Source,
    schema: pa.Schema,
    others: Sequence[str],
    sample_of: Callable[[str], pa.ChunkedArray | None] = lambda _: None,
) -> None:
    """Raise SourceColumnError where a column of a role or of `others` is missing or of an unsuitable type;
    the message has the declaration that makes a suitable one of it. `sample_of` gives some of its values.
    """
    declared_roles = {
        "event_time": source.event_time,
        "arrival_time": source.arrival_time,
        "source_partition": source.source_partition,
        "order_by": source.order_by,
    }
    roles_by_column = {column: role for role, column in reversed(declared_roles.items()) if column}
    for name in (*source.columns, *others):
        if name not in schema.names:
            raise SourceColumnError(
                f"source {source.table!r} has no column {name!r}; it has {', '.join(schema.names)}. "
                f"{_way_to_column(name, roles_by_column.get(name), schema)}",
                column=name,
            )
    roles: tuple[tuple[str, str | None, tuple[Callable[[pa.DataType], bool], ...], str], ...] = (
        ("event_time", source.event_time, (pa.types.is_timestamp,), _TIME),
        ("arrival_time", source.arrival_time, (pa.types.is_timestamp,), _TIME),
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
            is_time = kinds == _TIME
            way = (
                _way_to_time(role, column, sample_of(column), schema)
                if is_time
                else _way_to_text(role, column, kind)
            )
            raise SourceColumnError(
                f"source {source.table!r}: {role} is column {column!r} of type {kind}; it must be {kinds}. "
                f"{way}",
                column=column,
            )


_TIME = "a timestamp"


def _way_to_column(name: str, role: str | None, schema: pa.Schema) -> str:
    """What to write for a missing column: its name in the right case, or how a field is derived."""
    twin = next((other for other in schema.names if other.lower() == name.lower()), None)
    if twin is not None:
        return f"Write {twin!r}."
    struct, dot, _ = name.partition(".")
    if not dot or struct not in schema.names or not pa.types.is_nested(schema.field(struct).type):
        return "Mend the pipeline or the source."
    derived_name = name.replace(".", "_")
    naming = f"and name {derived_name!r}." if role is None else f"{role}={derived_name!r}"
    return f"A field is derived: derive={{{derived_name!r}: {name!r}}}, {naming}"


def _way_to_time(role: str, column: str, sample: pa.ChunkedArray | None, schema: pa.Schema) -> str:
    """The declaration that makes times of the values in a sample, with the reason for it."""
    suggestion = None if sample is None else suggest_time(column, sample)
    candidates = ("at", "event_at") if role == "event_time" else ("arrived_at", "arrival_at")
    taken_names = {other.lower() for other in schema.names}
    name = next((candidate for candidate in candidates if candidate not in taken_names), f"{role}_derived")
    if suggestion is None:
        text = _text_of(column, schema.field(column).type)
        expression = f"strptime({text}, '%Y-%m-%d %H:%M:%S')"
        reason = "Derive one of it, such as"
    else:
        expression, reason = suggestion.expression, f"By its values ({suggestion.reason})"
    return f"{reason}: derive={{{name!r}: {expression!r}}}, {role}={name!r}"


def _way_to_text(role: str, column: str, kind: pa.DataType) -> str:
    name, text = f"{role}_text", _text_of(column, kind)
    return f"Derive one of it: derive={{{name!r}: {text!r}}}, {role}={name!r}"


_PARTITIONING = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
