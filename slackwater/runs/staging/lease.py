"""Leases while their holder is at work: the claim of a slice, the thread that renews a lease, and the lease
of upkeep.

A claim is a row appended to `attempts` by compare-and-swap, and refused while a rival's lease has not
expired. It is renewed three times a lease, so that a renewal may fail, and a dead holder blocks others for
one lease at most:

    holder   claim --- renew --- renew --- dies
    lease    |-----------------|
                       |-----------------|
                                 |-----------------| expires
    rival         refused   refused   refused        claim

A lease is advisory: it saves two processes from doing the same work, and protects no table. Two runs that
both believe they hold it meet at the ledger's compare-and-swap, where one loses and changes nothing.

`slackwater.tables.ledger.attempts` stores claims and says which holders are dead.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from slackwater.errors import LostRaceError, SlackwaterError
from slackwater.tables.ledger.attempts import LEASE, UPKEEP, Attempt, AttemptsWriter
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import MAIN, LedgerRow

log = logging.getLogger("slackwater")


class LeaseHeld(LostRaceError):
    """Another run of the same lineage is alive, or another upkeep of the same tables."""


def claim_slice(
    pipeline: str,
    attempts: AttemptsWriter,
    attempt: Attempt,
    is_rival: Callable[[Attempt], bool],
    clock: Callable[[], datetime],
) -> Attempt:
    """Claim the slice of `attempt`, and return the attempt as it was recorded. `is_rival` says whether the
    holder of another claim works on the same branch. Raises LeaseHeld: a rival is alive; with its name and
    slice.
    """
    claim = attempts.claim(attempt, clock, is_rival)
    if claim is None:
        holders = [holder for holder in attempts.holders(clock()) if is_rival(holder)]
        who = (
            f"{holders[0].owner} holds the lease for {holders[0].slice_start:%Y-%m-%dT%H:%M}"
            if holders
            else "the lease is held"
        )
        raise LeaseHeld(
            f"{pipeline}: another run is alive: {who}. Nothing was changed; try again when it has ended."
        )
    return claim


def rival_on_branch_of(parent: LedgerRow | None, ledger: LedgerReader) -> Callable[[Attempt], bool]:
    """A function that says whether the holder of a claim works on the branch of `parent`, or on main where
    there is no parent. Neither a restatement, which has a branch of its own, nor upkeep is a rival.
    """
    branch_of_parent = MAIN if parent is None else parent.branch

    def is_rival(holder: Attempt) -> bool:
        if holder.is_upkeep:
            return False
        # Only main's runs continue a slice that is staged and has no seq yet.
        branch = ledger.row(holder.parent_seq).branch if holder.parent_seq else MAIN
        return branch == branch_of_parent

    return is_rival


@contextmanager
def renewing_lease(
    attempts: AttemptsWriter, attempt: Attempt, clock: Callable[[], datetime], every: timedelta = LEASE / 3
) -> Iterator[None]:
    has_ended = threading.Event()

    def renew() -> None:
        pause = every
        while not has_ended.wait(pause.total_seconds()):
            now = clock()
            try:
                attempts.record(attempt, now, expires_at=now + LEASE)
                pause = every
            except Exception as error:  # noqa: BLE001 - a failed renewal is tried again; the holder works on
                log.warning(f"the lease can't be renewed: {error}", extra={"run_id": attempt.run_id})
                pause = every / 6

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@contextmanager
def only_upkeep(pipeline: str, attempts: AttemptsWriter, clock: Callable[[], datetime]) -> Iterator[None]:
    """Run the block as the only upkeep of a pipeline's tables. It is recorded as an attempt at no slice.
    Raises LeaseHeld: another upkeep is at work.
    """
    now = clock()
    attempt = Attempt(
        run_id=f"{UPKEEP}-{uuid.uuid4().hex[:16]}",
        parent_seq=None,
        slice_start=now,
        slice_end=now,
        step=UPKEEP,
        at=now,
    )
    claim = attempts.claim(attempt, clock, rivals=lambda holder: holder.is_upkeep)
    if claim is None:
        holders = [holder for holder in attempts.holders(clock()) if holder.is_upkeep]
        who = (
            f"{holders[0].owner}, since {holders[0].claimed_at:%Y-%m-%dT%H:%M:%SZ}"
            if holders
            else "another process"
        )
        raise LeaseHeld(
            f"{pipeline}: upkeep of its tables is at work already: {who}. Nothing was changed; run the same "
            "command again when it "
            "has ended."
        )
    try:
        with renewing_lease(attempts, claim, clock):
            yield
    except BaseException as error:
        code = error.exit_code if isinstance(error, SlackwaterError) else 1
        _record_end(attempts, claim, clock, outcome="failed", exit_code=code, error=str(error))
        raise
    _record_end(attempts, claim, clock, outcome="committed", exit_code=0)


def _record_end(
    attempts: AttemptsWriter, claim: Attempt, clock: Callable[[], datetime], **outcome: Any
) -> None:
    """Give the claim back; if that fails it expires, and the outcome of the block is not hidden."""
    try:
        attempts.record(claim, clock(), **outcome)
    except SlackwaterError as error:
        log.warning(f"the end of upkeep can't be recorded: {error}", extra={"run_id": claim.run_id})
