"""`slackwater state`: what stands still between two runs. Starts no JVM."""

from typing import Any

import click

from jobs.commands import options


@click.group("state")
def command() -> None:
    """Windows, timers and watermarks as of a run (default: main's head)."""


def _common(function: Any) -> Any:
    for option in (
        options.output,
        options.pipelines,
        options.warehouse,
        click.option("--run", "seq", type=int, metavar="SEQ", help="as of this run"),
        click.argument("pipeline"),
    ):
        function = option(function)
    return function


def _key(function: Any) -> Any:
    return click.option("--key", "key", metavar="K", help="only this key; several columns: values separated by commas")(function)


@command.command("windows")
@_common
@_key
def windows(pipeline: str, seq: int | None, key: str | None, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Open windows: how much they hold, how often they fired, when they fire next and when they are cleaned up."""
    columns = ["window_start", "window_end", "elements", "firings", "next_firing", "cleanup_time", "last_arrival"]
    _snapshot("window_state", pipeline, seq, key, warehouse, output, columns, "no window is open")


@command.command("timers")
@_common
@_key
def timers(pipeline: str, seq: int | None, key: str | None, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Pending timers, the next ones first."""
    columns = ["time", "domain", "purpose", "window_start", "window_end", "service"]
    _snapshot("timers", pipeline, seq, key, warehouse, output, columns, "no timer is pending")


@command.command("watermarks")
@_common
def watermarks(pipeline: str, seq: int | None, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """The pipeline's watermark and clock, and how far each source partition has come. The first row is the pipeline's."""
    from jobs.tables.inspection import Inspection

    rows = Inspection.of(pipeline, warehouse).snapshot("source_progress", seq).to_pylist()
    rows.sort(key=lambda row: (row["source_partition"] is not None, row["source_partition"] or ""))
    columns = ["source_partition", "max_event_time", "last_arrival", "idle", "watermark", "clock", "unfinished_tick_start"]
    options.show(rows, columns, output, empty=f"{pipeline}: there is no progress yet")


def _snapshot(
    table: str, pipeline: str, seq: int | None, key: str | None, warehouse: str | None, output: str, columns: list[str], empty: str
) -> None:
    from jobs.tables.inspection import Inspection

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    keys = inspection.key_columns()
    rows = inspection.snapshot(table, seq).to_pylist()
    if key is not None:
        wanted = key.split(",")
        rows = [row for row in rows if [str(row[name]) for name in keys] == wanted]
    first = "time" if table == "timers" else "window_start"
    rows.sort(key=lambda row: (row[first] is not None, row[first], [str(row[name]) for name in keys]))
    options.show(rows, [*keys, *columns], output, empty=f"{pipeline}: {empty}")
