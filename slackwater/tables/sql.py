"""SQL over Arrow tables in memory, by the one DuckDB database of this process. Times are UTC.

Knows no table by name. To make a database costs more than most queries do, so all connections share one; they
see no tables of each other.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

if TYPE_CHECKING:
    import duckdb


def query(sql: str, parameters: Sequence[Any] = (), **tables: pa.Table | pads.Dataset) -> pa.Table:
    """The rows of a query over `tables`; their keywords are their names in SQL."""
    with connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql, params=list(parameters) or None).to_arrow_table()


def connect() -> "duckdb.DuckDBPyConnection":
    """A connection for the caller to close; nobody else sees its registered and temporary tables."""
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> "duckdb.DuckDBPyConnection":
    """The database of a process; a forked process needs another, because threads don't live on in a fork.

    It runs on the thread of its caller alone: DuckDB's other threads, when they have rested for half a
    second, return all free memory of the process to the system, also what it keeps for its next batches
    (`slackwater.runtime.heap`).
    """
    import duckdb  # most verbs that look ask nothing of it

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
