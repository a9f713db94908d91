"""Writes the windows that a pipeline declares as people say them: `tumbling, 1 hour`."""

from slackwater.pipelines import Pipeline
from slackwater.readable import exact_duration_text
from slackwater.windowing.assigners import (
    CalendarEventTimeWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

_PROCESSING_TIME = (
    TumblingProcessingTimeWindows,
    SlidingProcessingTimeWindows,
    ProcessingTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
)


def windows_text(pipeline: Pipeline) -> str:
    """`tumbling, 1 hour`, `sliding, 10 s every 2 s`, `sessions, gap 3 hours`. Processing time is named, a
    user's own assigner by its class, and a pipeline without windows by its function.
    """
    assigner = pipeline.window
    if assigner is None:
        return type(pipeline.process).__name__
    text = _assigner_text(assigner)
    return f"{text}, processing time" if isinstance(assigner, _PROCESSING_TIME) else text


def _assigner_text(assigner: WindowAssigner) -> str:
    match assigner:
        case SlidingEventTimeWindows() | SlidingProcessingTimeWindows():
            text = (
                f"sliding, {exact_duration_text(assigner.size_ms)} every "
                f"{exact_duration_text(assigner.slide_ms)}"
            )
            return text + _offset_text(assigner.offset_ms)
        case TumblingEventTimeWindows() | TumblingProcessingTimeWindows():
            return f"tumbling, {exact_duration_text(assigner.size_ms)}" + _offset_text(assigner.offset_ms)
        case EventTimeSessionWindows() | ProcessingTimeSessionWindows():
            return f"sessions, gap {exact_duration_text(assigner.gap_ms)}"
        case DynamicEventTimeSessionWindows() | DynamicProcessingTimeSessionWindows():
            return "sessions, gap by element"
        case CalendarEventTimeWindows():
            return f"calendar, {assigner.unit} of {assigner.zone}"
        case GlobalWindows():
            return "global"
        case _:
            return type(assigner).__name__


def _offset_text(offset_ms: int) -> str:
    return f", offset {exact_duration_text(offset_ms)}" if offset_ms else ""
