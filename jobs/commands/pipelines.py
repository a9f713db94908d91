"""`slackwater pipelines`: lists the registered pipelines."""

import click

from slackwater.jobs.commands import options


@click.command("pipelines")
@options.pipelines
@options.output
def command(pipelines: str | None, output: str) -> None:
    """What is registered: source, window, lateness, engine."""
    from slackwater.jobs.engines.planner import choose
    from slackwater.jobs.pipelines import registry

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
    options.show(
        rows,
        ["name", "source", "key", "window", "lateness", "engine", "schedule"],
        output,
        empty="no pipeline is registered",
    )
