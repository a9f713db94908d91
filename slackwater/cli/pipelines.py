"""`slackwater pipelines`: lists the registered pipelines."""

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.pipelines import Pipeline
from slackwater.readable import exact_duration_text
from slackwater.windowing.assigners import (
    CalendarEventTimeWindows,
    CumulateEventTimeWindows,
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

_FAULTY = 2


@click.command("pipelines")
@options.pipelines
@printing.output
def command(pipelines: str | None, output: Output) -> int:
    """What is registered: source, window, lateness, engine. Exit code 2 where one of several files can't be
    loaded.

    \b
    Example: slackwater pipelines --pipelines my_pipelines.py
    """
    from slackwater.engine.planner import choose
    from slackwater.pipelines import registry

    pipelines_by_name = registry.load(pipelines)
    rows = [
        {
            "name": name,
            "source": ", ".join(source.table for source in pipeline.sources),
            "key": ", ".join(pipeline.keys) or "all rows",
            "window": repr(pipeline.window)
            if pipeline.window is not None
            else type(pipeline.process).__name__,
            "lateness": str(pipeline.allowed_lateness),
            "engine": choose(pipeline).engine,
            "schedule": pipeline.schedule,
            "start": pipeline.start,
            "results": list(pipeline.published_results),
        }
        for name, pipeline in pipelines_by_name.items()
    ]
    columns = [
        Column("name", "key"),
        Column("window", "text"),
        Column("lateness", "exact_duration"),
        Column("key", "text"),
        Column("engine"),
        Column("schedule"),
        Column("source", "text"),
        Column("start", is_wide=True),
        Column("results", "text", is_wide=True),
    ]
    table_rows = [
        {**row, "window": windows_text(pipeline), "lateness": pipeline.allowed_lateness}
        for row, pipeline in zip(rows, pipelines_by_name.values(), strict=True)
    ]
    printing.show(rows if output.is_json else table_rows, columns, output, empty="no pipeline is registered")
    for fault in pipelines_by_name.faults.values():
        options.warn(f"not loaded: {fault}")
    return _FAULTY if pipelines_by_name.faults else 0


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
        case CumulateEventTimeWindows():
            text = (
                f"cumulative, up to {exact_duration_text(assigner.size_ms)} by "
                f"{exact_duration_text(assigner.step_ms)}"
            )
            return text + _offset_text(assigner.offset_ms)
        case TumblingEventTimeWindows() | TumblingProcessingTimeWindows():
            return f"tumbling, {exact_duration_text(assigner.size_ms)}" + _offset_text(assigner.offset_ms)
        case EventTimeSessionWindows() | ProcessingTimeSessionWindows():
            return f"sessions, gap {exact_duration_text(assigner.gap_ms)}"
        case DynamicEventTimeSessionWindows() | DynamicProcessingTimeSessionWindows():
            return "sessions, gap by element"
        case CalendarEventTimeWindows():
            count = "" if assigner.count == 1 else f"{assigner.count} "
            since = "" if assigner.since is None else f", since {assigner.since}"
            return f"calendar, {count}{assigner.unit} of {assigner.zone}{since}"
        case GlobalWindows():
            return "global"
        case _:
            return type(assigner).__name__


def _offset_text(offset_ms: int) -> str:
    return f", offset {exact_duration_text(offset_ms)}" if offset_ms else ""
