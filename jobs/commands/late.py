"""`slackwater late`: rows that no window would take any more, what would have saved them, and how to take
them in after all.

`list` and `report` start no JVM; `redrive` does only where a slice is large.
"""

from typing import Any

import click

from slackwater.jobs.commands import options


@click.group("late")
def command() -> None:
    """Rows that came too late."""


def _chosen(function: Any) -> Any:
    for option in (
        options.pipelines,
        options.warehouse,
        click.option("--run", "seq", type=options.SEQ, metavar="SEQ", help="only rows of this run"),
        options.key,
        click.argument("pipeline"),
    ):
        function = option(function)
    return function


@command.command("list")
@_chosen
@options.output
def list_late(
    pipeline: str, key: str | None, seq: int | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """Every late row of the live runs: its key, its times, how late it was and the windows that it missed."""
    from slackwater.jobs.tables.inspection.inspection import Inspection

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    late = inspection.late(key, seq)
    rows = [
        {**_beside_seq(row), "seq": seq}
        for row, seq in zip(late.rows.to_pylist(), late.seqs.to_pylist(), strict=True)
    ]
    table_rows = [
        {**row, "late_by_minutes": row["late_by_ms"] / 60_000, "missed": _windows(row["windows"])}
        for row in rows
    ]
    columns = [
        "seq",
        *inspection.key_columns(),
        "event_time",
        "arrival_time",
        "late_by_minutes",
        "watermark",
        "missed",
    ]
    options.show(
        rows if output == "json" else table_rows, columns, output, empty=f"{pipeline}: no row was too late"
    )


@command.command("report")
@_chosen
@options.output
def report(
    pipeline: str, key: str | None, seq: int | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """How many of the late rows another allowed lateness would have saved, from the windows that they missed
    and the watermarks then.

    Their windows are collected: declaring that lateness takes them in only when the range beside it is
    restated.
    """
    from slackwater.jobs.protocol.staging.collected_mark import LiveMarks
    from slackwater.jobs.tables.inspection.inspection import Inspection
    from slackwater.jobs.tables.inspection.lateness import report as saved_by
    from slackwater.windowing.times import MILLISECOND, to_datetime, to_ms

    inspection = Inspection.of(pipeline, warehouse)
    late, ledger = inspection.late(key, seq).rows, inspection.tables.ledger
    live = LiveMarks.of(inspection.tables, ledger.live_runs(inspection.run(None)))
    found = saved_by(late, lambda last: to_datetime(live.reopened_from(to_ms(last))))
    rows = [
        {
            "allowed_lateness": str(saved.lateness),
            "allowed_lateness_ms": saved.lateness // MILLISECOND,
            "rows_saved": saved.rows,
            "share": round(saved.share, 4),
            "restate_from": saved.restate_from,
            "restate_to": saved.restate_to,
        }
        for saved in found
    ]
    columns = ["allowed_lateness", "rows_saved", "share", "restate_from", "restate_to"]
    options.show(rows, columns, output, empty=f"{pipeline}: no row was too late")
    if rows:
        click.echo(
            f"{pipeline}: a lateness that is declared now saves rows to come; the windows of these are "
            "collected. To take "
            f"them in, declare it and run `slackwater backfill {pipeline} --from RESTATE_FROM --to "
            "RESTATE_TO`.",
            err=True,
        )


@command.command("redrive")
@_chosen
@click.option("--reason", required=True, metavar="TEXT", help="why; it is recorded with each row")
@click.option("--dry-run", is_flag=True, help="say what would be written, and write nothing")
@options.output
@options.log_format
def redrive(
    pipeline: str,
    key: str | None,
    seq: int | None,
    reason: str,
    dry_run: bool,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
    log_format: str,
) -> None:
    """Let late rows arrive when their windows were open: each gets the start of the last tick at which those
    would have taken it.

    The rows are taken in when the range from there is restated, by the command that this prints, and by every
    later restatement of it.
    """
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline
    from slackwater.jobs.protocol.staging.slices import iso
    from slackwater.jobs.tables.inspection.inspection import Inspection
    from slackwater.windowing.times import to_ms

    options.log_to_stderr(log_format)
    late = Inspection.of(pipeline, warehouse).late(key, seq).rows
    done = OpenedPipeline(pipeline, warehouse, pipelines).redrive().run(late, reason, is_dry=dry_run)
    rows = [vars(row) for row in done.overrides]
    options.show(
        rows,
        ["true_arrival", "arrival_time", "row_hash"],
        output,
        empty=f"{pipeline}: no late row is to be moved.",
    )
    for note in done.notes:
        click.echo(f"{pipeline}: {note}", err=True)
    if done.taken:
        click.echo(
            f"{pipeline}: {done.taken} rows need no new arrival, by the allowed lateness declared today.",
            err=True,
        )
    if done.to_restate is not None:
        first, last = (iso(to_ms(moment)) for moment in done.to_restate)
        new_ones = f"{done.new} would be new" if dry_run else f"{done.new} are new"
        click.echo(
            f"{pipeline}: {len(rows)} rows move, {new_ones}. Take them in with "
            f"`slackwater backfill {pipeline} --from {first} --to {last}`.",
            err=True,
        )


def _beside_seq(row: dict[str, Any]) -> dict[str, Any]:
    """The row; a column `seq` of the source is shown as `source_seq`, beside the seq of the run."""
    return {"source_seq" if name == "seq" else name: value for name, value in row.items()}


def _windows(windows: list[dict[str, Any]]) -> str:
    return " ".join(f"[{window['start']:%Y-%m-%dT%H:%M}, {window['end']:%H:%M})" for window in windows)
