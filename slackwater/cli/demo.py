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

from slackwater.cli import command_line, printing
from slackwater.cli.options import Time
from slackwater.cli.printing import Output
from slackwater.errors import PermanentError
from slackwater.examples import find_example
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.views import LineageViews
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
    help="where the tables go; a demo that is there is replaced",
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
    other_root = f"{root}/{AT_ONCE}"
    shutil.copytree(f"{root}/sources", f"{other_root}/sources")
    request = CatchUpRequest(PIPELINE, to_ms, from_ms, ranges=RANGES)
    OpenedPipeline(PIPELINE, other_root, None, on="spark").catch_up(request, lambda line: None).run()
    return Inspection.of(PIPELINE, other_root)


def _compare(console: Console, in_slices: Inspection, at_once: Inspection) -> None:
    """Say by hashes whether one Spark job has left what the slices have; raises PermanentError if not."""
    [run] = at_once.runs(0)
    slices = in_slices.runs(0)
    hashes = {
        "panes": (_sum_of([row.output_hash for row in slices]), _sum_of([run.output_hash])),
        "state": (slices[-1].state_hash, run.state_hash),
        "published": (_hash_of_published(in_slices), _hash_of_published(at_once)),
    }
    for name, (slices_hash, job_hash) in hashes.items():
        if slices_hash != job_hash:
            raise PermanentError(
                f"{name} of one Spark job differ from the same of {len(slices)} slices: {job_hash}, not "
                f"{slices_hash}. That is a fault of slackwater."
            )
        console.print(f"  {name:<10} equal: {job_hash}")
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


# The first rows of `published`, and every open window.
_PUBLISHED = """
    SELECT origin, window_start, window_end, flights, mean_dep_delay, max_dep_delay, kind, firing, revision,
        run_seq
    FROM published ORDER BY window_start, origin LIMIT 8
"""
_OPEN_WINDOWS = """
    SELECT origin, window_start, elements, firings, next_firing, cleanup_time, last_arrival
    FROM windows_now ORDER BY window_start, origin
"""
# How many windows late rows have changed, how many they have opened, and how many of these changes corrected
# what an earlier run had published.
_LATE_ROWS = """
    SELECT count_if(kinds = ['late', 'on_time']), count_if(kinds = ['late']),
        (SELECT count(*) FROM corrections WHERE op = 'update' AND cause = 'late')
    FROM (SELECT list_sort(list(DISTINCT kind)) AS kinds FROM panes_live GROUP BY origin, window_start)
"""
_VALIDATIONS = """
    SELECT count(DISTINCT run_id), count(DISTINCT expectation), count_if(passed), count(*)
    FROM validations WHERE result_json IS NOT NULL
"""


def _show_results(console: Console, inspection: Inspection) -> None:
    with LineageViews.over(inspection, inspection.run(None)) as views:
        [count] = _values(views, "SELECT count(*) FROM published")
        _show(views, _PUBLISHED, f"\npublished, the first of {count:,} rows")
        [count] = _values(views, "SELECT count(*) FROM windows_now")
        _show(views, _OPEN_WINDOWS, f"\nparked, waiting for the next run: {count} windows")
        refired_windows, late_windows, corrected_rows = _values(views, _LATE_ROWS)
        runs, expectations, passes, checks = _values(views, _VALIDATIONS)
    console.print(
        f"\nLate rows changed {refired_windows:,} windows after they had fired and created {late_windows:,} "
        f"that nothing on time had opened; {corrected_rows:,} of those changes reopened a window that an "
        "earlier run had published."
    )
    console.print(
        f"Great Expectations validated {runs:,} slices before they were published, by the {expectations} "
        f"expectations of a suite: {passes} of {checks} were met."
    )


def _values(views: LineageViews, sql: str) -> list[int]:
    """The values of the only row of a statement."""
    return [column[0].as_py() for column in views.query(sql).columns]


def _show(views: LineageViews, sql: str, title: str) -> None:
    rows = views.query(sql)
    output = Output(row_limit=None)
    printing.show(rows.to_pylist(), rows.schema.names, output, empty="none", title=title)


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
