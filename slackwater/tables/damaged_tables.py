"""Explains how to go on where a file of a pipeline's tables is damaged: which run's rows it holds, and which
command makes them again.
"""

import re

from slackwater.errors import SlackwaterError
from slackwater.tables import schemas
from slackwater.tables.errors import DamagedFile
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import ways_on
from slackwater.tables.warehouse import Tables, Warehouse

_RUN = re.compile(r"(?:^run_id=|-)(\d{8}T\d{6}-[0-9a-f]{16})[/-]")
_REBUILT_TABLES = ("published", "corrections")


def explain_damage(error: DamagedFile) -> str:
    """The message of `error`, with the run and the next step."""
    uri = str(error.facts["uri"])
    root, pipeline, table = uri.rsplit("/", 2)
    if pipeline == schemas.SOURCE_FILES:
        return (
            f"{error.message}. Nothing was changed. It records which files of a source the runs have seen. "
            "Put the file back from a copy of the warehouse; if the source is a Delta table, the folder "
            f"{uri} may be removed instead: the next run asks the log of the source."
        )
    is_staged = table in schemas.STAGED_TABLES or table.startswith(schemas.side_table(""))
    if table in _REBUILT_TABLES:
        return (
            f"{error.message}. Nothing was changed. Put the file back from a copy; "
            f"`slackwater publish {pipeline} --rebuild` then makes right what is wrong besides."
        )
    if is_staged:
        return (
            f"{error.message}. {_explain_by_run(Warehouse(root), pipeline, table, str(error.facts['path']))}"
        )
    if table in schemas.table_columns(schemas.Shape((), (), (), ())):
        return (
            f"{error.message}. Nothing was changed. No other table has its rows: put the file back from "
            "a copy of the warehouse."
        )
    return (
        f"{error.message}. Nothing was changed. Put the file of the source back from a copy, and run "
        "the same command again."
    )


def _explain_by_run(warehouse: Warehouse, pipeline: str, table: str, path: str) -> str:
    match = _RUN.search(path)
    if match is None:
        return f"Nothing was changed. `slackwater verify {pipeline} --tables` says whose rows it holds."
    try:
        tables, row = _ledger_row(warehouse, pipeline, match[1])
    except SlackwaterError as unreadable:
        return (
            f"It is of {table} of the run {match[1]}; which one that is can't be told: {unreadable.message}"
        )
    if row is None:
        return (
            f"It is of {table} of the run {match[1]}, which is not in the ledger: "
            f"`slackwater run {pipeline}` stages the slice again."
        )
    return f"It is of {table} of run {row.seq} ({row.run_id}). {ways_on(tables, pipeline, row)}"


def _ledger_row(warehouse: Warehouse, pipeline: str, run_id: str) -> tuple[Tables, LedgerRow | None]:
    tables = warehouse.stored_tables(pipeline)
    return tables, tables.ledger.by_run_id(run_id)
