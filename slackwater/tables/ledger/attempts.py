"""The table `attempts`: an append-only log of every attempt at a slice. The newest row of a run_id has the
state of the attempt; a claim is the advisory lease of a lineage.

A claim names the process that holds it, so that another process can find out whether it still runs: only from
its own pid namespace on its own machine; from elsewhere nothing is known of it.
"""

import os
import socket
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.rows import LedgerRow


def this_process() -> str:
    return owner_of(os.getpid(), _start_ticks(os.getpid()) or "")


def owner_of(pid: int, start_ticks: str) -> str:
    """The name of a process of this place: ``host/place/pid/start ticks``; process ids are used again, so it
    has the kernel's start ticks.
    """
    return f"{socket.gethostname()}/{process_place()}/{pid}/{start_ticks}"


def process_place() -> str:
    """The place in which a process id names one process: the boot and the pid namespace. A host name is not
    enough: containers may share one, and machines too. "" where the kernel doesn't say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def is_dead(owner: str) -> bool:
    """Whether `owner` was a process of this place that runs no more. False where that can't be known."""
    parts = owner.split("/")
    this_place = [socket.gethostname(), process_place()]
    if len(parts) != 4 or parts[:2] != this_place or not this_place[1]:
        return False
    pid, start_ticks = int(parts[2]), parts[3]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    ticks_now = _start_ticks(pid)
    return ticks_now is not None and bool(start_ticks) and ticks_now != start_ticks


