"""`overrides`: rows whose arrival was changed on purpose, with the reason. Append-only; a run pins how many
of them it honours.

Counted in the order in which they were made, so that a pin outlives every version of the table.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import LedgerRow

# How the table is called among the inputs of a ledger row; version and rows there are the number of overrides
# honoured.
INPUT = "overrides"


@dataclass(frozen=True, kw_only=True)
class Override:
    """One row of `overrides`, columns in the documented order (`slackwater.jobs.tables.schemas.OVERRIDES`).

    Attributes:
        row_hash: which row (`slackwater.jobs.engines.source.overrides`).
        arrival_time: when it arrives from now on.
        true_arrival: when it arrived.
    """

    row_hash: str
    arrival_time: datetime
    reason: str
    at: datetime
    true_arrival: datetime


class OverridesReader:
    """Reads the overrides of one pipeline."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def rows(self) -> list[Override]:
        """All of them, in the order in which they were made."""
        return _rows(self.folder.read())


class OverridesWriter(OverridesReader):
    """Appends to the overrides of one pipeline."""

    def add(self, rows: Sequence[Override], clock: Callable[[], datetime]) -> list[Override]:
        """Append those of `rows` that change something, `at` set behind all that there are; returns them as
        appended.
        """
        while True:
            table = self.folder.ensure()
            there = _rows(self.folder.read_at(table))
            newest = {row.row_hash: row.arrival_time for row in there}
            new = [row for row in rows if newest.get(row.row_hash) != row.arrival_time]
            if not new:
                return []
            at = max([clock(), *(row.at + timedelta(microseconds=1) for row in there[-1:])])
            made = [Override(**{**asdict(row), "at": at}) for row in new]
            try:
                self.folder.append(
                    pa.Table.from_pylist([asdict(row) for row in made], schema=self.folder.schema),
                    expected_table=table,
                )
            except CommitConflict:
                continue
            return made


def _rows(table: pa.Table) -> list[Override]:
    return sorted(
        (Override(**values) for values in table.to_pylist()), key=lambda row: (row.at, row.row_hash)
    )


def honoured_by(row: LedgerRow | None) -> int:
    """How many overrides a run has honoured."""
    return 0 if row is None else next((item.rows for item in row.inputs if item.table == INPUT), 0)


def honoured_before(ledger: LedgerReader, head: LedgerRow | None, owner: LedgerRow | None) -> int:
    """How many overrides the lineage of `head` has honoured, whose snapshot is that of `owner`: behind a
    restatement there may be runs that know of fewer, and they have read none of the rows concerned."""
    if head is None or len(head.live) < 2:
        return honoured_by(owner)
    return max(map(honoured_by, ledger.live_runs(head)), default=0)


def honoured(rows: Sequence[Override], before: int, start: datetime) -> int:
    """How many of `rows` a slice honours that starts at `start` in a lineage which has honoured the first
    `before`.

    All of them if the new ones arrive in this slice or later. If one arrives before it, none of the new: what
    lies before the slice was run without it, and a row that moved there would be lost until that is restated.
    """
    return len(rows) if all(row.arrival_time >= start for row in rows[before:]) else before
