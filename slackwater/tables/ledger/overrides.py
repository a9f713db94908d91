"""The table `overrides`: rows of the source that get another arrival on purpose, each with the reason.
Append-only; a run records how many overrides there were, counted in the order in which they were appended, so
that the number stays right whatever becomes of the table's versions.

An override is honoured by the first run that knows it, and by every run behind that one, if the row is still
to come when that run's slice begins: neither the arrival that it has had so far nor the new one lies before
the slice. Otherwise the row would be read twice, or never, and the override waits for a restatement that
begins early enough. So each override is honoured for itself, whatever becomes of the others:

    main       |-- run 1 --|-- run 2 --|-- run 3 --|
    override a     ^ new arrival             ^ arrival in the source
    override b                 ^ new arrival    ^ arrival in the source
    branch                 |-- run 4 --|-- run 5 --|    honours b; a waits for one that begins at run 1
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing.times import to_datetime

# The name of the table among the inputs of a ledger row; `version` of that input is the number of overrides
# that there were, `rows` the number of rows whose new arrival the run honours.
INPUT = "overrides"


@dataclass(frozen=True, kw_only=True)
class Override:
    """One row of `overrides` (`slackwater.tables.schemas.OVERRIDES`): `row_hash` names the source row
    (`slackwater.engine.source.overrides`), `arrival_time` is its new arrival, `true_arrival` the source's.
    """

    row_hash: str
    arrival_time: datetime
    reason: str
    at: datetime
    true_arrival: datetime


class OverridesReader:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def rows(self) -> list[Override]:
        return _rows(self.folder.read())

    def known_rows(self) -> list[Override]:
        """`rows` at the newest version that this process knows."""
        table = self.folder.newest_known()
        return [] if table is None else _rows(self.folder.read_at(table))


class OverridesWriter(OverridesReader):
    def add(self, rows: Sequence[Override], clock: Callable[[], datetime]) -> list[Override]:
        """Append the `rows` that change an arrival, with an `at` after all earlier ones; returns them."""
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


# The row hash of each row whose arrival is changed → the override that says to what: the newest honoured one.
MovedRows = Mapping[str, Override]


def count_known_to(row: LedgerRow) -> int:
    """The number of overrides when a run was pinned; 0 where it honours none."""
    return next((item.version for item in row.inputs if item.table == INPUT), 0)


def arrival_in(moved_rows: MovedRows, override: Override) -> datetime:
    newest_override = moved_rows.get(override.row_hash)
    return override.true_arrival if newest_override is None else newest_override.arrival_time


def moved_rows_from(moved_rows: MovedRows, overrides: Sequence[Override], start: datetime) -> MovedRows:
    """`moved_rows` of a lineage after one more slice that begins at `start` and knows `overrides`."""
    moved_rows = dict(moved_rows)
    for override in overrides:
        if min(arrival_in(moved_rows, override), override.arrival_time) >= start:
            moved_rows[override.row_hash] = override
    return moved_rows


def moved_rows_on(ledger: LedgerReader, head: LedgerRow, overrides: Sequence[Override]) -> MovedRows:
    """The rows that are moved on the branch of `head`, by its live runs."""
    moved_rows: MovedRows = {}
    if not overrides:
        return moved_rows
    count = 0
    reads = ledger.live_reads(head, INPUT)
    for start_ms, new_count in zip(reads["from_ms"].to_pylist(), reads["version"].to_pylist(), strict=True):
        if new_count > count:
            moved_rows = moved_rows_from(moved_rows, overrides[count:new_count], to_datetime(start_ms))
            count = new_count
    return moved_rows


def moved_rows_by_run(
    ledger: LedgerReader, live: Sequence[LedgerRow], overrides: Sequence[Override]
) -> Sequence[MovedRows]:
    """The rows that each of these live runs has read as moved."""
    moved_by_run: list[MovedRows] = []
    for place, row in enumerate(live):
        before = live[place - 1] if place else None
        if not count_known_to(row):
            moved_by_run.append({})
        elif before is not None and (row.parent_seq, count_known_to(row)) == (
            before.seq,
            count_known_to(before),
        ):
            moved_by_run.append(moved_by_run[-1])
        else:
            moved_by_run.append(moved_rows_on(ledger, row, overrides))
    return moved_by_run


def unhonoured_overrides(overrides: Sequence[Override], moved_rows: MovedRows) -> list[Override]:
    """The newest overrides of rows that a lineage does not honour."""
    newest = {override.row_hash: override for override in overrides}
    return [
        override for override in newest.values() if arrival_in(moved_rows, override) != override.arrival_time
    ]