def _start_ticks(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; "" where there is no such process, or it only waits to
    be reaped; None where that can't be known.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else None
    except OSError:
        return None
    facts = stat.rsplit(")", 1)[1].split()
    return "" if facts[0] in "ZX" else facts[19]


LEASE = timedelta(minutes=3)
OPEN = "claimed"
# By these attempts are looked for. Each run leaves several files of one row, and the log's statistics of one
# would be longer than the row.
_SEARCHED_COLUMNS = ("run_id", "slice_start", "slice_end", "expires_at", "outcome", "at")
# The step of an attempt that is an upkeep, not a try at a slice: its claim keeps a second upkeep of the same
# tables from starting.
UPKEEP = "maintain"
# How far an attempt with that outcome has come; other outcomes are ends. Of the rows of one attempt the one
# that has come farthest counts, also where it has an earlier time: two rows may have been written by two
# clocks.
_PROGRESS = {OPEN: 0, "staged": 1, "rejected": 1}
_PROGRESS_AT_THE_END = 2


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One row of `attempts`, columns in the documented order (`slackwater.tables.schemas.ATTEMPTS`).

    `outcome` is claimed, staged, committed, rejected, failed or lost. `ledger_row` is the row that publish
    will commit, as JSON. The slice of an upkeep is empty: it starts and ends at the moment of the claim.
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
        return self.step == UPKEEP

    @property
    def reason(self) -> str | None:
        """Why it failed, on one line: the whole error, or the last line of a traceback."""
        lines = [line.strip() for line in (self.error or "").strip().splitlines()]
        if lines and lines[0].startswith("Traceback "):
            return lines[-1]
        return " ".join(lines) or None


class AttemptsReader:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def find(self, run_id: str) -> Attempt | None:
        return self._newest(pc.field("run_id") == run_id, Within.only("run_id", run_id)).get(run_id)

    def newest_rows(self, without: Container[str] = ()) -> list[Attempt]:
        """The newest row of every attempt at a slice, in the order of their times. Attempts in `without` are
        left out, and so are files that have only such rows by their statistics.
        """
        files = self.folder.files()
        run_ids = files.values_in_log("run_id")
        paths = [path for path in files.paths if run_ids.get(path, ("",))[0] not in without]
        newest = _in_order(self._newest(files=files.among(paths)))
        return [row for row in newest if row.run_id not in without]

    def since(self, head: LedgerRow | None, head_end: datetime | None) -> list[Attempt]:
        """`newest_rows` of attempts at slices that end after `head_end`, the end of the lineage of `head`, or
        with rows since `head` was committed; of all attempts without a head. Older files are not read.
        """
        if head is None or head_end is None or head.committed_at is None:
            return self.newest_rows()
        files = self.folder.files()
        candidates = (
            *files.within(Within("slice_end", head_end, None)).paths,
            *files.within(Within("at", head.committed_at, None)).paths,
        )
        where = (pc.field("slice_end") > head_end) | (pc.field("at") > head.committed_at)
        return _in_order(self._newest(where, files=files.among(candidates)))

    def tries(self, slice_start: datetime, slice_end: datetime, table: OpenTable | None = None) -> int:
        """The number of attempts at exactly this slice. For `table` see `holders`."""
        where = (pc.field("slice_start") == slice_start) & (pc.field("slice_end") == slice_end)
        files = self.folder.files(Within.only("slice_start", slice_start), table=table)
        return len(self._newest(where, files=files))

    def starting_at(self, slice_start: datetime) -> list[Attempt]:
        where, within = pc.field("slice_start") == slice_start, Within.only("slice_start", slice_start)
        return _in_order(self._newest(where, within))

    def holders(self, now: datetime, table: OpenTable | None = None) -> list[Attempt]:
        """The attempts that hold the lease at `now`: their claims have not expired, and belong to no dead
        process of this host. `table` is the version to read, by default as of now.
        """
        files = self.folder.files(table=table)
        where = (pc.field("expires_at") > now) & (pc.field("outcome") == OPEN)
        within = _without_ended(files).within(Within("expires_at", now, None), Within.only("outcome", OPEN))
        alive = [
            run_id
            for run_id, row in self._newest(where, files=within).items()
            if not is_dead(row.owner or "")
        ]
        # The row that ends an attempt may have the first expiry of its claim, and renewals have later ones:
        # the filter above has passed only the renewals. So all rows of the attempt are read.
        newest_rows = (
            self._newest(pc.field("run_id") == run_id, Within.only("run_id", run_id), files)[run_id]
            for run_id in alive
        )
        return [row for row in newest_rows if row.outcome == OPEN]

    def _newest(
        self,
        where: pc.Expression | None = None,
        within: Within | None = None,
        files: StoredFiles | None = None,
    ) -> dict[str, Attempt]:
        newest: dict[str, Attempt] = {}
        if files is None:
            files = self.folder.files()
        if within is not None:
            files = files.within(within)
        rows = files.read(self.folder.schema.names, where)
        for values in rows.to_pylist():
            row = Attempt(**values)
            if row.run_id not in newest or _order(newest[row.run_id]) <= _order(row):
                newest[row.run_id] = row
        return newest


def _in_order(newest_rows: dict[str, Attempt]) -> list[Attempt]:
    return sorted(
        (row for row in newest_rows.values() if not row.is_upkeep), key=lambda row: (row.at, _progress(row))
    )


def _without_ended(files: StoredFiles) -> StoredFiles:
    """`files` without those that hold only rows of ended attempts, by the bounds of run_id and outcome in the
    log ("claimed" is the least outcome), as far as the log has them. Chains of short slices leave many.
    """
    actions = files.actions
    if not {"min.run_id", "max.run_id", "min.outcome"} <= set(actions.column_names):
        return files
    run_ids = actions.column("min.run_id")
    is_of_one = pc.fill_null(pc.equal(run_ids, actions.column("max.run_id")), False)
    has_ended = pc.fill_null(pc.greater(actions.column("min.outcome"), OPEN), False)
    ended_run_ids = run_ids.filter(pc.and_(is_of_one, has_ended))
    is_of_ended = pc.and_(is_of_one, pc.is_in(run_ids, ended_run_ids))
    return replace(files, actions=actions.filter(pc.invert(is_of_ended)))


def _order(row: Attempt) -> tuple[int, datetime]:
    return _progress(row), row.at


def _progress(row: Attempt) -> int:
    return _PROGRESS.get(row.outcome, _PROGRESS_AT_THE_END)


class AttemptsWriter(AttemptsReader):
    def record(self, attempt: Attempt, now: datetime, **changes: object) -> Attempt:
        """Append `attempt` with `changes` at the time `now`; returns the new row."""
        row = replace(attempt, **{**changes, "at": now})  # type: ignore[arg-type]
        self.folder.append(self._arrow(row), searched_columns=_SEARCHED_COLUMNS)
        return row

    def claim(
        self,
        attempt: Attempt,
        clock: Callable[[], datetime],
        rivals: Callable[[Attempt], bool] = lambda holder: True,
    ) -> Attempt | None:
        """Take the lease: append `attempt` as claimed, with its number among the tries at its slice, and
        return that row; None when a holder for whom `rivals` is true (one on the same branch) has it. Of two
        claims at once one wins.
        """
        table, is_as_of_now = self.folder.newest_known_or_made(), False
        while True:
            now = clock()
            is_held = any(map(rivals, self.holders(now, table)))
            if is_held and is_as_of_now:
                return None
            if not is_held:
                row = replace(
                    attempt,
                    attempt=self.tries(attempt.slice_start, attempt.slice_end, table) + 1,
                    owner=this_process(),
                    claimed_at=now,
                    expires_at=now + LEASE,
                    outcome=OPEN,
                    at=now,
                )
                with suppress(CommitConflict):
                    self.folder.append(
                        self._arrow(row), expected_table=table, searched_columns=_SEARCHED_COLUMNS
                    )
                    return row
            table, is_as_of_now = self.folder.ensure(), True

    def _arrow(self, row: Attempt) -> pa.Table:
        return pa.Table.from_pylist([asdict(row)], schema=self.folder.schema)
