"""`slackwater publish`: makes staged runs or a branch live, without Spark."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from slackwater.cli import changed_rows, options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.readable import range_text

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.tables.delta.take_back import TakenBack
    from slackwater.tables.ledger.rows import LedgerRow


@click.command("publish")
@click.argument("pipeline")
@click.argument("run_id", required=False, metavar="[RUN|BRANCH]")
@click.option(
    "--accept", metavar="REASON", help="publish in spite of a failed validation; the reason is recorded"
)
@click.option(
    "--as-of",
    type=options.SEQ,
    metavar="SEQ",
    help="publish BRANCH only if it and main are as they were after this row of the ledger; `diff` prints it "
    "(default for a preview: its last row)",
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="make `published` and `corrections` right again, where a verb says that they are not",
)
@click.option(
    "--results",
    "of_results",
    is_flag=True,
    help="bring all of `published` to the `results`, `hidden` and `having` that the pipeline declares now",
)
@options.on
@options.no_deliver
@options.place
@printing.json_or_text
@options.log_format
def command(
    pipeline: NamedPipeline,
    *,
    run_id: str | None,
    accept: str | None,
    as_of: int | None,
    rebuild: bool,
    of_results: bool,
    no_deliver: bool,
    on: "On | None",
    output: Output,
) -> None:
    """Commit every staged slice up to RUN (default: the newest staged run that continues main), in one commit
    or not at all.

    With BRANCH: make its runs live, and main's later runs behind them if the branch has converged with main.
    It says what that changes. `slackwater diff PIPELINE --branch BRANCH` shows it beforehand, to the row,
    with the command that publishes this and nothing else: where main has moved since, it asks you to look
    again.

    With --rebuild: take tables that others have changed back to what runs have written; remove doubled rows
    from the ledger, `corrections` and `published`, make `published` what its corrections say, and correct it
    where the panes of the live runs say otherwise.

    With --results: compute `results` and `having` anew for all that is published, from the panes of the live
    runs. What differs becomes corrections of cause `results`.

    \b
    Examples: slackwater publish departures trial
              slackwater publish departures RUN_ID --accept 'seen by ops'
    """
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults

    if accept is not None and (run_id is None or not accept.strip()):
        raise click.UsageError(
            "--accept takes the run that is accepted and a reason: slackwater publish PIPELINE RUN --accept "
            "REASON"
        )
    if (rebuild or of_results) and (run_id is not None or rebuild is of_results):
        raise click.UsageError(
            "--rebuild and --results are for everything that is published, one at a time; leave out the run "
            "or branch"
        )
    opened_pipeline = pipeline.open(on)
    rows: list[LedgerRow] = []
    with (
        opened_pipeline.delivering(options.warn, delivers=not no_deliver),
        run_events("publish", opened_pipeline, lambda: VerbResults(publications=rows), options.warn),
    ):
        if rebuild:
            rows += _rebuild(opened_pipeline, output)
        elif of_results:
            rows += _compute_results(opened_pipeline, output)
        elif run_id is not None and opened_pipeline.tables.ledger.branch(run_id) is not None:
            rows += _publish_branch(opened_pipeline, run_id, as_of, accept, output)
        else:
            rows += _publish_runs(opened_pipeline, run_id, as_of, accept, output)


def _publish_branch(
    opened_pipeline: "OpenedPipeline", branch: str, as_of: int | None, accept: str | None, output: Output
) -> "list[LedgerRow]":
    from slackwater.runs.restating.branches import changed_by

    if accept is not None:
        raise click.UsageError(
            "--accept is for staged runs; what failed its validation never becomes part of a branch"
        )
    pipeline, row = opened_pipeline.name, opened_pipeline.branch_publisher().publish_as_it_is(branch, as_of)
    if row is None:
        printing.show_result(
            [], [f"{pipeline}: branch {branch}: nothing to publish; main has all its runs."], output
        )
        return []
    sentence = (
        f"{pipeline}: branch {branch}: published by row {row.seq}, verdict {row.verdict}; "
        f"{changed_by(opened_pipeline.tables, row.seq)}"
    )
    printing.show_result([row.values()], [sentence, *changed_rows.first_lines(opened_pipeline, row)], output)
    return [row]


def _publish_runs(
    opened_pipeline: "OpenedPipeline",
    run_id: str | None,
    as_of: int | None,
    accept: str | None,
    output: Output,
) -> "Sequence[LedgerRow]":
    if as_of is not None:
        raise click.UsageError("--as-of is for branches; `slackwater branches list PIPELINE` lists them")
    rows = opened_pipeline.publisher().publish(run_id, accept)
    pipeline = opened_pipeline.pipeline
    sentences = [
        f"{pipeline.name}: published run {row.seq} of "
        f"{range_text(row.slice_start, row.slice_end, zone=pipeline.zone)}, verdict {row.verdict}."
        for row in rows
    ] or [f"{pipeline.name}: nothing to publish; no staged run continues what is live."]
    printing.show_result([row.values() for row in rows], sentences, output)
    return rows


def _taken_back(item: "TakenBack") -> str:
    versions = ", ".join(map(str, item.commits))
    reasons = [f"versions {versions} of others were passed over"] if item.commits else []
    reasons += [f"it no longer has {', '.join(item.features)}"] if item.features else []
    reasons += [f"{item.lost_files} of its files are gone from storage"] if item.lost_files else []
    return f"{item.uri} was taken back to what runs have written: {'; '.join(reasons)}."


def _rebuild(opened_pipeline: "OpenedPipeline", output: Output) -> "list[LedgerRow]":
    """The row that corrects `published`, if it differed from the panes."""
    repairs = opened_pipeline.rebuild().run()
    sentences = [_taken_back(item) for item in repairs.taken_back]
    sentences += [
        f"{count:,} rows of {table} were there more than once, and are now there once."
        for table, count in repairs.removed_copies.items()
    ]
    if repairs.is_published_anew and "published" not in repairs.removed_copies:
        sentences.append("`published` was not what its corrections make it, and is now.")
    if repairs.row is not None:
        sentences.append(
            f"`published` differed from the panes of the live runs; corrected by row {repairs.row.seq}."
        )
    if not sentences:
        sentences.append("nothing to do; every row is there once and agrees with the panes of the live runs.")
    rows = [] if repairs.row is None else [repairs.row]
    printing.show_result(
        [row.values() for row in rows],
        [f"{opened_pipeline.name}: {sentence}" for sentence in sentences],
        output,
    )
    return rows


def _compute_results(opened_pipeline: "OpenedPipeline", output: Output) -> "list[LedgerRow]":
    from slackwater.runs.restating.branches import changed_by

    row = opened_pipeline.compute_results()
    if row is None:
        sentence = f"{opened_pipeline.name}: nothing to do; all that is published is as declared."
        printing.show_result([], [sentence], output)
        return []
    sentence = f"{opened_pipeline.name}: row {row.seq}: {changed_by(opened_pipeline.tables, row.seq)}"
    printing.show_result([row.values()], [sentence, *changed_rows.first_lines(opened_pipeline, row)], output)
    return [row]
