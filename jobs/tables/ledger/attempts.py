"""`attempts`: every try at a slice, as an append-only log of what it came to. Also the advisory lease of a
lineage.

A row is never changed: the newest row of a run_id says how that attempt stands.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.owners import is_dead, this_process

LEASE = timedelta(minutes=3)
OPEN = "claimed"
# The step of an attempt that is no try at a slice: its claim keeps two upkeeps of the same tables apart.
UPKEEP = "maintain"
# How far each outcome lies from the claim: the farthest row counts, whatever the clocks were that two rows
# have their times from.
_PROGRESS = {OPEN: 0, "staged": 1, "rejected": 1}
_ENDED = 2


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One row of `attempts`, columns in the documented order (`slackwater.jobs.tables.schemas.ATTEMPTS`).

    `outcome` is claimed, staged, committed, rejected, failed or lost. `ledger_row` is the row that publish
    will commit, as JSON. Of upkeep the slice is empty: from the moment of its claim to that moment.
    """

    run_id: str
    parent_seq: int | None
    slice_start: datetime
    slice_end: datetime
    attempt: int = 1
    owner: str | None = None
    claimed_at: datetime | None = None
    expires_at: datetime | None = None
    outcome: str = OPEN
    verdict: str | None = None
    ledger_row: str | None = None
    exit_code: int | None = None
    step: str | None = None
    error: str | None = None
    at: datetime

    @property
    def is_upkeep(self) -> bool:
        """Whether it is the claim of an upkeep, and no try at a slice."""
        return self.step == UPKEEP


class AttemptsReader:
    """Reads the attempts of one pipeline."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def find(self, run_id: str) -> Attempt | None:
        """How the attempt `run_id` stands."""
        return self._newest(pc.field("run_id") == run_id, Within.only("run_id", run_id)).get(run_id)

    def standing(self) -> list[Attempt]:
        """How every attempt at a slice stands, the one that changed last at the end."""
        return sorted(
            (row for row in self._newest().values() if not row.is_upkeep),
            key=lambda row: (row.at, _progress(row)),
        )

    def tries(self, slice_start: datetime, slice_end: datetime) -> int:
        """How many attempts at exactly this slice there have been."""
        where = (pc.field("slice_start") == slice_start) & (pc.field("slice_end") == slice_end)
        return len(self._newest(where, Within.only("slice_start", slice_start)))

    def holders(self, now: datetime, table: DeltaTable | None = None) -> list[Attempt]:
        """Attempts that hold the lease at `now` (in `table`, or as of now): claimed, not expired, not by a
        dead process of this host.
        """
        files = self.folder.files(table=table)
        where = (pc.field("expires_at") > now) & (pc.field("outcome") == OPEN)
        within = _without_ended(files).within(Within("expires_at", now, None), Within.only("outcome", OPEN))
        alive = [
            run_id
            for run_id, row in self._newest(where, files=within).items()
            if not is_dead(row.owner or "")
        ]
        # What has ended may have been recorded with the expiry of its claim, which its renewals lie behind.
        stands = (
            self._newest(pc.field("run_id") == run_id, Within.only("run_id", run_id), files)[run_id]
            for run_id in alive
        )
        return [row for row in stands if row.outcome == OPEN]

    def _newest(
        self,
        where: pc.Expression | None = None,
        within: Within | None = None,
        files: StoredFiles | None = None,
    ) -> dict[str, Attempt]:
        newest: dict[str, Attempt] = {}
        some = self.folder.files() if files is None else files
        rows = (some if within is None else some.within(within)).read(self.folder.schema.names, where)
        for values in rows.to_pylist():
            row = Attempt(**values)
            if row.run_id not in newest or _order(newest[row.run_id]) <= _order(row):
                newest[row.run_id] = row
        return newest


def _without_ended(files: StoredFiles) -> StoredFiles:
    """Without the files of runs that have ended, which the log alone tells: of each file it has the least and
    the greatest run_id and outcome. A chain of short slices leaves many of them within a lease's time."""
    actions = files.actions
    if "min.run_id" not in actions.column_names:
        return files
    run_ids = actions.column("min.run_id")
    is_of_one = pc.fill_null(pc.equal(run_ids, actions.column("max.run_id")), False)
    has_ended = pc.fill_null(pc.greater(actions.column("min.outcome"), OPEN), False)
    ended = run_ids.filter(pc.and_(is_of_one, has_ended))
    return replace(files, actions=actions.filter(pc.invert(pc.and_(is_of_one, pc.is_in(run_ids, ended)))))


def _order(row: Attempt) -> tuple[int, datetime]:
    return _progress(row), row.at


def _progress(row: Attempt) -> int:
    return _PROGRESS.get(row.outcome, _ENDED)


class AttemptsWriter(AttemptsReader):
    """Appends to the attempts of one pipeline."""

    def record(self, attempt: Attempt, now: datetime, **changes: object) -> Attempt:
        """Append `attempt` with `changes`; returns it as recorded."""
        row = replace(attempt, **{**changes, "at": now})  # type: ignore[arg-type]
        self.folder.append(self._arrow(row))
        return row

    def claim(
        self,
        attempt: Attempt,
        clock: Callable[[], datetime],
        rivals: Callable[[Attempt], bool] = lambda holder: True,
    ) -> Attempt | None:
        """Take the lease and record `attempt` as claimed, or None when somebody holds it. Two claims at once:
        one wins.

        `rivals` says which holders count: those at work on the same branch.
        """
        while True:
            table = self.folder.ensure()
            now = clock()
            if any(map(rivals, self.holders(now, table))):
                return None
            row = replace(
                attempt, owner=this_process(), claimed_at=now, expires_at=now + LEASE, outcome=OPEN, at=now
            )
            try:
                self.folder.append(self._arrow(row), expected_table=table)
            except CommitConflict:
                continue
            return row

    def _arrow(self, row: Attempt) -> pa.Table:
        return pa.Table.from_pylist([asdict(row)], schema=self.folder.schema)
