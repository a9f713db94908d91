"""Writes `warehouse.tar.xz` and `expected.json` with the checkout's code.

`python -m tests.warehouses.january.write`. The user's file is the one with former imports, so only a state of
the product before the front door runs this.
"""

import json
import shutil
import sys
import tarfile
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import here
from tests.integration.stored import StoredTables
from tests.warehouses.january.lineages import (
    ARCHIVE,
    EXPECTED,
    NAMES,
    code_hashes,
    facts,
    go_on,
    succeed,
    verified,
    written_out,
)

TABLE = Path("sources") / "departures"
RESTATED = ("2013-01-25", "2013-01-27")


def thinned_flights(folder: Path) -> pa.Table:
    """The flights of one aircraft in ten, and one in ten of those without a tail number."""
    days = ("--from", "2013-01-01", "--to", "2013-02-03")
    here("examples", "load", "departures", *days, "--warehouse", folder)
    flights = DeltaTable(str(folder / TABLE)).to_pyarrow_table().sort_by("row")
    aircraft = {
        tail: place for place, tail in enumerate(sorted(set(flights["tailnum"].to_pylist()) - {None}))
    }
    pairs = zip(flights["tailnum"].to_pylist(), flights["row"].to_pylist(), strict=True)
    return flights.filter(pa.array([aircraft.get(tail, row) % 10 == 0 for tail, row in pairs]))


def write(warehouse: Path, file: Path, flights: pa.Table) -> None:
    """Run January in daily slices without some flights of the 25th; then add these, and restate two days."""
    is_of_that_day = pc.equal(flights["arrival_date"], date.fromisoformat(RESTATED[0]))
    late = pc.and_(is_of_that_day, pc.equal(pc.bit_wise_and(flights["row"], 3), 1))
    source = str(warehouse / TABLE)
    write_deltalake(source, flights.filter(pc.invert(late)), partition_by=["arrival_date"])
    for name in NAMES:
        succeed(warehouse, file, "run", name, "--to", "2013-02-01")
    write_deltalake(source, flights.filter(late), mode="append")
    for name in NAMES:
        restated = ("--from", RESTATED[0], "--to", RESTATED[1])
        succeed(warehouse, file, "backfill", name, *restated, "--reason", "late reports")


def seqs_to_verify(stored: StoredTables) -> list[int]:
    """The second run of main, and the last run of the restatement."""
    runs = [row for row in stored.ledger() if row["kind"] == "run"]
    on_main = [row["seq"] for row in runs if row["branch"] == "main"]
    return [on_main[1], runs[-1]["seq"]]


def expected_of(warehouse: Path, file: Path) -> dict[str, Any]:
    """What this state of the product says of the warehouse, and what it makes of a copy of it."""
    expected: dict[str, Any] = {}
    for name in NAMES:
        stored = StoredTables(warehouse, name)
        seqs = seqs_to_verify(stored)
        expected[name] = {
            "code_hashes": code_hashes(stored),
            "as_written": facts(stored, since=stored.ledger()[-1]["seq"]),
            "verified": {
                "--tables": verified(warehouse, file, name, "--tables"),
                **{str(seq): verified(warehouse, file, name, seq) for seq in seqs},
            },
        }
    later = shutil.copytree(warehouse, warehouse.parent / "later")
    go_on(later, file)
    for name in NAMES:
        written = StoredTables(warehouse, name).ledger()[-1]["seq"]
        expected[name]["gone_on_with"] = facts(StoredTables(later, name), since=written)
    return expected


def main() -> None:
    """Refuses to replace what is there."""
    if ARCHIVE.exists() or EXPECTED.exists():
        sys.exit(f"{ARCHIVE.name} and {EXPECTED.name} are test data: what is there stays as it is")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warehouse, file = folder / "warehouse", written_out(folder / "user", former=True)
        write(warehouse, file, thinned_flights(folder / "all"))
        EXPECTED.write_text(json.dumps(expected_of(warehouse, file), indent=1) + "\n")
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            archive.add(warehouse, "warehouse")


if __name__ == "__main__":
    main()
