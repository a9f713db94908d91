"""`slackwater runs`: prints the ledger as a log, or one run in detail. Starts no JVM."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, duration_text, size_text

if TYPE_CHECKING:
    from slackwater.inspection.inspection import Inspection
    from slackwater.tables.ledger.rows import LedgerRow

KINDS_WITH_COUNTS = ("run", "close")
COUNTS = ["rows_read", "fired", "refired", "late", "quarantined", "open", "emitted", "side"]
_ROW_COUNTS = {
    "rows_read": "read",
    "rows_exploded": "lists exploded",
    "rows_filtered": "filtered",
    "rows_duplicate": "duplicate",
    "rows_accepted": "accepted",
    "rows_late": "late",
    "rows_unassigned": "unassigned",
    "rows_quarantined": "quarantined",
    "rows_folded": "folded",
    "rows_emitted": "emitted",
    "side_rows": "to side outputs",
    "assignments_missed": "assignments missed",
    "elements_never_fired": "never in a firing",
}
_WINDOW_COUNTS = {
    "windows_opened": "opened",
    "windows_fired": "fired",
    "windows_refired": "refired",
    "windows_merged": "merged",
    "windows_cleaned": "cleaned up",
    "windows_open": "open",
    "timers_pending": "timers pending",
}
_WIDE_FACTS = ("run_id", "config_hash", "code_hash", "state_hash", "output_hash", "version", "format_version")
_CHECKS = [
    Column("expectation", "text"),
    Column("passed"),
    Column("observed", "text"),
    Column("unexpected"),
    Column("checked"),
    Column("sample_json", "text", heading="sample", is_optional=True),
    Column("severity", is_wide=True),
]
_ATTEMPTS = [
    Column("slice", "range"),
    Column("outcome"),
    Column("verdict"),
    Column("step"),
    Column("at"),
    Column("reason", "text", heading="error", is_optional=True),
    Column("run_id", is_wide=True),
]


@click.command("runs")
@click.argument("pipeline")
@click.argument("run", type=options.SeqOrRunId(), required=False, metavar="[SEQ|RUN_ID]")
@click.option(
    "--since", type=click.IntRange(0, 2**63 - 2), default=0, metavar="SEQ", help="only rows after SEQ"
)
@click.option(
    "--data-docs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="also write Great Expectations' report (Data Docs, and its results as JSON) on these runs, rejected "
    "ones too",
)
@options.place
@printing.output
def command(
    pipeline: NamedPipeline,
    *,
    run: int | str | None,
    since: int,
    data_docs: Path | None,
    output: Output,
) -> None:
    """The ledger, newest rows last; with SEQ or RUN_ID one run in detail: its counts, hashes, phases and
    checks; of an attempt that is not committed its whole error.

    The column "live" names for a run the branch in which it is live (none: it was replaced), and for any
    other row the runs that it made live.

    \b
    Examples: slackwater runs departures --since 20
              slackwater runs departures 3 --data-docs report
    """
    inspection = pipeline.inspection()
    if run is not None:
        rows, attempts = _show_run_or_attempt(inspection, run, output)
    else:
        inspection.say_if_unfinished()
        rows = _show_log(inspection, since, output)
        attempts = inspection.open_attempts() if data_docs is not None or not output.is_json else []
        if not output.is_json:
            _show_attempts(attempts, output)
    if data_docs is not None:
        _write_data_docs(inspection, rows, attempts, data_docs, output)


def _show_run_or_attempt(
    inspection: "Inspection", run: int | str, output: Output
) -> "tuple[list[LedgerRow], list[dict[str, Any]]]":
    """Print one run, or one attempt that has not become one; returns it as the one or the other."""
    row = inspection.run(run) if isinstance(run, int) else inspection.tables.ledger.by_run_id(run)
    if row is None:
        attempt = inspection.open_attempt(str(run))
        _show_attempt(attempt, inspection.checks_of(attempt["run_id"]), output)
        return [], [attempt]
    _show_run(row, inspection.checks_of(row.run_id), output)
    return [row], []


def _show_log(inspection: "Inspection", since: int, output: Output) -> "list[LedgerRow]":
    """Print the rows of the ledger after `since`, as many as are wanted, and return these."""
    seqs = inspection.seqs(since)
    shown_seqs = seqs if output.row_limit is None else seqs[-output.row_limit :]
    ledger_rows = inspection.runs(shown_seqs[0] - 1) if shown_seqs else []
    if output.is_json:
        touched_dates = inspection.touched_dates(ledger_rows)
        rows = [{**_summary(row), "touched": touched_dates[row.seq]} for row in ledger_rows]
    else:
        lineages = inspection.lineage_of(ledger_rows)
        rows = [_table_row(row, lineages[row.seq]) for row in ledger_rows]
    printing.show(
        rows,
        log_columns(ledger_rows),
        output,
        empty=f"{inspection.pipeline}: the ledger has no rows after {since}.",
        total=len(seqs),
        others="earlier",
    )
    return ledger_rows


def _write_data_docs(
    inspection: "Inspection",
    rows: "Sequence[LedgerRow]",
    attempts: Sequence[dict[str, Any]],
    folder: Path,
    output: Output,
) -> None:
    """Write the report on the runs among the rows and on the attempts that were validated."""
    from slackwater.inspection.runs.data_docs import ValidatedRun, write_data_docs

    runs = [
        *(
            ValidatedRun(row.run_id, row.committed_at)
            for row in rows
            if row.kind in KINDS_WITH_COUNTS and row.committed_at is not None
        ),
        *(ValidatedRun(item["run_id"], item["at"]) for item in attempts if item["verdict"]),
    ]
    index = write_data_docs(inspection, runs, folder)
    output.say_meanwhile(f"Data Docs: {index}")


def log_columns(rows: "Sequence[LedgerRow]") -> list[Column]:
    """The columns of the log; which branch a row belongs to is said where there is more than main."""
    return [
        Column("seq"),
        Column("kind"),
        Column("branch", "key", is_wide=all(row.branch == "main" for row in rows)),
        Column("slice", "range"),
        Column("verdict"),
        Column("rows_read", heading="rows"),
        Column("late"),
        Column("live", "key"),
        Column("fired"),
        Column("refired"),
        Column("open"),
        Column("took", "duration"),
        Column("quarantined"),
        Column("watermark_out", heading="watermark"),
        Column("emitted", is_optional=True),
        Column("side", is_optional=True),
        Column("place", is_wide=True),
        Column("committed_at", heading="committed", is_wide=True),
        Column("run_id", is_wide=True),
    ]


def _summary(row: "LedgerRow") -> dict[str, Any]:
    """A ledger row with the names of the log, for JSON."""
    start, end = row.slice_start, row.slice_end
    return {
        **row.values(),
        "slice": "–" if start is None else f"[{start:%Y-%m-%dT%H:%M}, {end:%Y-%m-%dT%H:%M})",
        **_counts_of(row),
        "seconds": _seconds(row),
    }


def _counts_of(row: "LedgerRow") -> dict[str, Any]:
    """The counts of the log by their short names."""
    return {
        "fired": row.windows_fired,
        "refired": row.windows_refired,
        "late": row.rows_late,
        "quarantined": row.rows_quarantined,
        "open": row.windows_open,
    }


def _seconds(row: "LedgerRow") -> float:
    return sum(seconds for phase, seconds in row.phase_seconds.items() if phase != "session")


def _table_row(row: "LedgerRow", lineage: str | None) -> dict[str, Any]:
    """A ledger row for people: a row that is no run has no counts and took no time."""
    names = ("seq", "kind", "branch", "slice_start", "slice_end", "verdict", "rows_read", "watermark_out")
    facts = {
        **{name: getattr(row, name) for name in (*names, "place", "committed_at", "run_id")},
        **_counts_of(row),
        "live": lineage,
        "emitted": row.rows_emitted,
        "side": row.side_rows,
        "took": _seconds(row) * 1000,
    }
    return facts if row.kind in KINDS_WITH_COUNTS else {**facts, **dict.fromkeys((*COUNTS, "took"))}


def _show_run(row: "LedgerRow", checks: list[dict[str, Any]], output: Output) -> None:
    if output.is_json:
        printing.show([{**row.values(), "checks": checks}], [], output, empty="")
        return
    printing.show_facts(list(_facts(row, is_wide=output.is_wide)), output)
    printing.show(checks, _CHECKS, output, empty="no checks were recorded", title="\nchecks")


def _facts(row: "LedgerRow", *, is_wide: bool) -> Iterator[printing.Fact]:
    """What the ledger says of a run, its counts in the order in which rows and windows pass."""
    yield ("seq", row.seq)
    yield ("kind", row.kind)
    yield ("branch", row.branch)
    yield ("after", row.parent_seq)
    yield ("slice", (row.slice_start, row.slice_end), "range")
    yield ("verdict", row.verdict)
    yield ("engine", row.engine)
    if row.place is not None:
        yield ("replayed by", f"{row.place}: {row.place_reason}")
    yield ("attempt", row.attempt)
    yield ("watermark before", row.watermark_in)
    yield ("watermark after", row.watermark_out)
    yield ("committed", row.committed_at)
    for item in row.inputs:
        yield (
            f"input {item.table}",
            f"version {item.version}: {count_text(item.rows, 'row')}, {count_text(item.files, 'file')}, "
            f"{size_text(item.bytes)}",
        )
    yield ("rows", _counts(row, _ROW_COUNTS))
    yield ("windows", _counts(row, _WINDOW_COUNTS))
    yield ("took", ", ".join(f"{phase} {duration_text(s * 1000)}" for phase, s in row.phase_seconds.items()))
    if is_wide:
        for name in _WIDE_FACTS:
            yield (name.replace("_", " "), getattr(row, name), "id")
        yield ("table versions", row.table_versions)


def _counts(row: "LedgerRow", names: dict[str, str]) -> str:
    """Counts with their names; a zero is said only of the first."""
    counts = [(getattr(row, column), name) for column, name in names.items()]
    return ", ".join(
        f"{count:,} {name}"
        for place, (count, name) in enumerate(counts)
        if count or (place == 0 and count == 0)
    )


def _show_attempts(attempts: list[dict[str, Any]], output: Output) -> None:
    if attempts:
        printing.show(
            attempts if output.row_limit is None else attempts[-output.row_limit :],
            _ATTEMPTS,
            output,
            empty="",
            title="\nattempts that are not committed",
            total=len(attempts),
            others="earlier",
        )


def _show_attempt(attempt: dict[str, Any], checks: list[dict[str, Any]], output: Output) -> None:
    """An attempt that is not committed, with its whole error."""
    if output.is_json:
        printing.show([{**attempt, "checks": checks}], [], output, empty="")
        return
    facts: list[printing.Fact] = [
        ("run id", attempt["run_id"], "id"),
        ("slice", (attempt["slice_start"], attempt["slice_end"]), "range"),
        *((name, attempt[name]) for name in ("attempt", "outcome", "verdict", "step", "at")),
    ]
    printing.show_facts(facts, output)
    if attempt["error"]:
        printing.say(f"\n{attempt['error']}")
    printing.show(checks, _CHECKS, output, empty="no checks were recorded", title="\nchecks")
