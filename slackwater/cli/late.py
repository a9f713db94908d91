"""`slackwater late`: the rows that were too late for their windows, the allowed lateness that would have
saved them, and how to re-admit them.

`list` and `report` start no JVM; `redrive` does only where a slice is large.
"""

from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.late_advice import advise
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import Column, value_text
from slackwater.readable import count_text, range_text, time_text

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On


@click.group("late")
def command() -> None:
    """Rows that came too late."""


command.add_command(advise)


def _late_rows_of(function: Any) -> Any:
    """PIPELINE, --key and --run: the late rows that a verb is about."""
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
@_late_rows_of
@printing.output
def list_late(
    pipeline: str,
    *,
    key: str | None,
    seq: int | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """Every late row of the live runs: its key, its times, how late it was and the windows that it missed.

    \b
    Example: slackwater late list departures --key EWR
    """
    from slackwater.inspection.inspection import Inspection
    from slackwater.inspection.rows.top_rows import top_rows
    from slackwater.inspection.sql.views import LineageViews

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    with LineageViews.over(inspection, inspection.run(None), key) as views:
        late = top_rows(views, "late_live", ["run_seq", "arrival_time"], limit=output.row_limit, run_seq=seq)
    run_ids = {seq: run_id for run_id, seq in inspection.tables.ledger.seqs_by_run_id().items()}
    rows = [
        {"run_id": run_ids[row["run_seq"]], **_with_source_seq(row), "seq": row["run_seq"]}
        for row in late.rows
    ]
    columns: list[Column | str] = [
        *printing.keys(inspection.key_columns()),
        "event_time",
        Column("arrival_time", heading="arrival"),
        Column("late_by_ms", "duration"),
        Column("missed", "text", heading="missed window"),
        Column("seq"),
        "watermark",
    ]
    printing.show(
        rows if output.is_json else [{**row, "missed": _windows_text(row["windows"])} for row in rows],
        columns,
        output,
        empty=f"{pipeline}: no row was too late",
        total=late.total,
    )


@command.command("report")
@_late_rows_of
@click.option(
    "--lateness",
    "latenesses",
    type=options.Length(),
    metavar="LENGTH",
    multiple=True,
    help="report this allowed lateness instead of steps; may be repeated",
)
@click.option(
    "--bound",
    type=options.Length(),
    metavar="LENGTH",
    help="as if the watermark had had this bound of out-of-orderness; without --lateness, with the declared "
    "one",
)
@printing.output
def report(
    pipeline: str,
    *,
    key: str | None,
    seq: int | None,
    latenesses: tuple[int, ...],
    bound: int | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """How many of the late rows another allowed lateness would have saved, from the windows that they missed
    and the watermarks when they arrived.

    Their windows are closed: declaring that lateness rescues them only if the range shown beside it is
    restated.

    \b
    Examples: slackwater late report departures
              slackwater late report departures --lateness 5h --bound 2h
    """
    from slackwater.inspection.inspection import Inspection
    from slackwater.inspection.late_rows.lateness import RowCondition
    from slackwater.inspection.late_rows.lateness import report as report_lateness
    from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, recorded_runs
    from slackwater.inspection.sql.views import LineageViews
    from slackwater.runs.staging.collected_mark import LiveMarks
    from slackwater.windowing.times import MILLISECOND, to_datetime, to_ms

    inspection = Inspection.of(pipeline, warehouse)
    head = inspection.run(None)
    live = LiveMarks.of(inspection.tables, recorded_runs(inspection, head))
    longer_by_ms = 0
    if bound is not None:
        settings = LatenessSettings.of(inspection, head)
        latenesses = latenesses or (settings.lateness_ms,)
        head, longer_by_ms = settings.row_of_runs(head), settings.longer_by_ms(bound)
    with LineageViews.over(inspection, head, key) as views:
        where = RowCondition() if seq is None else RowCondition("run_seq = ?", (seq,))
        if key is not None:
            is_key, values = views.condition_on_key(key)
            where &= RowCondition(is_key, tuple(values))
        savings = report_lateness(
            views.query,
            lambda last: to_datetime(live.reopened_from(to_ms(last))),
            where,
            [lateness * MILLISECOND for lateness in latenesses],
            longer_by_ms,
        )
    rows = [
        {
            "allowed_lateness": str(saving.lateness),
            "allowed_lateness_ms": saving.lateness // MILLISECOND,
            **({} if bound is None else {"bound_ms": bound}),
            "rows_saved": saving.rows,
            "share": round(saving.share, 4),
            "restate_from": saving.restate_from,
            "restate_to": saving.restate_to,
        }
        for saving in savings
    ]
    columns = [
        Column("allowed_lateness_ms", "exact_duration"),
        *([] if bound is None else [Column("bound_ms", "exact_duration", heading="bound")]),
        Column("rows_saved"),
        Column("share", "share"),
        Column("restate_from"),
        Column("restate_to"),
    ]
    printing.show(rows, columns, output, empty=f"{pipeline}: no row was too late")
    if rows and longer_by_ms < 0:
        printing.say(
            f"{pipeline}: a shorter bound would have let more rows be too late than these, which were too "
            "late in any case.",
            err=True,
        )
    if any(saving.rows for saving in savings):
        printing.say(
            f"{pipeline}: a lateness that is declared now helps only rows that arrive from now on; the "
            "windows of these are closed. To rescue them, declare it and run `slackwater backfill "
            f"{pipeline} --from RESTATE_FROM --to RESTATE_TO`.",
            err=True,
        )


@command.command("redrive")
@_late_rows_of
@click.option("--reason", required=True, metavar="TEXT", help="why; it is recorded with each row")
@click.option("--dry-run", is_flag=True, help="say what would be written, and write nothing")
@options.on
@printing.output
@options.log_format
def redrive(
    pipeline: str,
    *,
    key: str | None,
    seq: int | None,
    reason: str,
    dry_run: bool,
    on: "On | None",
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    log_format: str | None,
) -> None:
    """Let late rows arrive when their windows were open: each gets as its arrival the start of the last tick
    at which its windows would have taken it.

    The rows are taken in when the range from there is restated, by the command that this prints, and by every
    later restatement of it.

    \b
    Example: slackwater late redrive departures --key EWR --reason 'late feed'
    """
    from slackwater.inspection.inspection import Inspection
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.runs.staging.slices import iso
    from slackwater.windowing.times import to_ms

    options.log_to_stderr(log_format)
    inspection = Inspection.of(pipeline, warehouse)
    late, keys = inspection.late(key, seq).rows, inspection.key_columns()
    redriven = OpenedPipeline(pipeline, warehouse, pipelines, on).redrive().run(late, reason, is_dry=dry_run)
    rows = [
        {
            **vars(override),
            "key": {name: late_row[name] for name in keys},
            "event_time": late_row["event_time"],
            "windows": late_row["windows"],
        }
        for override, late_row in zip(redriven.overrides, redriven.late_rows, strict=True)
    ]
    columns: list[Column | str] = [
        *printing.keys(keys),
        "event_time",
        Column("missed", "text", heading="missed window"),
        Column("arrival_time", heading="new arrival"),
        Column("true_arrival"),
        *printing.wide("row_hash"),
    ]
    printing.show(
        rows
        if output.is_json
        else [{**row, **row["key"], "missed": _windows_text(row["windows"])} for row in rows],
        columns,
        output,
        empty=f"{pipeline}: no late row is to be moved.",
    )
    for note in redriven.notes:
        printing.say(f"{pipeline}: {note}", err=True)
    if redriven.unmoved_rows:
        printing.say(
            f"{pipeline}: {count_text(redriven.unmoved_rows, 'row needs', 'rows need')} no new arrival, by "
            "the allowed lateness declared today.",
            err=True,
        )
    if redriven.to_restate is not None:
        first, last = (iso(to_ms(moment)) for moment in redriven.to_restate)
        get = "would get" if dry_run else "gets" if len(rows) == 1 else "get"
        printing.say(
            f"{pipeline}: {count_text(len(rows), 'row')} {get} a new arrival time, {redriven.new:,} for the "
            f"first time. To re-admit: `slackwater backfill {pipeline} --from {first} --to {last}`.",
            err=True,
        )


def _with_source_seq(row: dict[str, Any]) -> dict[str, Any]:
    """The row, its column `seq` of the source renamed to `source_seq`: `seq` is that of the run."""
    return {
        "source_seq" if name == "seq" else name: value for name, value in row.items() if name != "run_seq"
    }


def _windows_text(windows: list[dict[str, Any]]) -> str:
    return "; ".join(" ".join([_bounds_text(window), *_own_values(window)]) for window in windows)


def _bounds_text(window: dict[str, Any]) -> str:
    """The bounds of a window; of one without a start, its end."""
    start, end = window["start"], window["end"]
    return f"until {time_text(end)}" if start is None else range_text(start, end)


def _own_values(window: dict[str, Any]) -> list[str]:
    """The values of the columns that the window's class declares."""
    return [value_text(value) for name, value in window.items() if name not in ("start", "end")]
