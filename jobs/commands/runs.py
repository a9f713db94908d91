"""`slackwater runs`: prints the ledger as a log, or one run in detail. Starts no JVM."""

from dataclasses import asdict
from typing import Any

import click

from slackwater.jobs.commands import options

KINDS_WITH_COUNTS = ("run", "close")
COUNTS = ["rows_read", "fired", "refired", "late", "quarantined"]
COLUMNS = [
    "seq",
    "kind",
    "branch",
    "live",
    "slice",
    *COUNTS,
    "open",
    "watermark_out",
    "verdict",
    "seconds",
    "run_id",
]


@click.command("runs")
@click.argument("pipeline")
@click.argument("seq", type=options.SEQ, required=False)
@click.option(
    "--since", type=click.IntRange(0, 2**63 - 2), default=0, metavar="SEQ", help="only rows after SEQ"
)
@options.warehouse
@options.pipelines
@options.output
def command(
    pipeline: str,
    *,
    seq: int | None,
    since: int,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
) -> None:
    """The ledger, oldest row first; with SEQ one run in detail: its counts, hashes, phases and checks.

    The column "live" names for a run the branch in which it counts now (none: it was replaced), and for any
    other row the runs that it made live.
    """
    from slackwater.jobs.inspection.inspection import Inspection

    tables = Inspection.of(pipeline, warehouse)
    if seq is not None:
        _show_run(tables.run(seq), tables.checks(seq), output)
        return
    tables.say_if_unfinished()
    runs = tables.runs(since)
    rows = [_summary(asdict(row), touched_windows) for row, touched_windows in runs]
    if output == "table":
        live = tables.lineage_of([row for row, _ in runs])
        rows = [
            {
                **row,
                "live": live[row["seq"]],
                **({} if row["kind"] in KINDS_WITH_COUNTS else dict.fromkeys(COUNTS)),
            }
            for row in rows
        ]
    options.show(rows, _columns(rows), output, empty=f"{pipeline}: the ledger has no rows after {since}.")
    if output == "table":
        _show_attempts(tables.open_attempts())


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """COLUMNS, with the counts of emitted rows where there are any."""
    at = COLUMNS.index("late")
    emitted_counts = [name for name in ("rows_emitted", "side_rows") if any(row.get(name) for row in rows)]
    return [*COLUMNS[:at], *emitted_counts, *COLUMNS[at:]]


def _summary(row: dict[str, Any], touched_windows: list[str]) -> dict[str, Any]:
    start, end = row["slice_start"], row["slice_end"]
    return {
        **row,
        "slice": "–" if start is None else f"[{start:%Y-%m-%dT%H:%M}, {end:%Y-%m-%dT%H:%M})",
        "fired": row["windows_fired"],
        "refired": row["windows_refired"],
        "late": row["rows_late"],
        "quarantined": row["rows_quarantined"],
        "open": row["windows_open"],
        "seconds": sum(seconds for phase, seconds in row["phase_seconds"].items() if phase != "session"),
        "touched": touched_windows,
    }


def _show_run(row: Any, checks: list[dict[str, Any]], output: str) -> None:
    facts = {**asdict(row), "checks": checks}
    if output == "json":
        options.show([facts], [], output, empty="")
        return
    lines = [
        {"what": name, "value": value}
        for name, value in facts.items()
        if name not in ("checks", "files", "live", "inputs", "phase_seconds", "erased")
    ]
    lines += [
        {"what": f"input {item['table']}", "value": f"version {item['version']}, {item['rows']} rows"}
        for item in facts["inputs"]
    ]
    lines += [
        {"what": f"seconds of {name}", "value": value} for name, value in facts["phase_seconds"].items()
    ]
    options.show(
        [{**line, "value": options.cell(line["value"])} for line in lines],
        ["what", "value"],
        output,
        empty="",
    )
    columns = ["expectation", "severity", "passed", "observed", "unexpected", "checked", "sample_json"]
    options.show(checks, columns, output, empty="no checks were recorded", title="\nchecks")


def _show_attempts(attempts: list[dict[str, Any]]) -> None:
    if attempts:
        columns = ["run_id", "slice_start", "slice_end", "outcome", "verdict", "step", "at"]
        options.show(attempts, columns, "table", empty="", title="\nattempts that are not committed")
