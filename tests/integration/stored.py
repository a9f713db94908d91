"""What a warehouse holds for one pipeline, as a reader sees it who has no package of ours: delta-rs, DuckDB
and the SQL of the guide to the tables.

Must not import slackwater. Times come out as integers in milliseconds, UTC.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

ROOT = Path(__file__).resolve().parents[2]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = (
    "runs",
    "panes",
    "late_events",
    "quarantine",
    "window_state",
    "timers",
    "keyed_state",
    "source_progress",
)

Row = dict[str, Any]


@cache
def guide_statements() -> dict[str, str]:
    """The SQL of docs/guides/sql.md, by the table that each statement reads."""
    guide = (ROOT / "docs" / "guides" / "sql.md").read_text()
    blocks = re.findall(r"^```sql\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    tables = (re.search(r"^SELECT (\w+)\.\*", block, flags=re.MULTILINE) for block in blocks)
    return {table[1]: block for table, block in zip(tables, blocks, strict=True) if table}


def live_statement(table: str) -> str:
    """The guide's statement for the panes as they stand, which it says holds for `late_events` and
    `quarantine` too.
    """
    return re.sub(r"\bpanes\b", table, guide_statements()["panes"])


def parked_statement(table: str) -> str:
    """The guide's statement for the windows parked now, which it says holds for the timers too."""
    return re.sub(r"\bwindow_state\b", table, guide_statements()["window_state"])


@dataclass(frozen=True)
class StoredTables:
    """The tables of one pipeline in a warehouse."""

    warehouse: Path
    pipeline: str

    def uri(self, table: str) -> str:
        return str(self.warehouse / self.pipeline / table)

    def rows(self, table: str) -> list[Row]:
        """Every row of a table, as of now."""
        return plain(DeltaTable(self.uri(table)).to_pyarrow_dataset().to_table())

    def ledger(self) -> list[Row]:
        return sorted(self.rows("runs"), key=lambda row: row["seq"])

    def rolled_forward(self) -> int:
        """The seq that `published` is as of; 0 before the first."""
        return DeltaTable(self.uri("published")).transaction_version("slackwater") or 0

    def live(self, table: str) -> list[Row]:
        """Rows of a staged table that count, by the guide's SQL."""
        return self.ask(live_statement(table))

    def parked(self, table: str) -> list[Row]:
        """Rows of a snapshot table as of the head, by the guide's SQL."""
        return self.ask(parked_statement(table))

    def ask(self, statement: str) -> list[Row]:
        """The answer of DuckDB to a statement written for Spark."""
        with connection().cursor() as cursor:
            sides = sorted(folder.name for folder in (self.warehouse / self.pipeline).glob("side_*"))
            for table in {*TABLES, *sides} & set(re.findall(r"\w+", statement)):
                cursor.register(table, DeltaTable(self.uri(table)).to_pyarrow_dataset())
            return plain(cursor.sql(statement.replace("explode", "unnest")).to_arrow_table())


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """A database of the process, which costs 20 ms to open. Each question has a cursor of its own."""
    connection = duckdb.connect()
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def plain(table: pa.Table) -> list[Row]:
    """Rows as dicts, times in milliseconds."""
    return [milliseconds(row) for row in table.to_pylist()]


def milliseconds(value: Any) -> Any:
    """`value` with every time in it as milliseconds."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, dict):
        return {name: milliseconds(item) for name, item in value.items()}
    return [milliseconds(item) for item in value] if isinstance(value, list) else value
