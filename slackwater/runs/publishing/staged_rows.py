"""Whether the tables still have the rows that a run has staged. Asked before the run becomes live: without it
what a log has lost since would be published as if nobody had ever staged it.

Reads names of files in the logs; rows only where a file of the run is not there under its name.
"""

from collections.abc import Iterator

import pyarrow.compute as pc

from slackwater.tables.delta.stored_files import Within
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables

_AT_ONCE = 1 << 20
_COUNTS = {"late_events": "rows_late", "quarantine": "rows_quarantined"}  # table → what the ledger row says


def missing_rows(tables: Tables, row: LedgerRow) -> Iterator[tuple[str, int, int]]:
    """(table, rows recorded, rows there) of the tables that have other rows of a staged run than it has
    recorded. Where upkeep has merged its files with others, its rows are counted.
    """
    names = [name for name in row.files if name not in SNAPSHOT_TABLES and name in tables.folders]
    output = [name for name in names if name == "panes" or name.startswith(SIDE)]
    if any(_lacks_file(tables, name, row) for name in output):
        recorded_count = 0 if row.output_hash is None else int(row.output_hash.partition(":")[0])
        yield from _difference(tables, output, row, recorded_count)
    for name, count in _COUNTS.items():
        if name in names and _lacks_file(tables, name, row):
            yield from _difference(tables, [name], row, getattr(row, count))


def _difference(
    tables: Tables, names: list[str], row: LedgerRow, recorded_count: int
) -> Iterator[tuple[str, int, int]]:
    erased = sum(tables.ledger.remainders().rows(row.run_id, name) for name in names)
    stored_count = sum(
        part.num_rows
        for name in names
        for part in tables[name]
        .files(Within.only("run_id", row.run_id))
        .scan(["run_id"], pc.field("run_id") == row.run_id, _AT_ONCE)
    )
    if stored_count != recorded_count - erased:
        yield names[0], recorded_count - erased, stored_count


def _lacks_file(tables: Tables, name: str, row: LedgerRow) -> bool:
    """Whether the log lacks a file that the run has written, as far as this process knows the log."""
    if not row.files[name]:
        return False
    folder = tables[name]
    known_paths = folder.files(Within.only("run_id", row.run_id), table=folder.newest_known()).paths
    return not set(row.files[name]) <= set(known_paths)
