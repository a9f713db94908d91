"""`slackwater conformance`: plays traces recorded from the real Flink against our core."""

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slackwater.cli import printing
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.conformance import BackEnd, PlayReport


@click.command("conformance")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--engine",
    type=click.Choice(["operator", "columnar"]),
    default="operator",
    help="what plays: the windowing core, step by step (default), or the columnar engine, each case of its "
    "windows as a slice of rows",
)
@click.option(
    "--back-end",
    type=click.Choice(["case", "heap", "swapped"]),
    help="where state and timers live: as each case says (default; needs rocksdict), in memory, or the other "
    "way round",
)
@click.option(
    "--snapshots",
    type=click.Choice(["memory", "rows", "files"]),
    default="memory",
    help="what a snapshot is between its operators: Python objects (default), rows of our tables, or files "
    "of them",
)
@printing.json_or_text
def command(
    files: tuple[Path, ...], *, engine: str, back_end: "BackEnd | None", snapshots: str, output: Output
) -> None:
    """Play .jsonl and .jsonl.gz traces; the last line is `N passed, N failed, N unplayable`. Exits 1 when a
    case fails.

    The core plays every case, and one that it can't play has failed. The columnar engine plays what it is
    exact for, and says why not the others; --back-end and --snapshots are not for it.

    \b
    Example: slackwater conformance tests/conformance/traces/*.jsonl
    """
    if engine == "columnar" and (back_end is not None or snapshots != "memory"):
        raise click.UsageError(
            "--back-end and --snapshots are for the windowing core; leave them out with --engine columnar"
        )
    with redirect_stdout(sys.stderr) if output.is_json else nullcontext():
        report = _play(files, engine, back_end, snapshots)
    if output.is_json:
        printing.show_object(asdict(report))
    # The columnar engine need not play every case.
    if report.failed_cases if engine == "columnar" else report.failure_count:
        raise click.exceptions.Exit(1)


def _play(files: tuple[Path, ...], engine: str, back_end: "BackEnd | None", snapshots: str) -> "PlayReport":
    if engine == "columnar":
        from slackwater.cli.recorded_cases import play as play_rows

        return play_rows(files, engine)
    from slackwater.conformance import play
    from slackwater.conformance.carrying import CARRIERS

    return play(files, back_end=back_end, carry=CARRIERS[snapshots])
