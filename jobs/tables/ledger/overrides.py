"""The table `overrides`: rows of the source that get another arrival on purpose, each with the reason.
Append-only; a run pins the number of overrides that it honours.

They are counted in the order in which they were appended, so that the number stays right whatever becomes of
the table's versions.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import LedgerRow

# The name of the table among the inputs of a ledger row; `version` and `rows` of that input are the number of
# overrides honoured.
INPUT = "overrides"


@dataclass(frozen=True, kw_only=True)
class Override:
    """One row of `overrides`, columns in the documented order (`slackwater.jobs.tables.schemas.OVERRIDES`).

    Attributes:
        row_hash: names the source row (`slackwater.jobs.engines.source.overrides`).
        arrival_time: the arrival that the row has from now on.
        true_arrival: the arrival that the source has.
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
        """All of them, in the order in which they were appended."""
        return _rows(self.folder.read())

    def known_rows(self) -> list[Override]:
        """As `rows`, as of the newest version that this process knows."""
        table = self.folder.newest_known()
        return [] if table is None else _rows(self.folder.read_at(table))


class OverridesWriter(OverridesReader):
    """Appends to the overrides of one pipeline."""

    def add(self, rows: Sequence[Override], clock: Callable[[], datetime]) -> list[Override]:
        """Append those of `rows` that change an arrival, with `at` later than that of every override before;
        returns the rows that were appended.
        """
        while True:
            table = self.folder.ensure()
            overrides = _rows(self.folder.read_at(table))
            newest = {row.row_hash: row.arrival_time for row in overrides}
            new = [row for row in rows if newest.get(row.row_hash) != row.arrival_time]
            if not new:
                return []
            at = max([clock(), *(row.at + timedelta(microseconds=1) for row in overrides[-1:])])
            appended_rows = [Override(**{**asdict(row), "at": at}) for row in new]
            try:
                self.folder.append(
                    pa.Table.from_pylist([asdict(row) for row in appended_rows], schema=self.folder.schema),
                    expected_table=table,
                )
            except CommitConflict:
                continue
            return appended_rows


def _rows(table: pa.Table) -> list[Override]:
    return sorted(
        (Override(**values) for values in table.to_pylist()), key=lambda row: (row.at, row.row_hash)
    )


def count_honoured_by(row: LedgerRow | None) -> int:
    """How many overrides a run has honoured."""
    return 0 if row is None else next((item.rows for item in row.inputs if item.table == INPUT), 0)


def count_honoured_before(ledger: LedgerReader, head: LedgerRow | None, owner: LedgerRow | None) -> int:
    """How many overrides the lineage of `head` has honoured; `owner` is the run that owns its snapshot.

    That is the greatest number of any live run. After a restatement the runs that stay live behind it may
    have honoured fewer, but they have read none of the rows that the others concern.
    """
    if head is None or len(head.live) < 2:
        return count_honoured_by(owner)
    return max(map(count_honoured_by, ledger.live_runs(head)), default=0)


def count_to_honour(rows: Sequence[Override], before: int, start: datetime) -> int:
    """How many of `rows`, all overrides, a slice that starts at `start` honours; the lineage has honoured the
    first `before`.

    All of them, if the arrivals that the new ones give lie in this slice or later. If one lies earlier, none
    of the new ones: the earlier slices were run without it, and its row would be in no slice until they are
    restated.
    """
    return len(rows) if all(row.arrival_time >= start for row in rows[before:]) else before
