"""SQL over Arrow tables in memory, by the one DuckDB of this process. Times are UTC.

Knows no table by name. To make a database costs more than most queries do; connections share nothing of it
but that.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads


def query(sql: str, parameters: Sequence[Any] = (), **tables: pa.Table | pads.Dataset) -> pa.Table:
    """The rows of a query over `tables`, which it knows by their names here."""
    with connected() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql, params=list(parameters) or None).to_arrow_table()


def connected() -> duckdb.DuckDBPyConnection:
    """One for several statements, for the caller to close: what it registers, and its temporary tables,
    nobody else sees.
    """
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """One a process: its threads don't live on in a fork. It has no thread but the asking one: others of
    DuckDB, when they have rested for half a second, give all back that the process keeps for its next batches
    (`slackwater.jobs.runtime.heap`)."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
