"""The lineages of `warehouse.tar.xz`: how they are continued and restated, and the facts that are compared.

Shared by the writer and the tests. The product is used through its command line alone, so that an earlier
state of it runs this too.
"""

import contextlib
import hashlib
import io
import json
import re
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import here
from tests.integration.stored import Row, StoredTables
from tests.warehouses.archives import unpack

FOLDER = Path(__file__).parent
ARCHIVE, EXPECTED = FOLDER / "warehouse.tar.xz", FOLDER / "expected.json"
FILE, FORMER_FILE = FOLDER / "mine.py", FOLDER / "mine_with_former_imports.txt"
EXAMPLES, OF_USER = ("departures", "turnarounds"), ("routes", "rests")
NAMES = (*EXAMPLES, *OF_USER)
TABLES = (
    *("panes", "late_events", "quarantine", "published", "corrections"),
    *("window_state", "timers", "keyed_state", "source_progress"),
)
# What two states of the product need not have in common: run ids, places, moments, sentences and versions.
ACCIDENTAL = {"run_id", "source_file", "reason", "at"}
ACCIDENTAL_OF_RUNS = {
    *("run_id", "attempt", "engine", "inputs", "files", "table_versions"),
    *("started_at", "committed_at", "phase_seconds"),
    *("version", "format_version", "code_hash"),
    # Columns that these ledgers lacked when they were written.
    *("rows_emitted", "side_rows", "rows_duplicate", "place", "place_reason"),
}


def unpacked(folder: Path) -> Path:
    """Unpack the warehouse below `folder`: January in daily slices, of which the 25th and 26th are restated.

    `departures` and `turnarounds` begin on 1 January, `routes` and `rests` on the 22nd. The source has the
    flights that arrived before 3 February.
    """
    unpack(ARCHIVE, folder)
    return folder / "warehouse"


def expected() -> dict[str, Any]:
    """What the state of the product that wrote the archive says of it, and what it makes of it in `go_on`."""
    by_pipeline: dict[str, Any] = json.loads(EXPECTED.read_text())
    return by_pipeline


def command(warehouse: Path, file: Path, *arguments: object) -> int:
    """Run a command on the warehouse, with the pipelines of the user's `file`; gives the exit code."""
    return here(*arguments, "--warehouse", warehouse, "--pipelines", file)


def succeed(warehouse: Path, file: Path, *arguments: object) -> None:
    """As `command`.

    Raises:
        AssertionError: the exit code is not 0.
    """
    code = command(warehouse, file, *arguments)
    if code:
        raise AssertionError(f"{arguments} ended with {code}")


def go_on(warehouse: Path, file: Path, names: tuple[str, ...] = NAMES) -> None:
    """Run two further days; add flights to an earlier one, restate it and the next, and publish this."""
    for name in names:
        succeed(warehouse, file, "run", name, "--to", "2013-02-03")
    add_flights(warehouse)
    for name in names:
        restated = ("--from", "2013-01-23", "--to", "2013-01-25")
        succeed(warehouse, file, "backfill", name, *restated, "--no-publish")
        succeed(warehouse, file, "publish", name, StoredTables(warehouse, name).ledger()[-1]["branch"])


def add_flights(warehouse: Path) -> None:
    """Record flights of 23 January once more, under other numbers and with a delay of two hours."""
    source = DeltaTable(str(warehouse / "sources" / "departures"))
    rows = source.to_pyarrow_table(filters=[("arrival_date", "=", date(2013, 1, 23))]).sort_by("row")
    rows = rows.filter(pc.equal(pc.bit_wise_and(rows["row"], 3), 0))
    columns = {
        "row": pc.add(rows["row"], 1_000_000),
        "dep_delay": pa.array([120] * rows.num_rows, pa.int32()),
    }
    for column, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(column), column, values)
    write_deltalake(source, rows, mode="append")


def facts(stored: StoredTables, since: int = 0) -> dict[str, Any]:
    """The ledger's rows after `since`, and of each table the number of its rows and a hash of them."""
    return {
        "ledger": [_without(row, ACCIDENTAL_OF_RUNS) for row in stored.ledger() if row["seq"] > since],
        "tables": {name: _summary(stored.rows(name), ACCIDENTAL) for name in TABLES}
        | {"runs": _summary(stored.ledger(), ACCIDENTAL_OF_RUNS)},
    }


def code_hashes(stored: StoredTables) -> list[str]:
    """The code hashes of the ledger's runs, each once."""
    return sorted({row["code_hash"] for row in stored.ledger() if row["code_hash"]})


def _without(row: Row, columns: set[str]) -> Row:
    """The row without null columns and `columns`; kinds and branches have the names that they had when the
    archive was written.
    """
    return {
        name: _former(name, value) for name, value in row.items() if name not in columns and value is not None
    }


def _former(column: str, value: Any) -> Any:
    if column == "kind":
        return {"emitted": "count"}.get(value, value)
    if column == "branch":
        return re.sub("^preview-", "restate-", value)
    return value


def _summary(rows: list[Row], accidental: set[str]) -> dict[str, Any]:
    lines = sorted(json.dumps(_without(row, accidental), sort_keys=True, default=str) for row in rows)
    return {"rows": len(rows), "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def written_out(folder: Path, former: bool) -> Path:
    """Copy the user's file below `folder`, under the name under which the lineages know it."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(FORMER_FILE if former else FILE, folder / FILE.name))


def verified(warehouse: Path, file: Path, *arguments: object) -> list[list[Any]]:
    """What `slackwater verify ARGUMENTS` says of hashes and counts of runs, which are all equal."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        succeed(warehouse, file, "verify", *arguments, "--output", "json")
    columns = ("table", "seq", "what", "recorded", "stored", "replayed")
    rows = [row for row in json.loads(out.getvalue()) if row.get("seq", "") is not None]
    return [[row[name] for name in columns if name in row] for row in rows]
