"""`slackwater pipelines`: lists the registered pipelines."""

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

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
    from slackwater.inspection.late_rows.declared_windows import windows_text
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
            "results": list(pipeline.results),
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
