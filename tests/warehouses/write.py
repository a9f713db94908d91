"""Writes a small warehouse with the checkout's code, as `format_<number>.tar.gz`: what later formats must
still read.

`python -m tests.warehouses.write`. Three pipelines over one source; stragglers, late rows, quarantine, a
redrive, a restatement, a branch and a staged run that nobody has published. Which commit wrote a file stands
in PROVENANCE.
"""

import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from slackwater.tables.schemas import FORMAT_VERSION
from tests.integration.command import here

FOLDER = Path(__file__).parent
PIPELINES = FOLDER / "pipelines.py"
START = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 5
SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("site", pa.string()),
        ("line", pa.string()),
        ("value", pa.int64()),
        ("row", pa.int64()),
    ]
)


def rows_of(day: int) -> list[dict[str, Any]]:
    """A day's readings: one in nine is five hours old and one in thirteen two, when it arrives; a few have no
    time or no site.
    """
    rows = []
    for number in range(60):
        row = 1000 * day + number
        arrival = START + timedelta(days=day, minutes=24 * number)
        delay = (
            timedelta(hours=5)
            if row % 9 == 4
            else timedelta(hours=2)
            if row % 13 == 5
            else timedelta(minutes=row * 7 % 15)
        )
        rows.append(
            {
                "event_time": None if row % 29 == 3 else arrival - delay,
                "arrival_time": arrival,
                "site": None if row % 31 == 7 else ["north", "south", "east"][row * 5 % 3],
                "line": f"line {row % 2}",
                "value": row * 37 % 71,
                "row": row,
            }
        )
    return rows


def write(warehouse: Path) -> None:
    """The source, one commit a day, of which the third brings some rows of the second; then the runs of three
    days.
    """
    held_back = [row for row in rows_of(1) if row["row"] % 10 == 6]
    for day in range(DAYS):
        rows = [row for row in rows_of(day) if row not in held_back] + (held_back if day == 2 else [])
        write_deltalake(
            str(warehouse / "sources" / "readings"), pa.Table.from_pylist(rows, SCHEMA), mode="append"
        )
        if day == 1:
            for pipeline in ("readings", "peaks", "totals"):
                _done("run", pipeline, "--to", "2024-03-03", warehouse=warehouse)
    for pipeline in ("readings", "peaks", "totals"):
        _done("run", pipeline, "--to", "2024-03-04", warehouse=warehouse)
    _done("late", "redrive", "readings", "--run", 2, "--reason", "taken in after all", warehouse=warehouse)
    _done("backfill", "readings", "--from", "2024-03-02", "--to", "2024-03-03", warehouse=warehouse)
    _done("state", "fork", "readings", "trial", "--run", 1, warehouse=warehouse)
    _done(
        "backfill", "peaks", "--from", "2024-03-02", "--to", "2024-03-03", "--no-publish", warehouse=warehouse
    )
    _done("run", "totals", "--to", "2024-03-05", "--no-publish", warehouse=warehouse)


def _done(*arguments: object, warehouse: Path) -> None:
    code = here(*arguments, "--warehouse", warehouse, "--pipelines", PIPELINES)
    if code:
        sys.exit(f"{arguments} ended with {code}")


def main() -> None:
    """Refuses to replace a file that is there."""
    file = FOLDER / f"format_{FORMAT_VERSION}.tar.gz"
    if file.exists():
        sys.exit(
            f"{file.name} is there already, and what is there is test data; raise FORMAT_VERSION when the "
            "format changes"
        )
    opened_pipeline.spark_transport = lambda app: InProcess  # type: ignore[assignment,return-value]
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "warehouse"
        write(warehouse)
        with tarfile.open(file, "w:gz") as archive:
            archive.add(warehouse, "warehouse")


if __name__ == "__main__":
    main()
