"""Which snapshots a pipeline keeps: a pure decision on ledger rows, attempts and the run ids that the
snapshot tables hold.

Knows no table. Whatever it does not recognise it keeps.
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
# A claim that has expired may still be of a process that lives: its renewals fail, or one of the two clocks
# is wrong. What it has staged is kept for so much longer.
_DOUBT = timedelta(days=7)


@dataclass(frozen=True)
class Rule:
    """How many of main's newest snapshots are kept, and of the older ones the last in each period of this
    length (from 1970 on).
    """

    newest: int
    period: timedelta


@dataclass(frozen=True)
class Lineage:
    """All that decides what is needed, read in this order, so that what is staged or committed meanwhile is
    seen or is not listed.

    Attributes:
        attempts: how every attempt stands.
        rows: the whole ledger, oldest first.
        branches: those beside main that were not dropped.
    """

    attempts: Sequence[Attempt]
    rows: Sequence[LedgerRow]
    branches: Sequence[Branch]


def needed(lineage: Lineage, rule: Rule, now: datetime) -> set[str]:
    """Run ids whose snapshots are kept: main's by the rule; what its newest rows continued, so that a restore
    can take them back; all of branches; attempts that may still be published."""
    by_seq = {row.seq: row for row in lineage.rows}
    main = [row for row in lineage.rows if row.branch == MAIN]
    keep: set[int] = set()
    if main:
        keep |= _by_rule([by_seq[seq] for seq in seqs_of(main[-1].live)], rule)
        keep |= {row.live[-1].last_seq for row in main[-rule.newest :] if row.live}
    for branch in lineage.branches:
        keep |= set(branch.own_seqs)
        keep |= {row.live[-1].last_seq for row in (branch.fork, branch.head) if row.live}
    heads: set[str | None] = {
        main[-1].run_id if main else None,
        *(branch.head.run_id for branch in lineage.branches),
    }
    return {by_seq[seq].run_id for seq in keep} | _publishable(lineage, heads, now)


def _by_rule(live: Sequence[LedgerRow], rule: Rule) -> set[int]:
    """Seqs of the newest live runs, and of the last one in each period."""
    last_in: dict[int, int] = {}
    for row in live:
        if row.slice_end is not None:
            last_in[(row.slice_end - EPOCH - timedelta(microseconds=1)) // rule.period] = row.seq
    return {row.seq for row in live[-rule.newest :]} | set(last_in.values())


def _publishable(lineage: Lineage, heads: set[str | None], now: datetime) -> set[str]:
    """Attempts that may be at work, and those staged on a head (None: on nothing), directly or one on the
    other.
    """
    standing = {attempt.run_id: attempt for attempt in lineage.attempts}
    committed = {row.run_id for row in lineage.rows}
    found: set[str] = set()
    for attempt in lineage.attempts:
        if attempt.run_id in committed:
            continue
        if attempt.outcome == "claimed":
            may_be_alive = attempt.expires_at is None or attempt.expires_at + _DOUBT > now
            if may_be_alive and not is_dead(attempt.owner or ""):
                found.add(attempt.run_id)
        elif attempt.outcome in _MAY_BE_PUBLISHED and _root(attempt, standing, committed) in heads:
            found.add(attempt.run_id)
    return found


def _root(attempt: Attempt, standing: dict[str, Attempt], committed: set[str]) -> str | None:
    """The committed run on which a chain of staged ones stands; None where it begins the lineage."""
    parent: str | None = attempt.run_id
    while parent is not None and parent not in committed:
        staged = standing.get(parent)
        if staged is None or staged.ledger_row is None:
            return ""
        parent, _ = unpack(staged.ledger_row)
    return parent


def droppable(stored: Iterable[str], lineage: Lineage, rule: Rule, now: datetime) -> list[str]:
    """Of the run ids that the snapshot tables hold, those that nothing needs, sorted. Those that neither the
    ledger nor `attempts` knows are left alone."""
    known = {row.run_id for row in lineage.rows if row.kind in RUN_KINDS} | {
        attempt.run_id for attempt in lineage.attempts
    }
    return sorted((set(stored) & known) - needed(lineage, rule, now))
