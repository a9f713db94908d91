"""`slackwater diff`: the windows that two pipelines have published differently, or that a branch would change
once it is published. Starts no JVM.
"""

from typing import Any

import click

from slackwater.cli import changed_rows, options, printing
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column


@click.command("diff")
@click.argument("left", metavar="PIPELINE")
@click.argument("right", required=False, metavar="[OTHER]")
@click.option(
    "--branch", metavar="NAME", help="what publishing this branch of PIPELINE would change, before it is done"
)
@options.warehouse
@options.pipelines
@printing.output
def command(
    left: str,
    right: str | None,
    *,
    branch: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """Windows that two pipelines have published differently, or that only one of them has; or with --branch
    those that `slackwater publish PIPELINE NAME` would insert, update or withdraw.

    Two pipelines are for example one and the same with its source in order of events: what differs is what
    delays have changed.

    \b
    Examples: slackwater diff departures by_event
              slackwater diff departures --branch fix
    """
    if (right is None) == (branch is None):
        raise click.UsageError(
            "name what PIPELINE is compared with: another pipeline, or one of its branches with --branch "
            "NAME (`slackwater branches list PIPELINE` lists them)"
        )
    if branch is not None:
        _show_branch(left, branch, warehouse, pipelines, output)
    elif right is not None:
        _show_pipelines(left, right, warehouse, output)


def _show_branch(
    pipeline: str, branch: str, warehouse: str | None, pipelines: str | None, output: Output
) -> None:
    from slackwater.inspection.changes.change_tables import changes_table
    from slackwater.inspection.changes.published_changes import PublishedChanges
    from slackwater.inspection.inspection import Inspection
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.runs.restating.branches import counts_text

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    publisher = opened_pipeline.branch_publisher()
    Inspection(pipeline, opened_pipeline.tables).say_if_unfinished()
    publication = publisher.publication_of(branch)
    if publication is None:
        printing.show([], [], output, empty=f"{pipeline}: main has all runs of the branch {branch}.")
        return
    changes = PublishedChanges.of_branch(publisher, publication, output.row_limit)
    empty = f"{pipeline}: publishing the branch {branch} would change nothing."
    table = changes_table(changes, "", empty, heading="main → branch", has_cause=False)
    changed_rows.show(table, changes, output)
    if changes.rows and not output.is_json:
        printing.note(f"Publishing {branch}: {counts_text(changes.counts, changes.days)}.")
    if publication.obstacle is None and not output.is_json:
        arguments = " ".join(map(str, publication.arguments))
        printing.note(f"`slackwater publish {pipeline} {arguments}` changes these rows and no others.")
    if publication.obstacle is not None:
        options.warn(
            "These are the changes by the runs that the branch has; it can't be published yet.\n"
            f"{publication.obstacle}"
        )


def _show_pipelines(left: str, right: str, warehouse: str | None, output: Output) -> None:
    from slackwater.inspection.changes.comparison import PublishedComparison

    comparison = PublishedComparison.of(left, right, warehouse)
    rows = comparison.differences()
    table_rows = [
        {
            **row,
            **row["key"],
            **{name: _left_and_right(row, name) for name in comparison.results},
            "__there": row["there"],
        }
        for row in rows
    ]
    windows = ["timestamp"] if any(row["timestamp"] is not None for row in rows) else []
    columns: list[Column | str] = [
        *printing.keys(comparison.keys),
        *comparison.windows[:1],
        *windows,
        Column("__there", heading="there"),
        *comparison.results,
        *comparison.windows[1:],
    ]
    empty = f"{left} and {right} have published the same"
    printing.show(
        rows if output.is_json else table_rows, columns, output, empty=empty, title=f"{left} | {right}"
    )


def _left_and_right(row: dict[str, Any], name: str) -> str:
    """A result of a window on both sides, `left | right`; once where both are equal or one lacks the
    window.
    """
    values_of_sides = [values[name] for values in (row["left"], row["right"]) if isinstance(values, dict)]
    texts = [
        f"{value:g}" if isinstance(value, float) else "–" if value is None else str(value)
        for value in values_of_sides
    ]
    return texts[0] if len(texts) == 1 or values_of_sides[0] == values_of_sides[1] else " | ".join(texts)
