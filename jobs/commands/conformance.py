"""`slackwater conformance`: plays traces recorded from the real Flink against our core."""

from pathlib import Path

import click


@click.command("conformance")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--engine", type=click.Choice(["operator"]), default="operator", help="which engine plays")
def command(files: tuple[Path, ...], engine: str) -> None:
    """Play .jsonl and .jsonl.gz traces; the last line is `N passed, N failed, N unplayable`. Exits 1 when a case fails."""
    from windowing.conformance import play

    failed = play(files)
    if failed:
        raise click.exceptions.Exit(1)
