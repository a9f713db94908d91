"""`slackwater diff`: which windows two pipelines have published differently. Starts no JVM."""

from typing import Any

import click

from slackwater.jobs.commands import options


@click.command("diff")
@click.argument("left")
@click.argument("right")
@options.warehouse
@options.pipelines
@options.output
def command(left: str, right: str, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Windows that pipelines LEFT and RIGHT have published differently, or that only one of them has.

    For example a pipeline and the same one with its source in order of events: what differs is what delays
    have changed.
    """
    from slackwater.jobs.tables.inspection.comparison import Comparison

    compared = Comparison.of(left, right, warehouse)
    rows = compared.differences()
    table_rows = [
        {
            **row,
            **row["key"],
            **{name: _both(row, name) for name in compared.results},
            "__there": row["there"],
        }
        for row in rows
    ]
    window = ["timestamp"] if any(row["timestamp"] is not None for row in rows) else []
    columns = [*compared.keys, "window_start", "window_end", *window, "__there", *compared.results]
    empty = f"{left} and {right} have published the same"
    options.show(
        rows if output == "json" else table_rows, columns, output, empty=empty, title=f"{left} | {right}"
    )


def _both(row: dict[str, Any], name: str) -> str:
    """One result in both, told once where it is the same."""
    told = [values[name] for values in (row["left"], row["right"]) if isinstance(values, dict)]
    texts = [
        f"{value:g}" if isinstance(value, float) else "–" if value is None else str(value) for value in told
    ]
    return texts[0] if len(texts) == 1 or told[0] == told[1] else " | ".join(texts)
