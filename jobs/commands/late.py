"""`slackwater late`: rows that no window would take any more. Starts no JVM."""

import click

from jobs.commands import options


@click.group("late")
def command() -> None:
    """Rows that came too late."""


@command.command("list")
@click.argument("pipeline")
@options.warehouse
@options.pipelines
@options.output
def list_late(pipeline: str, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Every late row of the live runs: its key, its times, how late it was and the windows that it missed."""
    from jobs.tables.inspection import Inspection

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    rows = inspection.live("late_events").sort_by([("seq", "ascending"), ("arrival_time", "ascending")]).to_pylist()
    shown = [{**row, "late_by_minutes": row["late_by_ms"] / 60_000, "missed": _windows(row["windows"])} for row in rows]
    columns = ["seq", *inspection.key_columns(), "event_time", "arrival_time", "late_by_minutes", "watermark", "missed"]
    options.show(rows if output == "json" else shown, columns, output, empty=f"{pipeline}: no row was too late")


def _windows(windows: list[dict[str, object]]) -> str:
    return " ".join(f"[{window['start']:%Y-%m-%dT%H:%M}, {window['end']:%H:%M})" for window in windows)
