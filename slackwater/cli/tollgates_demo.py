"""`python -m slackwater.cli.tollgates_demo`, started by infra/tollgates: half an hour of a Kafka topic with
vehicles at five tollgates, counted with state in RocksDB, and delivered to a Redis server that it starts.

Started again after it was killed, it goes on where it was. Uses the same pieces as `slackwater run`; nothing
here is part of the product's contract.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from slackwater.cli import command_line, printing
from slackwater.cli.options import Time, warn
from slackwater.cli.printing import Output
from slackwater.examples import find_example
from slackwater.examples.redis_server import redis_server
from slackwater.runs.lineage.catch_up import CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runtime import memory
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.rows import MAIN, RowKind
from slackwater.windowing.times import to_datetime, to_ms

PIPELINE = "tollgates"
URL = "REDIS_URL"
SHOWN_WINDOWS = 10


@click.command()
@click.option(
    "--to",
    "end_ms",
    type=Time(),
    default="2024-01-01T00:30",
    show_default=True,
    help="count what arrived from 2024-01-01 up to here",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="var/tollgates",
    show_default=True,
    help="where the warehouse and the data of Redis go; delete it to begin anew",
)
def demo(end_ms: int, folder: Path) -> None:
    """Load vehicles, count them, close the lineage so that every window is final, and show what is in Redis.

    The server is the one that REDIS_URL names, or else one of its own.
    """
    # No memory for state: the operator engine keeps it in RocksDB from the first element on.
    os.environ.setdefault(memory.VARIABLE, "0")
    warehouse = str((folder / "warehouse").absolute())
    with _redis_url(folder / "redis") as url:
        os.environ[URL] = url
        start = to_datetime(Time().convert("2024-01-01", None, None))
        loaded_range = find_example(PIPELINE).load(warehouse, start, to_datetime(end_ms))
        click.echo(
            f"{loaded_range.path}: {loaded_range.rows_written:,} records of Kafka written, "
            f"{loaded_range.rows_present:,} were there.\n"
        )
        opened_pipeline = OpenedPipeline(PIPELINE, warehouse)
        if not _is_closed_at(end_ms, opened_pipeline):
            request = CatchUpRequest(PIPELINE, end_ms, everything=True)
            with opened_pipeline.delivering(warn):
                opened_pipeline.catch_up(request, click.echo).run()
            opened_pipeline.close(click.echo)
        for sink in opened_pipeline.pipeline.sinks:
            opened_pipeline.delivery().deliver(sink)
        _show_counts(url)
    click.echo("\nTry next:")
    for command in (
        "runs tollgates",
        "runs tollgates 1",
        "quarantine list tollgates",
        "late list tollgates",
        "state watermarks tollgates",
    ):
        click.echo(f"  .venv/bin/slackwater {command} --warehouse {warehouse}")


def _is_closed_at(end_ms: int, opened_pipeline: OpenedPipeline) -> bool:
    try:
        head = opened_pipeline.tables.ledger.head(MAIN)
    except NoRuns:
        return False
    if head is None or head.kind != RowKind.CLOSE or head.slice_end is None:
        return False
    return to_ms(head.slice_end) == end_ms


@contextmanager
def _redis_url(folder: Path) -> Iterator[str]:
    """The URL of the user's server, or of one that runs during the block."""
    if url := os.environ.get(URL):
        yield url
        return
    with redis_server(folder) as url:
        yield url


def _show_counts(url: str) -> None:
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as client:
        keys = sorted(client.scan_iter("tollgates:*", count=1000))
        counts = [client.hget(key, "vehicles") for key in keys]
    rows = [{"key": key, "vehicles": int(count)} for key, count in zip(keys, counts, strict=True)]
    vehicles = sum(row["vehicles"] for row in rows)
    click.echo(
        f"\nRedis holds {len(rows):,} windows with {vehicles:,} vehicles, every one final. The first:\n"
    )
    printing.show(rows[:SHOWN_WINDOWS], ["key", "vehicles"], Output(), empty="none")


def main() -> None:
    """Run the demo with the command line's exit codes."""
    logging.getLogger("slackwater").setLevel(logging.WARNING)
    command_line.finish(lambda: demo.main(sys.argv[1:], prog_name="infra/tollgates", standalone_mode=False))


if __name__ == "__main__":
    main()
