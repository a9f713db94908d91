"""Leases while their holder is at work: the thread that renews one, and the lease of upkeep.

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

How a claim is stored and which holders are dead is the business of `slackwater.jobs.tables.ledger.attempts`.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from slackwater.jobs.errors import LostRaceError, SlackwaterError
from slackwater.jobs.tables.ledger.attempts import LEASE, UPKEEP, Attempt, AttemptsWriter

log = logging.getLogger("slackwater")


class LeaseHeld(LostRaceError):
    """Another run of the same lineage is alive, or another upkeep of the same tables."""


@contextmanager
def renewed(
    attempts: AttemptsWriter, attempt: Attempt, clock: Callable[[], datetime], every: timedelta = LEASE / 3
) -> Iterator[None]:
    """Renew the lease of `attempt` while the block runs."""
    has_ended = threading.Event()

    def renew() -> None:
        pause = every
        while not has_ended.wait(pause.total_seconds()):
            now = clock()
            try:
                attempts.record(attempt, now, expires_at=now + LEASE)
                pause = every
            except Exception as error:  # noqa: BLE001 - whatever it is may be over in a moment; the holder works on
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
    """The block as the only upkeep of a pipeline's tables, recorded as an attempt at no slice.

    Raises:
        LeaseHeld: another one is at work; with who.
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
    claimed = attempts.claim(attempt, clock, rivals=lambda holder: holder.is_upkeep)
    if claimed is None:
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
        with renewed(attempts, claimed, clock):
            yield
    except BaseException as error:
        code = error.exit_code if isinstance(error, SlackwaterError) else 1
        _record_end(attempts, claimed, clock, outcome="failed", exit_code=code, error=str(error))
        raise
    _record_end(attempts, claimed, clock, outcome="committed", exit_code=0)


def _record_end(
    attempts: AttemptsWriter, claimed: Attempt, clock: Callable[[], datetime], **outcome: Any
) -> None:
    """Give the claim back. Where that fails it expires, and what the block has done or raised is what
    counts.
    """
    try:
        attempts.record(claimed, clock(), **outcome)
    except SlackwaterError as error:
        log.warning(f"the end of upkeep can't be recorded: {error}", extra={"run_id": claimed.run_id})
