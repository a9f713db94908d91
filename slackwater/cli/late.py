"""`slackwater late`: the rows that were too late for their windows, the allowed lateness or bound that would
have saved them and its price, and how to re-admit them. Only `redrive` may start a JVM, where a slice is
large.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import value_text
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, range_text, time_text
from slackwater.windowing.times import MILLISECOND, to_datetime, to_ms

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.inspection.inspection import Inspection
    from slackwater.inspection.late_rows.lateness import SavedRows
    from slackwater.inspection.late_rows.lateness_and_bound import LateRowAdvice
    from slackwater.runs.restating.redrive import RedriveResult


@click.group("late")
def command() -> None:
    """Rows that came too late."""


_late_rows_of = options.together(
    click.argument("pipeline"), options.key, options.run("only rows of this run"), options.place
)


@command.command("list")
@_late_rows_of
@printing.output
def list_late(pipeline: NamedPipeline, key: str | None, seq: int | None, output: Output) -> None:
    """Every late row of the live runs: its key, its times, how late it was and the windows that it missed.

    \b
    Example: slackwater late list departures --key EWR
    """
    from slackwater.inspection.rows.row_pages import top_rows
    from slackwater.inspection.sql.views import LineageViews

    inspection = pipeline.inspection()
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
    pipeline: NamedPipeline,
    *,
    key: str | None,
    seq: int | None,
    latenesses: tuple[int, ...],
    bound: int | None,
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
    savings, longer_by_ms = _savings(pipeline.inspection(), key, seq, latenesses, bound)
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
        printing.say(f"{pipeline}: {_SHORTER_BOUND}", err=True)
    if any(saving.rows for saving in savings):
        command = f"`slackwater backfill {pipeline} --from RESTATE_FROM --to RESTATE_TO`"
        printing.say(f"{pipeline}: {_RESCUE} {command}.", err=True)


_SHORTER_BOUND = (
    "a shorter bound would have let more rows be too late than these, which were too late in any case."
)
_RESCUE = (
    "a lateness that is declared now helps only rows that arrive from now on; the windows of these are "
    "closed. To rescue them, declare it and run"
)


def _savings(
    inspection: "Inspection",
    key: str | None,
    seq: int | None,
    latenesses: tuple[int, ...],
    bound: int | None,
) -> "tuple[list[SavedRows], int]":
    """The rows that each lateness would have saved; by how much `bound` is longer than the declared one."""
    from slackwater.inspection.late_rows.lateness import report as report_lateness
    from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, recorded_runs
    from slackwater.inspection.sql.views import LineageViews
    from slackwater.runs.staging.collected_mark import LiveMarks

    head = inspection.run(None)
    live = LiveMarks.of(inspection.tables, recorded_runs(inspection, head))
    longer_by_ms = 0
    if bound is not None:
        settings = LatenessSettings.of(inspection, head)
        latenesses = latenesses or (settings.lateness_ms,)
        head, longer_by_ms = settings.row_of_runs(head), settings.longer_by_ms(bound)
    with LineageViews.over(inspection, head, key) as views:
        is_key, values = ("true", []) if key is None else views.condition_on_key(key)
        where = (is_key, values) if seq is None else (f"{is_key} AND run_seq = ?", [*values, seq])
        savings = report_lateness(
            views.query,
            lambda last: to_datetime(live.reopened_from(to_ms(last))),
            where,
            [lateness * MILLISECOND for lateness in latenesses],
            longer_by_ms,
        )
    return savings, longer_by_ms


@command.command("redrive")
@_late_rows_of
@click.option("--reason", required=True, metavar="TEXT", help="why; it is recorded with each row")
@click.option("--dry-run", is_flag=True, help="say what would be written, and write nothing")
@options.on
@printing.output
@options.log_format
def redrive(
    pipeline: NamedPipeline,
    *,
    key: str | None,
    seq: int | None,
    reason: str,
    dry_run: bool,
    on: "On | None",
    output: Output,
) -> None:
    """Let late rows arrive when their windows were open: each gets as its arrival the start of the last tick
    at which its windows would have taken it.

    The rows are taken in when the range from there is restated, by the command that this prints, and by every
    later restatement of it.

    \b
    Example: slackwater late redrive departures --key EWR --reason 'late feed'
    """
    inspection = pipeline.inspection()
    late, keys = inspection.late(key, seq).rows, inspection.key_columns()
    redriven = pipeline.open(on).redrive().run(late, reason, is_dry=dry_run)
    rows = [
        {
            **vars(override),
            "key": {name: late_row[name] for name in keys},
            "event_time": late_row["event_time"],
            "windows": late_row["windows"],
        }
        for override, late_row in zip(redriven.overrides, redriven.late_rows, strict=True)
    ]
    table_rows = [{**row, **row["key"], "missed": _windows_text(row["windows"])} for row in rows]
    columns: list[Column | str] = [
        *printing.keys(keys),
        "event_time",
        Column("missed", "text", heading="missed window"),
        Column("arrival_time", heading="new arrival"),
        Column("true_arrival"),
        *printing.wide("row_hash"),
    ]
    empty = f"{pipeline}: no late row is to be moved."
    printing.show(rows if output.is_json else table_rows, columns, output, empty=empty)
    for sentence in _sentences(redriven, is_dry=dry_run, pipeline=pipeline):
        printing.say(f"{pipeline}: {sentence}", err=True)


def _sentences(redriven: "RedriveResult", *, is_dry: bool, pipeline: NamedPipeline) -> Iterator[str]:
    """What a redrive has done beside its rows, and the command that takes them in."""
    from slackwater.runs.staging.slices import iso

    yield from redriven.notes
    if redriven.unmoved_rows:
        yield (
            f"{count_text(redriven.unmoved_rows, 'row needs', 'rows need')} no new arrival, by the allowed "
            "lateness declared today."
        )
    if redriven.to_restate is not None:
        first, last = (iso(to_ms(moment)) for moment in redriven.to_restate)
        count = len(redriven.overrides)
        get = "would get" if is_dry else "gets" if count == 1 else "get"
        yield (
            f"{count_text(count, 'row')} {get} a new arrival time, {redriven.new:,} for the first time. To "
            f"re-admit: `slackwater backfill {pipeline} --from {first} --to {last}`."
        )


def _with_source_seq(row: dict[str, Any]) -> dict[str, Any]:
    """The row, its column `seq` of the source renamed to `source_seq`: `seq` is that of the run."""
    return {
        "source_seq" if name == "seq" else name: value for name, value in row.items() if name != "run_seq"
    }


def _windows_text(windows: list[dict[str, Any]]) -> str:
    return "; ".join(_window_text(**window) for window in windows)


def _window_text(*, start: datetime | None, end: datetime, **own_values: Any) -> str:
    bounds = f"until {time_text(end)}" if start is None else range_text(start, end)
    return " ".join([bounds, *map(value_text, own_values.values())])


@command.command("advise")
@click.argument("pipeline")
@click.option("--lateness", type=options.Length(), metavar="LENGTH", help="show this allowed lateness, too")
@click.option("--bound", type=options.Length(), metavar="LENGTH", help="show this bound, too")
@click.option(
    "--last",
    type=click.IntRange(1),
    metavar="N",
    help="look at the newest N runs (default: all that can be read in a moment)",
)
@click.option(
    "--elements",
    is_flag=True,
    help="read the rows from the source, too: shorter bounds have a price then; --last bounds them",
)
@options.place
@printing.output
def advise(
    pipeline: NamedPipeline,
    *,
    lateness: int | None,
    bound: int | None,
    last: int | None,
    elements: bool,
    output: Output,
) -> None:
    """What another allowed lateness would have saved and cost, how complete windows were when they first
    fired under this and longer bounds of the watermark, and which settings are worth their price.

    All of it comes from what runs have recorded of rows that came late; the source is read only with
    --elements.

    \b
    Example: slackwater late advise departures --lateness 7h
    """
    from slackwater.inspection.late_rows.lateness_and_bound import advice_of
    from slackwater.tables.warehouse import Warehouse

    reading = (pipeline.declaration(), Warehouse.at(pipeline.warehouse)) if elements else None
    advice = advice_of(
        pipeline.inspection(), lateness_ms=lateness, bound_ms=bound, last_runs=last, reading=reading
    )
    _show(pipeline, advice, output)


def _show(pipeline: NamedPipeline, advice: "LateRowAdvice", output: Output) -> None:
    from slackwater.inspection.late_rows.lateness_and_bound import bound_table, lateness_table

    latenesses, bounds = lateness_table(advice.lateness), bound_table(advice.bound)
    if output.is_json:
        settings, bound = advice.settings, advice.bound
        printing.show_object(
            {
                "pipeline": pipeline.name,
                "allowed_lateness_ms": settings.lateness_ms,
                "bound_ms": settings.bound_ms,
                "rows_read": advice.lateness.rows_read,
                "rows_late": advice.lateness.rows_late,
                "lateness": latenesses.rows,
                "bound": [] if bounds is None else bounds.rows,
                "suggested_lateness_ms": advice.lateness.suggestion.lateness_ms,
                "suggested_bound_ms": None if bound is None else bound.suggestion.bound_ms,
                "suggestion": " ".join(advice.suggestions),
                "notes": advice.notes,
                "is_sample": advice.lateness.is_sample,
            }
        )
        return
    printing.say(f"{pipeline}: {advice.summary}")
    for table in (latenesses, bounds):
        if table is not None:
            click.echo()
            printing.show(table.rows, table.columns, output, empty="")
    click.echo()
    for sentence in (*advice.suggestions, " ".join(advice.notes)):
        printing.say(sentence)
