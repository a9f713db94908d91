"""`slackwater branches`: lists and drops the lineages beside main. Starts no JVM."""

from collections.abc import Sequence
from typing import Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

COLUMNS = [
    Column("branch", "key"),
    Column("slice", "range"),
    Column("runs"),
    Column("live_in_main"),
    Column("rows_read", heading="rows"),
    Column("open"),
    Column("watermark"),
    Column("forked_from"),
    Column("head"),
    Column("forked_at", is_wide=True),
]


@click.group("branches")
def command() -> None:
    """Branches beside main, made by `backfill` and `state fork`."""


@command.command("list")
@click.argument("pipeline")
@options.place
@printing.output
def list_branches(pipeline: NamedPipeline, output: Output) -> None:
    """Every branch that was not dropped: where it forked, the slices that it has run since, and whether main
    has taken its runs.

    \b
    Example: slackwater branches list departures
    """
    branch_runs = pipeline.inspection().branch_runs()
    rows = [_facts(branch, runs, is_live=is_live) for branch, runs, is_live in branch_runs]
    printing.show(rows, COLUMNS, output, empty=f"{pipeline}: there is no branch beside main")


def _facts(branch: Any, runs: Sequence[Any], *, is_live: bool) -> dict[str, Any]:
    """One row of the list. `runs`: the runs on the branch since its fork; `is_live`: whether main has taken
    all of them.
    """
    start = runs[0].slice_start if runs else branch.fork.slice_end
    end = runs[-1].slice_end if runs else branch.fork.slice_end
    return {
        "branch": branch.name,
        "forked_from": branch.fork.parent_seq,
        "runs": len(runs),
        "slice": f"[{start:%Y-%m-%dT%H:%M}, {end:%Y-%m-%dT%H:%M})",
        "slice_start": start,
        "slice_end": end,
        "rows_read": sum(run.rows_read for run in runs),
        "open": branch.head.windows_open,
        "watermark": branch.head.watermark_out,
        "head": branch.head.seq,
        "live_in_main": is_live,
        "forked_at": branch.fork.committed_at,
    }


@command.command("drop")
@click.argument("pipeline")
@click.argument("branch")
@options.place
@printing.json_or_text
@options.log_format
def drop(pipeline: NamedPipeline, branch: str, output: Output) -> None:
    """End BRANCH. Its runs stay in the ledger; those that main has taken stay live.

    \b
    Example: slackwater branches drop departures trial
    """
    row = pipeline.open().moves().drop(branch)
    sentence = f"{pipeline}: the branch {branch} was dropped, by row {row.seq}."
    printing.show_result([row.values()], [sentence], output)
