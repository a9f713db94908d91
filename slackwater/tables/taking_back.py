"""Takes the tables of a pipeline back to what its runs have written, where others have changed them."""

from collections.abc import Iterable
from contextlib import suppress

from deltalake.exceptions import DeltaError

from slackwater.errors import PermanentError
from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.log_files import NO_VERSION, newest_commit
from slackwater.tables.delta.take_back import TakenBack, take_back, version_before_others
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.storage_errors import reason, storage_error
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import Warehouse

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
