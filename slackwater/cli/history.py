"""`slackwater history`: what was published when, old → new, and why. Starts no JVM."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import changed_rows, options, printing
from slackwater.cli.options import NamedPipeline, Time
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.inspection.change_text import source_row_text

if TYPE_CHECKING:
    from slackwater.inspection.changes.causing_rows import CausingRow
    from slackwater.inspection.changes.published_change import PublishedChange
    from slackwater.inspection.changes.window_history import WindowHistory
    from slackwater.inspection.inspection import Inspection


@click.command("history")
@click.argument("pipeline")
@options.key
@click.option(
    "--window",
    "window_ms",
    type=Time(),
    metavar="START",
    help="only the window that starts then (of a process function: the rows with this timestamp)",
)
@options.run("only what this row of the ledger changed")
@click.option(
    "--elements",
    is_flag=True,
    help="with --window: read the rows that caused each change from the source, too",
)
@options.place
@printing.output
def command(
    pipeline: NamedPipeline,
    *,
    key: str | None,
    window_ms: int | None,
    seq: int | None,
    elements: bool,
    output: Output,
) -> None:
    """What was published of a key, when, and what it was before, the newest change first; which run brought
    each change, and why: the watermark, late rows, a merge, or a restatement with what it read differently.

    With --run and no key: every row that a publication or a run has changed.

    \b
    Examples: slackwater history departures --key JFK
              slackwater history departures --key JFK --window 2013-01-02T15:00
              slackwater history departures --key JFK --window 2013-01-02T15:00 --elements
              slackwater history departures --run 7
    """
    from slackwater.inspection.changes.window_history import HistoryQuestion, history_of

    if elements and window_ms is None:
        raise click.UsageError("--elements reads the rows of one window; name it with --window START")
    inspection = pipeline.inspection()
    inspection.say_if_unfinished()
    if key is None and seq is not None and window_ms is None:
        _show_row(inspection, seq, output)
        return
    if key is None and inspection.key_columns():
        raise click.UsageError(
            f"name the key with --key, by its {', '.join(inspection.key_columns())}, or a row of the ledger "
            f"with --run SEQ (`slackwater runs {pipeline}` lists them)"
        )
    question = HistoryQuestion(key=key, window_ms=window_ms, seq=seq, limit=output.row_limit)
    history = history_of(inspection, question)
    rows_by_change = _causing_rows(pipeline, inspection, key, history) if elements else None
    if output.is_json:
        rows = [
            _json_row(change, None if rows_by_change is None else rows_by_change[place])
            for place, change in enumerate(history.changes)
        ]
        printing.show(rows, [], output, empty="")
        return
    _show_history(pipeline, key, history, output, is_of_window=window_ms is not None)
    if rows_by_change is not None:
        _show_causing_rows(history, rows_by_change, output)


def _causing_rows(
    pipeline: NamedPipeline, inspection: "Inspection", key: str | None, history: "WindowHistory"
) -> "list[Sequence[CausingRow]]":
    from slackwater.inspection.changes.causing_rows import CausingRows
    from slackwater.inspection.windows.lineage_as_of import KeyRows
    from slackwater.tables.warehouse import Warehouse

    declaration, warehouse = pipeline.declaration(), Warehouse.at(pipeline.warehouse)
    key_rows = KeyRows.of(inspection.tables, inspection.key_columns(), key, declaration.max_parallelism)
    causes = CausingRows(declaration, inspection.tables, warehouse, key_rows)
    return [causes.of(change) for change in history.changes]


def _show_row(inspection: "Inspection", seq: int, output: Output) -> None:
    from slackwater.inspection.changes.change_tables import changes_table
    from slackwater.inspection.changes.published_changes import PublishedChanges

    row = inspection.run(seq)
    changes = PublishedChanges.of_row(inspection, row, output.row_limit)
    empty = f"{inspection.pipeline}: row {seq}, a {row.kind}, has changed nothing in `published`."
    changed_rows.show(changes_table(changes, "", empty), changes, output)


def _show_history(
    pipeline: NamedPipeline, key: str | None, history: "WindowHistory", output: Output, *, is_of_window: bool
) -> None:
    from slackwater.inspection.changes.change_tables import history_table

    whose = "" if key is None else f" of {key}"
    empty = f"{pipeline}: nothing{whose} was published{' in this window' if is_of_window else ''}."
    table = history_table(history, empty, is_of_window=is_of_window)
    printing.show(table.rows, table.columns, output, empty=table.empty)
    if history.has_more:
        printing.note("There are older changes; --limit N shows more, --limit 0 all.")
    if history.dropped_seq is not None:
        printing.note(
            f"Changes up to run {history.dropped_seq} of windows that were final by then are not kept "
            "(keep_history)."
        )


def _show_causing_rows(
    history: "WindowHistory", rows_by_change: "Sequence[Sequence[CausingRow]]", output: Output
) -> None:
    rows = [
        {
            "seq": change.seq,
            "what": "taken in" if cause.is_taken else "left out",
            "event_time": cause.row.event_time,
            "arrival_time": cause.row.arrival_time,
            "row": source_row_text(cause.row.values),
        }
        for change, causes in zip(history.changes, rows_by_change, strict=True)
        for cause in causes
    ]
    columns = [
        Column("seq", "id"),
        *map(Column, ("what", "event_time", "arrival_time")),
        Column("row", "text"),
    ]
    empty = "No row of the source differs."
    printing.show(rows, columns, output, empty=empty, title="\nRows of the source")


def _json_row(change: "PublishedChange", causes: "Sequence[CausingRow] | None") -> dict[str, Any]:
    from slackwater.inspection.changes.published_change import reason_of

    brought_by = change.brought_by
    names = ("timestamp", "ordinal", "kind", "firing", "revision", "op", "cause", "old", "new")
    return {
        "seq": change.seq,
        "at": change.at,
        "row_kind": brought_by.kind,
        **{name: getattr(brought_by, name) for name in ("slice_start", "slice_end", "verdict")},
        "key": dict(change.key),
        **change.window,
        **{name: getattr(change, name) for name in names},
        "why": reason_of(change),
        "before": None if change.before is None else vars(change.before),
        "after": None if change.after is None else vars(change.after),
        "late_arrivals": list(change.late_arrivals),
        "absorbed_by": change.absorbed_by,
        "moved_count": change.moved_count,
        "moved_rows": [vars(row) for row in change.moved_rows],
        **(
            {}
            if causes is None
            else {"source_rows": [{"is_taken": one.is_taken, **vars(one.row)} for one in causes]}
        ),
    }
