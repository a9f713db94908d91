"""`python -m slackwater.cli.demo`, started by infra/demo: a month of real flights, replayed day by day into
a published Delta table, and once more as one Spark job, to the same tables.

Uses the same pieces as `slackwater run`; nothing here is part of the product's contract.
"""

import logging
import shutil
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from slackwater.cli import command_line
from slackwater.cli.options import Time, show
from slackwater.errors import PermanentError
from slackwater.examples import find_example
from slackwater.inspection.inspection import Inspection
from slackwater.runs.lineage.catch_up import CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.snapshot import ContentHash
from slackwater.windowing.times import to_datetime

PIPELINE = "departures"
# A warehouse within that of the demo, and into how many ranges of key groups Spark's job divides the month.
AT_ONCE = "as_one_job"
RANGES = 4


@click.command()
@click.option(
    "--to",
    "to_ms",
    type=Time(),
    default="2013-02-01",
    show_default=True,
    help="replay January 2013 up to here",
)
@click.option(
    "--warehouse",
    default="var/demo",
    show_default=True,
    help="where the tables go; what stands there is replaced",
)
def demo(to_ms: int, warehouse: str) -> None:
    """Load January 2013, replay it in daily slices and once more as one Spark job, and show what came out."""
    console = Console(stderr=False, highlight=False, soft_wrap=True)
    root = Warehouse.at(warehouse).root
    for folder in (PIPELINE, "sources", AT_ONCE):
        shutil.rmtree(Path(root) / folder, ignore_errors=True)
    start = Time().convert("2013-01-01", None, None)
    loaded_range = find_example(PIPELINE).load(root, to_datetime(start), to_datetime(to_ms))
    console.print(
        f"Loaded {loaded_range.rows_written:,} flights that arrived from 2013-01-01 to "
        f"{to_datetime(to_ms):%Y-%m-%d} into {loaded_range.path}\n"
    )
    days = -(-(to_ms - start) // 86_400_000)
    columns = (
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("days"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("replay", total=days)

        def print_slice(text: str) -> None:
            bar.console.print(text)
            bar.advance(task)

        OpenedPipeline(PIPELINE, root, None).catch_up(CatchUpRequest(PIPELINE, to_ms), print_slice).run()
    in_slices = Inspection.of(PIPELINE, root)
    _show_results(console, in_slices)
    console.print(
        f"\nOnce more, all {days} days as one Spark job over {RANGES} ranges of key groups; a JVM starts, "
        "which takes some seconds …"
    )
    at_once = _replay_at_once(root, start, to_ms)
    _compare(console, in_slices, at_once)
    _show_what_to_try(console, in_slices, warehouse)


def _replay_at_once(root: str, from_ms: int, to_ms: int) -> Inspection:
    """Replay the same rows as one slice by Spark's tasks, in a warehouse of its own."""
    other_root = f"{root}/{AT_ONCE}"
    shutil.copytree(f"{root}/sources", f"{other_root}/sources")
    request = CatchUpRequest(PIPELINE, to_ms, from_ms, ranges=RANGES)
    OpenedPipeline(PIPELINE, other_root, None, on="spark").catch_up(request, lambda line: None).run()
    return Inspection.of(PIPELINE, other_root)


def _compare(console: Console, in_slices: Inspection, at_once: Inspection) -> None:
    """Say by hashes whether one Spark job has left what the slices have.

    Raises:
        PermanentError: it has not.
    """
    [run] = at_once.runs(0)
    slices = in_slices.runs(0)
    hashes = {
        "panes": (_sum_of([row.output_hash for row in slices]), _sum_of([run.output_hash])),
        "state": (slices[-1].state_hash, run.state_hash),
        "published": (_hash_of_published(in_slices), _hash_of_published(at_once)),
    }
    for name, (of_slices, of_job) in hashes.items():
        if of_slices != of_job:
            raise PermanentError(
                f"{name} of one Spark job differ from those of {len(slices)} slices: {of_job}, not "
                f"{of_slices}. That is a fault of slackwater."
            )
        console.print(f"  {name:<10} equal: {of_job}")
    session_s = run.phase_seconds["session"]
    replay_s = sum(run.phase_seconds.values()) - session_s
    console.print(
        f"One slice of {run.rows_read:,} rows by Spark's tasks left what {len(slices)} slices by "
        f"{slices[-1].place} did; Spark took {session_s:.1f} s to start and {replay_s:.1f} s for the slice."
    )


def _sum_of(hashes: list[str | None]) -> str:
    """The content hash of all panes of some runs."""
    total = ContentHash()
    for text in hashes:
        total.merge(ContentHash.parse(text or ""))
    return str(total)


def _hash_of_published(tables: Inspection) -> str:
    """The content hash of `published`, but for the columns that depend on how the month was cut."""
    content = ContentHash()
    content.add("published", tables.tables["published"].read(), without=("revision", "run_seq"))
    return str(content)


def _show_results(console: Console, tables: Inspection) -> None:
    published_rows = (
        tables.tables["published"].read().sort_by([("window_start", "ascending"), ("origin", "ascending")])
    )
    console.print()
    head = published_rows.slice(0, 8).to_pylist()
    names = [
        "origin",
        "window_start",
        "window_end",
        "flights",
        "mean_dep_delay",
        "max_dep_delay",
        "kind",
        "firing",
        "revision",
        "run_seq",
    ]
    show(
        head,
        names,
        "table",
        empty="nothing was published",
        title=f"published, the first of {published_rows.num_rows:,} rows",
    )
    open_windows = (
        tables.snapshot("window_state", None)
        .sort_by([("window_start", "ascending"), ("origin", "ascending")])
        .to_pylist()
    )
    names = ["origin", "window_start", "elements", "firings", "next_firing", "cleanup_time", "last_arrival"]
    console.print()
    show(
        open_windows,
        names,
        "table",
        empty="no window is open",
        title=f"parked, waiting for the next run: {len(open_windows)} windows",
    )
    kinds: dict[tuple[object, object], set[str]] = {}
    for pane in tables.live("panes").rows.select(["origin", "window_start", "kind"]).to_pylist():
        kinds.setdefault((pane["origin"], pane["window_start"]), set()).add(pane["kind"])
    changed_windows = sum(kinds_of_window == {"on_time", "late"} for kinds_of_window in kinds.values())
    created_windows = sum(kinds_of_window == {"late"} for kinds_of_window in kinds.values())
    reopened_windows = (
        tables.tables["corrections"]
        .read(["op", "cause"])
        .to_pylist()
        .count({"op": "update", "cause": "late"})
    )
    console.print(
        f"\nLate rows changed {changed_windows:,} windows after they had fired and created "
        f"{created_windows:,} that nothing on time had opened; {reopened_windows:,} of those changes "
        "reopened a window that an earlier run had published."
    )
    results = (
        tables.tables["validations"].read(["run_id", "expectation", "passed", "result_json"]).to_pylist()
    )
    suite_rows = [row for row in results if row["result_json"] is not None]
    console.print(
        f"Great Expectations validated {len({row['run_id'] for row in suite_rows}):,} slices before they "
        f"were published, by the {len({row['expectation'] for row in suite_rows})} expectations of a suite: "
        f"{sum(row['passed'] for row in suite_rows)} of {len(suite_rows)} were met."
    )


def _show_what_to_try(console: Console, tables: Inspection, warehouse: str) -> None:
    last = tables.run(None).seq
    console.print("\nTry next:")
    for command in (
        "runs departures",
        f"runs departures {last}",
        "state windows departures",
        "state timers departures",
        "state watermarks departures",
        "late list departures",
        "runs departures --data-docs var/report",
        "doctor",
    ):
        console.print(f"  .venv/bin/slackwater {command} --warehouse {warehouse}")


def main() -> None:
    """Run the demo with the command line's exit codes."""
    logging.getLogger("slackwater").setLevel(logging.WARNING)
    command_line.finish(lambda: demo.main(sys.argv[1:], prog_name="infra/demo", standalone_mode=False))


if __name__ == "__main__":
    main()
