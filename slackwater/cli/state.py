"""`slackwater state`: shows the state that is parked between two runs (open windows, timers, keyed state,
watermarks), compares it, and forks, restores and closes the lineage. Only `close` runs windows: it starts a
JVM where the state is large, or functions of the user's fire.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import value_text
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, time_text

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.inspection.rows.row_pages import TopRows
    from slackwater.tables.ledger.rows import LedgerRow


@click.group("state")
def command() -> None:
    """Windows, timers, keyed state and watermarks as of a run (default: main's head); fork, restore and close
    the lineage."""


# Of verbs that show a snapshot.
_as_of_a_run = options.together(
    click.argument("pipeline"), options.run("as of this run"), options.place, printing.output
)


@command.command("windows")
@_as_of_a_run
@options.key
def windows(pipeline: NamedPipeline, seq: int | None, key: str | None, output: Output) -> None:
    """Open windows: how much they hold, how often they fired, when they fire next and when they are cleaned
    up.

    \b
    Example: slackwater state windows departures --key EWR
    """
    rows, keys, window = _snapshot_rows(pipeline, "windows_now", seq, key, output)
    columns: list[Column | str] = [
        *printing.keys(keys),
        *window,
        "elements",
        "firings",
        Column("next_firing", is_optional=True),
        Column("cleanup_time", heading="cleanup"),
        "last_arrival",
        *printing.wide("first_arrival", "last_fired_at", "key_group"),
    ]
    printing.show(rows.rows, columns, output, empty=f"{pipeline}: no window is open", total=rows.total)


@command.command("timers")
@_as_of_a_run
@options.key
def timers(pipeline: NamedPipeline, seq: int | None, key: str | None, output: Output) -> None:
    """Pending timers, the next ones first.

    \b
    Example: slackwater state timers departures --key EWR
    """
    rows, keys, window = _snapshot_rows(pipeline, "timers_now", seq, key, output)
    columns: list[Column | str] = [
        "time",
        *printing.keys(keys),
        "purpose",
        *window,
        "domain",
        *printing.wide("service", "key_group"),
    ]
    printing.show(rows.rows, columns, output, empty=f"{pipeline}: no timer is pending", total=rows.total)


@command.command("keyed")
@_as_of_a_run
@options.key
def keyed_state(pipeline: NamedPipeline, seq: int | None, key: str | None, output: Output) -> None:
    """State that user functions keep for each key, beside its windows, and rows that distinct_by
    remembers.

    \b
    Example: slackwater state keyed turnarounds
    """
    rows, keys, window = _snapshot_rows(pipeline, "keyed_now", seq, key, output)
    columns: list[Column | str] = [
        *printing.keys(keys),
        Column("state_name", heading="state"),
        Column("map_key", is_optional=True),
        Column("value", "text"),
        Column("namespace_start", heading="window start", is_optional=True),
        Column("namespace_end", heading="window end", is_optional=True),
        *(Column(f"namespace_{name}", heading=name, is_optional=True) for name in window[2:]),
        *printing.wide("key_group"),
    ]
    values = [{**row, "value": _value(row)} for row in rows.rows]
    printing.show(values, columns, output, empty=f"{pipeline}: no key has state of its own", total=rows.total)


@command.command("diff")
@click.argument("pipeline")
@click.argument("a")
@click.argument("b")
@options.key
@options.place
@printing.output
def diff(pipeline: NamedPipeline, a: str, b: str, key: str | None, output: Output) -> None:
    """Windows, timers, keyed state and watermarks that differ between A and B, and how. Each is a SEQ, a
    branch, or main. Of large states --key looks at one key.

    \b
    Example: slackwater state diff departures 3 main --key EWR
    """
    inspection = pipeline.inspection()
    rows, total = inspection.differences(a, b, output.row_limit, key)
    if not output.is_json:
        rows = [{**row, "name": _text_of_name(row["name"]), "differs": _differs(row, a, b)} for row in rows]
    start, *others = inspection.window_columns()
    columns: list[Column | str] = [
        "what",
        *printing.keys(inspection.key_columns()),
        Column(start, is_optional=True),
        Column("differs", "text"),
        Column("name", "text", is_optional=True),
        *(Column(name, is_optional=True) for name in others),
    ]
    empty = f"{pipeline}: the states of {a} and {b} are the same"
    printing.show(rows, columns, output, empty=empty, total=total)


def _text_of_name(name: dict[str, Any] | None) -> str | None:
    return None if name is None else " ".join(value_text(value) for value in name.values())


def _differs(row: dict[str, Any], a: str, b: str) -> str:
    if row["there"] != "both":
        return f"only in {a if row['there'] == 'left' else b}"
    return ", ".join(
        f"{name} {value_text(row['left'][name])} → {value_text(row['right'][name])}" for name in row["left"]
    )


@command.command("watermarks")
@_as_of_a_run
def watermarks(pipeline: NamedPipeline, seq: int | None, output: Output) -> None:
    """The pipeline's watermark and clock, and how far each source partition has come. As JSON the first row
    is the pipeline's.

    \b
    Example: slackwater state watermarks departures
    """
    rows = pipeline.inspection().snapshot("source_progress", seq).to_pylist()
    rows.sort(key=lambda row: (row["source_partition"] is not None, row["source_partition"] or ""))
    if output.is_json or not rows:
        printing.show(rows, [], output, empty=f"{pipeline}: there is no progress yet")
        return
    progress, *partitions = rows
    names = ("watermark", "clock", "unfinished_tick_start", "collected", "carried_watermark")
    printing.show_facts(
        [
            (name.replace("_", " "), progress[name])
            for name in names
            if progress[name] is not None or name in names[:2]
        ],
        output,
    )
    partition_rows = [
        {**row, "behind": _duration_between(row["max_event_time"], progress["clock"])} for row in partitions
    ]
    columns: list[Column | str] = [
        Column("source_partition", "key"),
        Column("max_event_time", heading="newest event"),
        Column("behind", "duration", heading="behind clock"),
        "last_arrival",
        "idle",
    ]
    printing.show(partition_rows, columns, output, empty="no row has come yet", title="\nsource partitions")


def _duration_between(start: datetime | None, end: datetime | None) -> timedelta | None:
    return None if start is None or end is None else end - start


# View → how its rows are in order: a time, the columns of the key (and of the window, where it has no other),
# and the columns that tell equal ones apart.
_SORTED_BY = {"windows_now": "window_start", "timers_now": "time", "keyed_now": "namespace_start"}
_TIES = {"windows_now": (), "timers_now": ("purpose",), "keyed_now": ("state_name", "map_key")}


def _snapshot_rows(
    pipeline: NamedPipeline, view: str, seq: int | None, key: str | None, output: Output
) -> "tuple[TopRows, list[str], list[str]]":
    """The first rows of a view of a snapshot as of run `seq` (None: main's head), of one key or of all, in
    order of time; and the names of the columns of keys and of windows.
    """
    from slackwater.inspection.rows.row_pages import top_rows
    from slackwater.inspection.sql.views import LineageViews

    inspection = pipeline.inspection()
    inspection.say_if_unfinished()
    keys, windows = inspection.key_columns(), inspection.window_columns()
    order = [_SORTED_BY[view], *keys, *(() if view == "keyed_now" else windows), *_TIES[view]]
    with LineageViews.over(inspection, inspection.run(seq), key) as views:
        return top_rows(views, view, order, limit=output.row_limit), keys, windows


def _value(row: dict[str, Any]) -> Any:
    """The value of a piece of keyed state: of its typed column, if it has one, else as JSON."""
    typed_values = [value for name, value in row.items() if name.endswith("__value") and value is not None]
    return typed_values[0] if typed_values else row["value_json"]


@command.command("fork")
@click.argument("pipeline")
@click.argument("branch")
@options.run("fork behind this run (default: main's head)")
@options.place
@printing.json_or_text
@options.log_format
def fork(pipeline: NamedPipeline, branch: str, *, seq: int | None, output: Output) -> None:
    """Make BRANCH, which begins with the runs that are live up to SEQ and the state that they left. Main
    stays as it is.

    \b
    Example: slackwater state fork departures trial --run 3
    """
    row = pipeline.open().moves().fork(branch, seq)
    fork_point = "at the start of the lineage" if not row.live else f"behind run {row.live[-1].last_seq}"
    requested_run_note = (
        ""
        if seq is None or not row.live or row.live[-1].last_seq == seq
        else f", the nearest whose snapshot is kept before {seq}"
    )
    sentence = (
        f"{pipeline}: the branch {branch} begins {fork_point}{requested_run_note}, at "
        f"{time_text(row.slice_end)}."
    )
    printing.show_result([row.values()], [sentence], output)


@command.command("restore")
@click.argument("pipeline")
@click.argument("seq", type=options.SEQ)
@options.place
@printing.json_or_text
@options.log_format
def restore(pipeline: NamedPipeline, seq: int, output: Output) -> None:
    """Make main again what it was after SEQ: its runs, its state, and what it had published. Later runs stay
    in the ledger, and can be restored in turn.

    \b
    Example: slackwater state restore departures 3
    """
    opened_pipeline = pipeline.open()
    with opened_pipeline.delivering(options.warn):
        row = opened_pipeline.moves().restore(seq)
    sentence = (
        f"{pipeline}: nothing to do; what was live after {seq} is live now."
        if row is None
        else f"{pipeline}: main is what it was after {seq}, by row {row.seq}; it ends at "
        f"{time_text(row.slice_end)}."
    )
    printing.show_result([] if row is None else [row.values()], [sentence], output)


@command.command("close")
@click.argument("pipeline")
@options.on
@options.place
@printing.json_or_text
@options.log_format
def close(pipeline: NamedPipeline, on: "On | None", output: Output) -> None:
    """End the lineage with the final watermark: every open window fires that waits for a watermark. Timers of
    processing time do not fire; they stay pending. Nothing can be run afterwards until `state restore` takes
    the close back. As in Flink, a function that registers a timer of event time whenever one fires is never
    done.

    \b
    Example: slackwater state close departures
    """
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults

    opened_pipeline = pipeline.open(on)
    rows: list[LedgerRow] = []
    with (
        opened_pipeline.delivering(options.warn),
        run_events("close", opened_pipeline, lambda: VerbResults(publications=rows), options.warn),
    ):
        row = opened_pipeline.close(output.say_meanwhile)
        rows += [] if row is None else [row]
    if row is None:
        printing.show_result([], [f"{pipeline}: nothing to do; the lineage is closed."], output)
        return
    sentence = (
        f"{pipeline}: closed at {time_text(row.slice_end)} by row {row.seq}; "
        f"{count_text(row.windows_open, 'window stays', 'windows stay')} open, "
        f"{count_text(row.timers_pending, 'timer stays', 'timers stay')} pending. `slackwater state restore "
        f"{pipeline} {row.parent_seq}` reopens it."
    )
    printing.show_result([row.values()], [sentence], output)
