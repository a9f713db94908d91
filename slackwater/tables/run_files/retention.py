"""Decides which snapshots a pipeline keeps, from ledger rows, attempts and the run ids in the snapshot
tables. Unknown run ids are kept. Pure functions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables.ledger.attempts import Attempt, is_dead
from slackwater.tables.ledger.rows import RUN_KINDS, Branch, LedgerRow
from slackwater.tables.ledger.spans import seq_numbers
from slackwater.tables.run_files.staging import unpack
from slackwater.windowing.columnar.arrays.columns import Longs

_MAY_BE_PUBLISHED = ("staged", "rejected")
# The process of an expired claim may still live: its renewals fail, or one of the two clocks is wrong. What
# it has staged is kept for so much longer.
_DOUBT = timedelta(days=7)


@dataclass(frozen=True)
class Rule:
    """Keep the `newest` snapshots of main, and the last older one in each `period`, counted from 1970 on."""

    newest: int
    period: timedelta


@dataclass(frozen=True)
class RetentionFacts:
    """What the decision is made from, read in this order: an attempt that commits meanwhile is then in
    `rows`, and a run that was claimed later is unknown, so its snapshot is kept.

    Attributes:
        attempts: the newest row of every attempt.
        rows: the columns seq, run_id, kind and slice_end of the whole ledger, oldest row first.
        newest_rows: main's newest rows, oldest first, at least as many as a rule keeps.
        branches: all except main that were not dropped.
    """

    attempts: Sequence[Attempt]
    rows: pa.Table
    newest_rows: Sequence[LedgerRow]
    branches: Sequence[Branch]
    _runs_by_rule: "dict[Rule, tuple[set[str], set[str | None]]]" = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def committed_run_ids(self) -> set[str]:
        return set(self.rows.column("run_id").to_pylist())

    @cached_property
    def known_run_ids(self) -> set[str]:
        is_run = pc.is_in(self.rows.column("kind"), value_set=pa.array(sorted(RUN_KINDS), pa.string()))
        run_ids = self.rows.column("run_id").filter(is_run).to_pylist()
        return {*run_ids, *(attempt.run_id for attempt in self.attempts)}

    def needed_by_lineage(self, rule: Rule) -> tuple[set[str], set[str | None]]:
        """(the run ids that main and the branches need, the run ids of their heads or None)."""
        if rule not in self._runs_by_rule:
            self._runs_by_rule[rule] = _needed_by_lineage(self, rule)
        return self._runs_by_rule[rule]


def run_ids_to_keep(facts: RetentionFacts, rule: Rule, now: datetime) -> set[str]:
    """The run ids whose snapshots are kept: on main by the rule, and what main's newest rows continue, so
    that a restore can go back there; all of branches; attempts that may still be published.
    """
    needed_run_ids, heads = facts.needed_by_lineage(rule)
    return needed_run_ids | _publishable(facts, heads, now)


def _needed_by_lineage(facts: RetentionFacts, rule: Rule) -> tuple[set[str], set[str | None]]:
    main, seqs = facts.newest_rows, facts.rows.column("seq").to_numpy()
    keep: set[int | None] = set()
    if main:
        live = seq_numbers(main[-1].live)
        slice_ends = facts.rows.column("slice_end").take(pa.array(np.searchsorted(seqs, live)))
        keep |= _by_rule(live, slice_ends, rule)
        keep |= {row.last_live_seq for row in main[-rule.newest :]}
    for branch in facts.branches:
        keep |= set(branch.own_seqs)
        keep |= {row.last_live_seq for row in (branch.fork, branch.head)}
    heads: set[str | None] = {
        main[-1].run_id if main else None,
        *(branch.head.run_id for branch in facts.branches),
    }
    # Runs that a branch has got since `rows` were read are not known, and are kept.
    is_kept = np.isin(seqs, [seq for seq in keep if seq is not None])
    return set(facts.rows.column("run_id").filter(pa.array(is_kept)).to_pylist()), heads


def _by_rule(live: Longs, slice_ends: pa.ChunkedArray, rule: Rule) -> set[int]:
    """Seqs of the newest live runs, and of the last one in each period. `live` is in slice order."""
    last_instants = slice_ends.cast(pa.int64()).to_numpy() - 1
    periods_newest_first = (last_instants // (rule.period // timedelta(microseconds=1)))[::-1]
    _, places = np.unique(periods_newest_first, return_index=True)
    return {*live[-rule.newest :].tolist(), *live[::-1][places].tolist()}


def _publishable(facts: RetentionFacts, heads: set[str | None], now: datetime) -> set[str]:
    """The run ids of attempts that may be at work, or are staged on one of `heads` (None: on nothing),
    directly or on another staged attempt.
    """
    attempts_by_run_id = {attempt.run_id: attempt for attempt in facts.attempts}
    committed_run_ids = facts.committed_run_ids
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
    """The run id of the committed run below a chain of staged attempts; None where the chain begins the
    lineage, "" where it can't be followed.
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
    """The known run ids among `stored_run_ids` whose snapshots are not kept, sorted."""
    droppable = set(stored_run_ids) & facts.known_run_ids
    return sorted(droppable - run_ids_to_keep(facts, rule, now))
