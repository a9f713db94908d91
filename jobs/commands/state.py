"""`slackwater state`: shows the state that is parked between two runs (open windows, timers, keyed state,
watermarks), and compares, forks, restores and closes it. Only `close` starts a JVM.
"""

from typing import Any

import click

from slackwater.jobs.commands import moves, options


@click.group("state")
def command() -> None:
    """Windows, timers, keyed state and watermarks as of a run (default: main's head); fork, restore and close
    the lineage; adopt a source that was made again."""


def _as_of_a_run(function: Any) -> Any:
    """PIPELINE, --run and the shared options: of verbs that show a snapshot."""
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
@_as_of_a_run
@options.key
def windows(
    pipeline: str,
    *,
    seq: int | None,
    key: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
) -> None:
    """Open windows: how much they hold, how often they fired, when they fire next and when they are cleaned
    up.
    """
    rows, keys, window = _snapshot_rows("window_state", pipeline, seq, key, warehouse)
    columns = [
        *window,
        "elements",
        "firings",
        "next_firing",
        "cleanup_time",
        "last_arrival",
    ]
    options.show(rows, [*keys, *columns], output, empty=f"{pipeline}: no window is open")


@command.command("timers")
@_as_of_a_run
@options.key
def timers(
    pipeline: str,
    *,
    seq: int | None,
    key: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
) -> None:
    """Pending timers, the next ones first."""
    rows, keys, window = _snapshot_rows("timers", pipeline, seq, key, warehouse)
    columns = ["time", "domain", "purpose", *window, "service"]
    options.show(rows, [*keys, *columns], output, empty=f"{pipeline}: no timer is pending")


@command.command("keyed")
@_as_of_a_run
@options.key
def keyed_state(
    pipeline: str,
    *,
    seq: int | None,
    key: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
) -> None:
    """State that user functions keep for each key, beside its windows, and rows that distinct_by
    remembers.
    """
    rows, keys, window = _snapshot_rows("keyed_state", pipeline, seq, key, warehouse)
    namespace_columns = [f"namespace_{name}" for name in window[2:]]
    columns = ["state_name", "namespace_start", "namespace_end", *namespace_columns, "map_key", "value"]
    rows = [{**row, "value": _value(row)} for row in rows]
    options.show(rows, [*keys, *columns], output, empty=f"{pipeline}: no key has state of its own")


@command.command("diff")
@click.argument("pipeline")
@click.argument("a")
@click.argument("b")
@options.warehouse
@options.pipelines
@options.output
def diff(pipeline: str, a: str, b: str, *, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Windows, timers, keyed state and watermarks that differ between A and B, and how. Each is a SEQ, a
    branch, or main.
    """
    from slackwater.jobs.inspection.inspection import Inspection

    inspection = Inspection.of(pipeline, warehouse)
    rows = inspection.differences(a, b)
    if output == "table":
        rows = [{**row, "name": _text_of_name(row["name"]), "differs": _differs(row, a, b)} for row in rows]
    columns = ["what", *inspection.key_columns(), *inspection.window_columns(), "name", "differs"]
    options.show(rows, columns, output, empty=f"{pipeline}: the states of {a} and {b} are the same")


def _text_of_name(name: dict[str, Any] | None) -> str | None:
    """What tells rows of one key and window apart, such as a timer's service and time, as one text."""
    return None if name is None else " ".join(options.cell(value) for value in name.values())


def _differs(row: dict[str, Any], a: str, b: str) -> str:
    """How the state in `a` and in `b` differ, column by column."""
    if row["there"] != "both":
        return f"only in {a if row['there'] == 'left' else b}"
    return ", ".join(
        f"{name} {options.cell(row['left'][name])} → {options.cell(row['right'][name])}"
        for name in row["left"]
    )


@command.command("watermarks")
@_as_of_a_run
def watermarks(
    pipeline: str, seq: int | None, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """The pipeline's watermark and clock, and how far each source partition has come. The first row is the
    pipeline's.
    """
    from slackwater.jobs.inspection.inspection import Inspection

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
        "carried_watermark",
    ]
    options.show(rows, columns, output, empty=f"{pipeline}: there is no progress yet")


_SORTED_BY = {"window_state": "window_start", "timers": "time", "keyed_state": "namespace_start"}


def _snapshot_rows(
    table: str, pipeline: str, seq: int | None, key: str | None, warehouse: str | None
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """The rows of a snapshot table as of run `seq` (None: main's head), of one key or of all, in order of
    time; and the names of the columns of keys and of windows.
    """
    from slackwater.jobs.inspection.inspection import Inspection
    from slackwater.jobs.tables.named_keys import is_key

    inspection = Inspection.of(pipeline, warehouse)
    inspection.say_if_unfinished()
    keys = inspection.key_columns()
    snapshot = inspection.snapshot(table, seq)
    rows = (snapshot if key is None else snapshot.filter(is_key(snapshot, keys, key))).to_pylist()
    first, windows = _SORTED_BY[table], inspection.window_columns()
    owner = [*keys, *(windows if table == "window_state" else ())]
    rows.sort(key=lambda row: (row[first] is not None, row[first], [str(row[name]) for name in owner]))
    return rows, keys, windows


def _value(row: dict[str, Any]) -> Any:
    """The value of a piece of keyed state: that of its typed column, if it has one, else as JSON."""
    typed_values = [value for name, value in row.items() if name.endswith("__value") and value is not None]
    return typed_values[0] if typed_values else row["value_json"]


for verb in (moves.fork, moves.restore, moves.adopt, moves.close):
    command.add_command(verb)
