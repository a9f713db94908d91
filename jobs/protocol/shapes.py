"""The columns that a pipeline adds to its tables, from its declarations and the types of its source."""

import pyarrow as pa

from jobs.engines.accumulators import bind
from jobs.pipelines import Pipeline
from jobs.tables.schemas import Shape


def shape_of(pipeline: Pipeline, source: pa.Schema) -> Shape:
    """The shape of a pipeline's tables over a source of that schema.

    Raises:
        PipelineError: an aggregate doesn't suit the type of its column.
    """
    types = {field.name: field.type for field in source}
    bound = {name: bind(name, aggregate, types) for name, aggregate in pipeline.select.items()}
    return Shape(
        keys=tuple((name, types[name]) for name in pipeline.keys),
        results=tuple((name, accumulator.result_type) for name, accumulator in bound.items()),
        parts=tuple((f"{name}__{suffix}", kind) for name, accumulator in bound.items() for suffix, kind in accumulator.parts),
        source=tuple((field.name, field.type) for field in source),
    )
