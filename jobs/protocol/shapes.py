"""The columns that a pipeline adds to its tables, from its declarations and the types of its source."""

import pyarrow as pa

from jobs.engines.accumulators import bind_select
from jobs.engines.conditions import bind_condition
from jobs.pipelines import Pipeline
from jobs.pipelines.errors import PipelineError
from jobs.protocol.validation import check_types
from jobs.tables.schemas import TIME, Shape
from windowing import EventTimeSessionWindows, EventTimeTrigger, PurgingTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows

_WINDOWS = (TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows)
_TRIGGERS = (EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger()))


def check_parkable(pipeline: Pipeline) -> None:
    """Refuse windows whose state the snapshot tables can't hold yet.

    Raises:
        PipelineError: the assigner or the trigger keeps more than accumulators and timers of its windows.
    """
    subject = f"Pipeline {pipeline.name!r}"
    if type(pipeline.window) not in _WINDOWS:  # a subclass is the code of a user, and would have to travel to executors
        names = ", ".join(kind.__name__ for kind in _WINDOWS)
        raise PipelineError(subject, f"window {type(pipeline.window).__name__} can't be parked between runs yet; use one of {names}")
    if pipeline.effective_trigger not in _TRIGGERS:
        raise PipelineError(
            subject,
            f"trigger {pipeline.effective_trigger!r} can't be parked between runs yet; use the default, or PurgingTrigger around it",
        )
    if not pipeline.select or pipeline.evictor is not None:
        raise PipelineError(subject, "functions and evictors can't be parked between runs yet; use select")
    if pipeline.watermarks.kind == "punctuated" or pipeline.watermarks.interval_ms == 0:
        raise PipelineError(subject, "watermarks must be periodic for a replay: choose another strategy, or .with_interval(...) above zero")


def shape_of(pipeline: Pipeline, source: pa.Schema) -> Shape:
    """The shape of a pipeline's tables over a source of that schema.

    Raises:
        PipelineError: an aggregate, the condition or an expectation doesn't suit the type of its column.
    """
    types = {field.name: field.type for field in source}
    if pipeline.where is not None:
        bind_condition(f"Pipeline {pipeline.name!r}", pipeline.where, types)
    bound = bind_select(pipeline, types)
    shape = Shape(
        keys=tuple((name, types[name]) for name in pipeline.keys),
        results=tuple((name, accumulator.result_type) for name, accumulator in bound.items()),
        parts=tuple((f"{name}__{suffix}", kind) for name, accumulator in bound.items() for suffix, kind in accumulator.parts),
        source=tuple((field.name, _plain(field.type)) for field in source),
    )
    check_types(pipeline.expect, dict((*shape.keys, *shape.results)))
    return shape


def _plain(kind: pa.DataType) -> pa.DataType:
    """A time without a zone is one of UTC, in tables that every reader of Delta can read."""
    return TIME if pa.types.is_timestamp(kind) else kind
