"""`slackwater state fork`, `restore` and `close`: the verbs that change a lineage without a slice of
the source. Only `close` runs windows, on Spark.
"""

from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.readable import count_text, time_text

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.tables.ledger.rows import LedgerRow


@click.command("fork")
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


@click.command("restore")
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


@click.command("close")
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
