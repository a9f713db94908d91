"""`slackwater state`: what stands still between two runs, and what of it is live. Only `close` starts a
JVM.
"""

from typing import Any

import click

from slackwater.jobs.commands import moves, options


@click.group("state")
def command() -> None:
    """Windows, timers, keyed state and watermarks as of a run (default: main's head); fork, restore and close
    the lineage; adopt a source that was made again."""


def _common(function: Any) -> Any:
    for option in (
        options.output,
        options.pipelines,
        options.warehouse,
        click.option("--run", "seq", type=options.SEQ, metavar="SEQ", help="as of this run"),
        click.argument("pipeline"),
    ):
        function = option(function)
    return function


@command.command("windows")
@_common
@options.key
def windows(
    pipeline: str, seq: int | None, key: str | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """Open windows: how much they hold, how often they fired, when they fire next and when they are cleaned
    up.
    """
    columns = [
        "window_start",
        "window_end",
        "elements",
        "firings",
        "next_firing",
        "cleanup_time",
        "last_arrival",
    ]
    _snapshot("window_state", pipeline, seq, key, warehouse, output, columns, "no window is open")


@command.command("timers")
@_common
@options.key
def timers(
    pipeline: str, seq: int | None, key: str | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """Pending timers, the next ones first."""
    columns = ["time", "domain", "purpose", "window_start", "window_end", "service"]
    _snapshot("timers", pipeline, seq, key, warehouse, output, columns, "no timer is pending")


@command.command("keyed")
@_common
@options.key
def keyed(
    pipeline: str, seq: int | None, key: str | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """State that user functions keep for each key, beside its windows."""
    columns = ["state_name", "namespace_start", "namespace_end", "map_key", "value"]
    _snapshot("keyed_state", pipeline, seq, key, warehouse, output, columns, "no key has state of its own")


@command.command("diff")
@click.argument("pipeline")
@click.argument("a")
@click.argument("b")
@options.warehouse
@options.pipelines
@options.output
def diff(pipeline: str, a: str, b: str, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Windows, timers, keyed state and watermarks that differ between A and B, and how. Each is a SEQ, a
    branch, or main.
    """
    from slackwater.jobs.tables.inspection.inspection import Inspection

    inspection = Inspection.of(pipeline, warehouse)
    rows = inspection.differences(a, b)
    if output == "table":
        rows = [{**row, "name": _listed(row["name"]), "differs": _differs(row, a, b)} for row in rows]
    columns = ["what", *inspection.key_columns(), "window_start", "window_end", "name", "differs"]
    options.show(rows, columns, output, empty=f"{pipeline}: the states of {a} and {b} are the same")


def _listed(named: dict[str, Any] | None) -> str | None:
    return None if named is None else " ".join(options.cell(value) for value in named.values())


def _differs(row: dict[str, Any], a: str, b: str) -> str:
    if row["there"] != "both":
        return f"only in {a if row['there'] == 'left' else b}"
    return ", ".join(
        f"{name} {options.cell(row['left'][name])} → {options.cell(row['right'][name])}"
        for name in row["left"]
    )


@command.command("watermarks")
@_common
def watermarks(
    pipeline: str, seq: int | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """The pipeline's watermark and clock, and how far each source partition has come. The first row is the
    pipeline's.
    """
    from slackwater.jobs.tables.inspection.inspection import Inspection

    rows = Inspection.of(pipeline, warehouse).snapshot("source_progress", seq).to_pylist()
    rows.sort(key=lambda row: (row["source_partition"] is not None, row["source_partition"] or ""))
    columns = [
        "source_partition",
        "max_event_time",
        "last_arrival",
        "idle",
        "watermark",
        "clock",
        "unfinished_tick_start",
        "collected",
    ]
    options.show(rows, columns, output, empty=f"{pipeline}: there is no progress yet")


def _snapshot(
    table: str,
    pipeline: str,
    seq: int | None,
    key: str | None,
    warehouse: str | None,
    output: str,
    columns: list[str],
    empty: str,
) -> None:
    from slackwater.jobs.tables.inspection.inspection import Inspection
    from slackwater.jobs.tables.named_keys import is_key

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    keys = inspection.key_columns()
    found = inspection.snapshot(table, seq)
    rows = (found if key is None else found.filter(is_key(found, keys, key))).to_pylist()
    if table == "keyed_state":
        rows = [{**row, "value": _value(row)} for row in rows]
    first = {"timers": "time", "keyed_state": "namespace_start"}.get(table, "window_start")
    rows.sort(key=lambda row: (row[first] is not None, row[first], [str(row[name]) for name in keys]))
    options.show(rows, [*keys, *columns], output, empty=f"{pipeline}: {empty}")


def _value(row: dict[str, Any]) -> Any:
    """The value of a piece of keyed state: that of its typed column, if it has one, else as JSON."""
    typed = [value for name, value in row.items() if name.endswith("__value") and value is not None]
    return typed[0] if typed else row["value_json"]


for verb in (moves.fork, moves.restore, moves.adopt, moves.close):
    command.add_command(verb)
