"""The ways on where somebody else has touched the tables of a pipeline: a damaged file is explained by the
run whose rows it holds and the command that makes them again, and changed tables are taken back to what runs
have written.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from deltalake.exceptions import DeltaError

from slackwater.errors import PermanentError, SlackwaterError
from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.log_files import NO_VERSION, newest_commit
from slackwater.tables.delta.take_back import TakenBack, take_back, version_before_others
from slackwater.tables.errors import DamagedFile
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import ways_on
from slackwater.tables.storage_errors import reason, storage_error
from slackwater.tables.stores import filesystem
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


_LEDGER = "runs"
# It follows from `corrections` and `panes`.
_REBUILT = "published"


def take_back_tables(warehouse: Warehouse, pipeline: str, sides: Iterable[str] = ()) -> list[TakenBack]:
    """Take each table back where others have changed rows or columns since the ledger's newest row, or have
    given it features that can't be borne. Returns what was done; the ledger comes first. Raises
    PermanentError: a log lacks what is needed.
    """
    root = f"{warehouse.root}/{pipeline}"
    uri = f"{root}/{_LEDGER}"
    if newest_commit(filesystem(uri)) == NO_VERSION:
        return []
    taken_back = [_take_back(uri, None)]
    runs = Folder.existing_at(uri, is_ours=True)
    newest = None if runs is None else LedgerReader(runs).newest()
    versions = {} if newest is None else newest.table_versions
    if _LEDGER in versions:
        taken_back.append(_take_back(uri, versions[_LEDGER]))
    names = [*schemas.table_columns(schemas.Shape((), (), (), ())), *map(schemas.side_table, sides)]
    for name in names:
        table_uri = f"{root}/{name}"
        if name != _LEDGER and newest_commit(filesystem(table_uri)) != NO_VERSION:
            taken_back.append(_take_back(table_uri, versions.get(name)))
    return [item for item in taken_back if item is not None]


def _take_back(uri: str, known_version: int | None) -> TakenBack | None:
    """`take_back`, repeated where somebody else has committed meanwhile. Without a known version others'
    first commit since the last checkpoint decides.
    """
    while True:
        try:
            with suppress(FileExistsError):
                version = version_before_others(uri) if known_version is None else known_version
                return take_back(uri, version, is_rebuilt=uri.endswith(f"/{_REBUILT}"))
        except (OSError, DeltaError) as error:
            raise storage_error(uri, "taken back", error) or PermanentError(
                f"{uri}: others have changed it, and it can't be taken back to what runs have written "
                f"({reason(error)}). Put the table back from a copy of the warehouse.",
                uri=uri,
            ) from error
