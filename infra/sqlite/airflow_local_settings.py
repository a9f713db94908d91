"""Imported by Airflow at its start: lets its processes share an SQLite database under load. Other databases
are left alone.

Overrides none of Airflow's settings. A file of this name in $AIRFLOW_HOME/config or on the caller's
PYTHONPATH takes its place.
"""

from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

__all__: list[str] = []

PATIENCE_MS = 30_000


@event.listens_for(Engine, "savepoint")
def lock_before_savepoint(connection: Connection, name: str) -> None:
    """A savepoint outside a transaction starts one that may read first. If another process writes before it
    does, SQLite ends it at once with "database is locked", however patient it is. `airflow backfill create`
    works in such savepoints.
    """
    if connection.dialect.driver == "pysqlite" and not connection.connection.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


@event.listens_for(Engine, "connect")
def wait_for_other_writers(connection: Any, record: Any) -> None:
    """Python's own 5 seconds are too few on a busy machine."""
    if "sqlite" in type(connection).__module__:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")
        cursor.close()
