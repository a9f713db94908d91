"""The errors to raise where delta-rs can't open a table."""

import re

from slackwater.errors import SlackwaterError
from slackwater.tables.delta.log_files import damage
from slackwater.tables.errors import CatalogManaged, NotADeltaTable
from slackwater.tables.storage_errors import not_readable, reads, reason
from slackwater.tables.stores import filesystem

_CATALOG = re.compile(r"catalog.?(managed|owned)", re.IGNORECASE)


def error_of_opening(uri: str, error: Exception) -> SlackwaterError:
    """The error to raise for one of delta-rs: of a table that its catalog manages, of storage, of a damaged
    log, or of no table at all.
    """
    if _CATALOG.search(str(error)):
        return CatalogManaged(
            f"{uri}: this Delta table is managed by its catalog, which alone knows its newest version: it "
            "can't be read from its folder. Take that off (ALTER TABLE … DROP FEATURE catalogManaged), "
            "or keep its rows in another Delta table (CREATE TABLE … AS SELECT), and read that.",
            uri=uri,
        )
    storage_error = not_readable(uri, error)
    if storage_error is not None:
        return storage_error
    with reads(uri):
        log_error = damage(filesystem(uri), uri)
    return log_error or NotADeltaTable(
        f"{uri}: what is there can't be read as a Delta table ({reason(error)}). Check the path, or "
        "put the table back from a copy.",
        uri=uri,
    )
