"""`slackwater diff`: the windows that two pipelines have published differently. Starts no JVM."""

from typing import Any

import click

from slackwater.jobs.commands import options, printing
from slackwater.jobs.commands.printing import Output
from slackwater.jobs.commands.table_layout import Column


@click.command("diff")
@click.argument("left")
@click.argument("right")
@options.warehouse
@options.pipelines
@printing.output
def command(left: str, right: str, warehouse: str | None, pipelines: str | None, output: Output) -> None:
    """Windows that pipelines LEFT and RIGHT have published differently, or that only one of them has.

    For example a pipeline and the same one with its source in order of events: what differs is what delays
    have changed.
    """
    from slackwater.jobs.inspection.comparison import PublishedComparison

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
    window = ["timestamp"] if any(row["timestamp"] is not None for row in rows) else []
    columns: list[Column | str] = [
        *printing.keys(comparison.keys),
        *comparison.windows[:1],
        *window,
        Column("__there", heading="there"),
        *comparison.results,
        *comparison.windows[1:],
    ]
    empty = f"{left} and {right} have published the same"
    printing.show(
        rows if output.is_json else table_rows, columns, output, empty=empty, title=f"{left} | {right}"
    )


def _left_and_right(row: dict[str, Any], name: str) -> str:
    """The result `name` of a window on both sides, `left | right`; only once where both are equal or one side
    lacks the window."""
    values_of_sides = [values[name] for values in (row["left"], row["right"]) if isinstance(values, dict)]
    texts = [
        f"{value:g}" if isinstance(value, float) else "–" if value is None else str(value)
        for value in values_of_sides
    ]
    return texts[0] if len(texts) == 1 or values_of_sides[0] == values_of_sides[1] else " | ".join(texts)
