"""Checks a source against a pipeline's declarations, and derives the columns of the pipeline's tables from
both.

Reads the schema of the source and none of its rows.
"""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from slackwater.engine.aggregates import bind_select, names_of_parts
from slackwater.engine.expressions import bind_condition
from slackwater.engine.operator.elements import element_class
from slackwater.engine.operator.emitted_rows import output_of, side_outputs_of
from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.engine.replaying.snapshot_codecs import state_columns
from slackwater.engine.rows.columns_read import (
    ADDED_COLUMNS,
    SourceColumnError,
    check_key_types,
    check_roles,
    columns_read,
)
from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.engine.rows.keys import Keys
from slackwater.engine.rows.union_columns import PinnedSources, check_common
from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.files import files_with_bounds
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.pipelines import Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.sources import Source
from slackwater.pipelines.window_columns import own_window_class_of
from slackwater.runs.staging.pins import pin_newest
from slackwater.runs.staging.validation import check_types
from slackwater.tables.schemas import TIME, Shape
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.snapshot import WindowColumns

_SAMPLE_ROWS = 1000


def check_parkable(pipeline: Pipeline) -> None:
    """Refuse a pipeline without ticks, which can't be replayed slice by slice. Raises PipelineError."""
    subject = f"Pipeline {pipeline.name!r}"
    if pipeline.watermarks.interval_ms == 0:
        raise PipelineError(
            subject,
            "a replay needs ticks, at which source partitions become idle: .with_interval(...) above zero",
        )


def checked_sources(warehouse: Warehouse, pipeline: Pipeline) -> tuple[PinnedSources, Shape]:
    """The sources of `pipeline` at their newest versions, checked against the declarations, and the shape of
    its tables. Raises UsageError: a source is missing, empty, or lacks a column.
    """
    check_parkable(pipeline)
    return check_sources(pipeline, pin_newest(pipeline, warehouse))


def check_sources(pipeline: Pipeline, pinned_sources: Sequence[PinnedSource]) -> tuple[PinnedSources, Shape]:
    """`checked_sources` for pinned sources, in the order of their declarations. Raises UsageError: a source
    lacks a column, or has one whose type does not suit.
    """
    for declaration, source in zip(pipeline.sources, pinned_sources, strict=True):
        _refuse_conflicts(pipeline, declaration, source)
        check_roles(declaration, source.schema, (), partial(_sample, source))
        if taken_names := sorted(ADDED_COLUMNS.intersection(source.schema.names)):
            raise SourceColumnError(
                f"source {declaration.table!r} has a column {taken_names[0]!r}, a name that a replay gives "
                "to a column of its own. Rename it there, or read a table without it.",
                column=taken_names[0],
            )
    sources = PinnedSources.of(pipeline, pinned_sources)
    schema = sources.schema
    derived_names = {name for name, _ in pipeline.derivations}
    source_columns = [name for name in columns_read(pipeline, schema.names) if name not in derived_names]
    check_common(pipeline, source_columns, sources)
    columns = with_derived_columns(pipeline, schema)
    names_read = columns_read(pipeline, columns.names)
    if len(pinned_sources) == 1:
        check_roles(pipeline.sources[0], columns, names_read)
    for name in names_read:
        if name not in columns.names:
            raise SourceColumnError(
                f"no source of {pipeline.name} has a column {name!r}; together they have "
                f"{', '.join(columns.names)}. Mend the pipeline or the sources.",
                column=name,
            )
    check_key_types(pipeline, columns)
    return sources, shape_of(pipeline, schema)


def _sample(source: PinnedSource, column: str) -> pa.ChunkedArray | None:
    """Some values of a column, from the beginning of one file; None where there are none to be read."""
    if source.why_not_direct is not None:
        return None
    for file, _ in files_with_bounds(source.actions, ""):
        if file.rows != 0:
            rows = read_columns(source.uri, file, source.schema, [column], first_rows=_SAMPLE_ROWS)
            return rows.column(column)
    return None


def _refuse_conflicts(pipeline: Pipeline, declaration: Source, source: PinnedSource) -> None:
    """Refuse a source with a column that the pipeline reads and whose values no type holds."""
    names = [declaration.rename.get(name, name) for name, _ in source.conflicts]
    read_names = {*declaration.columns, *columns_read(pipeline, [*source.schema.names, *names])}
    for (own_name, reason), name in zip(source.conflicts, names, strict=True):
        if own_name in read_names or name in read_names:
            raise SourceColumnError(
                f"source {declaration.table!r}: the pipeline reads the column {own_name!r}, and {reason}. "
                "Write those files anew with one type; what a pipeline does not read may differ (columns=[…] "
                "says what its functions read).",
                column=own_name,
            )


def shape_of(pipeline: Pipeline, source: pa.Schema) -> Shape:
    """The shape of a pipeline's tables over a source of the schema `source`. Raises PipelineError: an
    expression or aggregate doesn't suit its column's type, or a column can't be a field of an element.
    """
    columns = with_derived_columns(pipeline, source)
    types = {field.name: field.type for field in columns}
    if pipeline.where is not None:
        bind_condition(f"Pipeline {pipeline.name!r}", pipeline.where, types)
    aggregates = bind_select(pipeline, types)
    element_class(pipeline, columns)
    own_window_class = own_window_class_of(pipeline)
    windows = None if own_window_class is None else WindowColumns(own_window_class).own_columns
    keys = tuple((name, types[name]) for name in pipeline.keys)
    results = (
        *((name, aggregate.result_type) for name, aggregate in aggregates.items()),
        *output_of(pipeline).results,
    )
    bounds = (("window_start", TIME), ("window_end", TIME))
    panes = pa.schema([*keys, *bounds, *(windows or ()), *results])
    published_panes = PublishedForm.of(pipeline).schema(pipeline, panes)
    shape = Shape(
        keys=keys,
        results=results,
        # Under an evictor a window parks its elements instead of partial aggregates.
        parts=names_of_parts(aggregates) if pipeline.evictor is None else (),
        source=tuple((field.name, _plain(field.type)) for field in source),
        states=state_columns(pipeline, Keys.of(pipeline, columns)),
        sides=tuple((tag, side.results) for tag, side in side_outputs_of(pipeline).items()),
        windows=windows,
        published=tuple((name, published_panes.field(name).type) for name in pipeline.published_results),
    )
    check_types(pipeline.pane_expectations, {field.name: field.type for field in published_panes})
    return shape


def _plain(kind: pa.DataType) -> pa.DataType:
    """`kind`, but UTC time instead of time without a zone, which not every reader of Delta knows."""
    return TIME if pa.types.is_timestamp(kind) else kind
