"""Decides which snapshots a pipeline keeps, from ledger rows, attempts and the run ids that the snapshot
tables hold. Pure functions.

Knows no table. Run ids that it does not know are kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.jobs.tables.ledger.attempts import Attempt
from slackwater.jobs.tables.ledger.owners import is_dead
from slackwater.jobs.tables.ledger.row_kinds import RUN_KINDS
from slackwater.jobs.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.jobs.tables.ledger.spans import seqs_of
from slackwater.jobs.tables.run_files.staging import unpack
from slackwater.windowing.times import EPOCH

_MAY_BE_PUBLISHED = ("staged", "rejected")
# The process of an expired claim may still live: its renewals fail, or one of the two clocks is wrong. What
# it has staged is kept for so much longer.
_DOUBT = timedelta(days=7)


@dataclass(frozen=True)
class Rule:
    """Kept are the `newest` snapshots of main, and of the older ones the last in each `period`, counted from
    1970 on.
    """

    newest: int
    period: timedelta


@dataclass(frozen=True)
class RetentionFacts:
    """The rows on which the decision rests.

    They are read in this order: an attempt that commits meanwhile is then in `rows`, and a run that was not
    even claimed when `attempts` was read is unknown here, so its snapshot is kept.

    Attributes:
        attempts: the newest row of every attempt.
        rows: the whole ledger, oldest first.
        branches: those beside main that were not dropped.
    """

    attempts: Sequence[Attempt]
    rows: Sequence[LedgerRow]
    branches: Sequence[Branch]


def run_ids_to_keep(facts: RetentionFacts, rule: Rule, now: datetime) -> set[str]:
    """The run ids of which the snapshots are kept: main's by the rule; those that main's newest rows
    continue, so that a restore can go back to them; all of branches; those of attempts that may still be
    published.
    """
    by_seq = {row.seq: row for row in facts.rows}
    main = [row for row in facts.rows if row.branch == MAIN]
    keep: set[int] = set()
    if main:
        keep |= _by_rule([by_seq[seq] for seq in seqs_of(main[-1].live)], rule)
        keep |= {row.live[-1].last_seq for row in main[-rule.newest :] if row.live}
    for branch in facts.branches:
        keep |= set(branch.own_seqs)
        keep |= {row.live[-1].last_seq for row in (branch.fork, branch.head) if row.live}
    heads: set[str | None] = {
        main[-1].run_id if main else None,
        *(branch.head.run_id for branch in facts.branches),
    }
    return {by_seq[seq].run_id for seq in keep} | _publishable(facts, heads, now)


def _by_rule(live: Sequence[LedgerRow], rule: Rule) -> set[int]:
    """Seqs of the newest live runs, and of the last one in each period."""
    last_in: dict[int, int] = {}
    for row in live:
        if row.slice_end is not None:
            last_in[(row.slice_end - EPOCH - timedelta(microseconds=1)) // rule.period] = row.seq
    return {row.seq for row in live[-rule.newest :]} | set(last_in.values())


def _publishable(facts: RetentionFacts, heads: set[str | None], now: datetime) -> set[str]:
    """The run ids of attempts that may be at work, and of those staged on one of `heads` (None: on nothing),
    directly or on another staged attempt.
    """
    attempts_by_run_id = {attempt.run_id: attempt for attempt in facts.attempts}
    committed_run_ids = {row.run_id for row in facts.rows}
    publishable: set[str] = set()
    for attempt in facts.attempts:
        if attempt.run_id in committed_run_ids:
            continue
        if attempt.outcome == "claimed":
            may_be_alive = attempt.expires_at is None or attempt.expires_at + _DOUBT > now
            if may_be_alive and not is_dead(attempt.owner or ""):
                publishable.add(attempt.run_id)
        elif (
            attempt.outcome in _MAY_BE_PUBLISHED
            and _root(attempt, attempts_by_run_id, committed_run_ids) in heads
        ):
            publishable.add(attempt.run_id)
    return publishable


def _root(
    attempt: Attempt, attempts_by_run_id: dict[str, Attempt], committed_run_ids: set[str]
) -> str | None:
    """The run id of the committed run on which a chain of staged attempts is based; None where the chain
    begins the lineage, "" where it can't be followed.
    """
    parent: str | None = attempt.run_id
    while parent is not None and parent not in committed_run_ids:
        parent_attempt = attempts_by_run_id.get(parent)
        if parent_attempt is None or parent_attempt.ledger_row is None:
            return ""
        parent, _ = unpack(parent_attempt.ledger_row)
    return parent


def droppable_run_ids(
    stored_run_ids: Iterable[str], facts: RetentionFacts, rule: Rule, now: datetime
) -> list[str]:
    """Those of `stored_run_ids`, which the snapshot tables hold, whose snapshots are not kept, sorted. A run
    id that neither the ledger nor `attempts` has is never among them.
    """
    known_run_ids = {row.run_id for row in facts.rows if row.kind in RUN_KINDS} | {
        attempt.run_id for attempt in facts.attempts
    }
    return sorted((set(stored_run_ids) & known_run_ids) - run_ids_to_keep(facts, rule, now))
