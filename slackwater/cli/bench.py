"""`slackwater bench`: replays generated workloads with the project, Spark's own windows, DuckDB and Flink
(those that this machine can run), checks that they agree, and compares their speed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from slackwater.cli import printing
from slackwater.cli.printing import Output

COLUMNS = (
    *(
        "workload",
        "contender",
        "rows",
        "wall_s",
        "committed_s",
        "cpu_s",
        "peak_mb",
        "rows_per_s",
        "rows_per_cpu_s",
    ),
    *(
        "wall_ratio",
        "duckdb_ratio",
        "floor_ratio",
        "committed_ratio",
        "part_ratio",
        "per_cpu_ratio",
        "committed_per_cpu_ratio",
    ),
)


@click.command("bench")
@click.option(
    "--only",
    metavar="NAMES",
    default="a,b,c,d,e,f,g",
    show_default=True,
    help="workloads a to j, growth, nexmark, own and billion, by commas",
)
@click.option("--contenders", metavar="NAMES", help="by commas; all that this machine can run, unless named")
@click.option(
    "--rows", type=click.IntRange(1_000), default=20_000_000, show_default=True, help="rows of each workload"
)
@click.option(
    "--repetitions", type=click.IntRange(1), default=3, show_default=True, help="runs of each contender"
)
@click.option("--engine", type=click.Choice(["columnar", "operator"]), help="override the planner's choice")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default="var/bench",
    show_default=True,
    help="folder for it all",
)
@click.option("--keep", is_flag=True, help="leave sources and outputs in the work folder")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="draw the results into this PNG"
)
@click.option("--dry-run", is_flag=True, help="say what would be run, and its cost")
@printing.output
def command(
    *,
    only: str,
    contenders: str | None,
    rows: int,
    repetitions: int,
    engine: str | None,
    work: Path,
    keep: bool,
    plot: Path | None,
    dry_run: bool,
    output: Output,
) -> None:
    """Generate workloads, replay each some times with every contender in turn, check that they agree, and
    show the medians.

    After an interruption, the same command does the runs that are missing. Takes long: it says first how much
    disk and time it wants.

    \b
    Example: slackwater bench --only a --rows 1000000
    """
    from slackwater.bench.benchmark import Benchmark

    benchmark = Benchmark(
        only=_names(only),
        rows=rows,
        engine=engine,
        work=work.absolute(),
        keeps=keep,
        contenders=None if contenders is None else _names(contenders),
        lines=lambda line: printing.say(line, err=True),
        repetitions=repetitions,
    )
    disk_bytes, seconds = benchmark.cost()
    runs = sum(benchmark.missing().values())
    printing.say(
        f"{runs} runs to do below {work}: about {disk_bytes / 1e9:.1f} GB of disk and {seconds / 60:.0f} "
        "minutes",
        err=True,
    )
    if dry_run:
        return
    benchmark.check_disk()
    summary = benchmark.run()
    if plot is not None:
        from slackwater.bench.plots import plot as draw

        draw(summary, plot)
    printing.show(summary, columns_with_values(summary), output, empty="nothing was measured")


def columns_with_values(summary: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of COLUMNS that some row has: which there are depends on the contenders."""
    return [name for name in COLUMNS if any(row[name] is not None for row in summary)]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
