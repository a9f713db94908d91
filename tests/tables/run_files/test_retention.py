"""Kept snapshots are main's newest, the last of each period, and those that can still be published or
restored; expected run ids are chosen by hand.
"""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from slackwater.tables.ledger.attempts import Attempt, this_process
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.tables.ledger.spans import Span
from slackwater.tables.run_files.retention import RetentionFacts, Rule, droppable_run_ids
from slackwater.tables.run_files.staging import pack
from tests.tables.ledger.ledger_rows import clock, day, run_row

DAYS = timedelta(days=1)


def chain(count: int, days: int = 1) -> list[LedgerRow]:
    """Runs 1 to n of main, one a day, which are all live."""
    return [
        run_row(
            f"r{seq}",
            seq=seq,
            live=(Span(1, seq),),
            slice_start=day((seq - 1) * days),
            slice_end=day(seq * days),
        )
        for seq in range(1, count + 1)
    ]


def attempt(run_id: str, outcome: str, **changes: object) -> Attempt:
    return replace(
        Attempt(
            run_id=run_id, parent_seq=None, slice_start=day(0), slice_end=day(1), at=clock(), outcome=outcome
        ),
        **changes,
    )


def facts_of(rows: list[LedgerRow], attempts: list[Attempt], branches: list[Branch]) -> RetentionFacts:
    columns = pa.table(
        {
            "seq": pa.array([row.seq for row in rows], pa.int64()),
            "run_id": pa.array([row.run_id for row in rows], pa.string()),
            "kind": pa.array([row.kind for row in rows], pa.string()),
            "slice_end": pa.array([row.slice_end for row in rows], pa.timestamp("us", tz="UTC")),
        }
    )
    return RetentionFacts(attempts, columns, [row for row in rows if row.branch == MAIN], branches)


def run_ids_left(
    rows: list[LedgerRow],
    rule: Rule,
    attempts: list[Attempt] | None = None,
    branches: list[Branch] | None = None,
) -> set[str]:
    """Run ids that stay, of all that there are."""
    stored_run_ids = {row.run_id for row in rows} | {one.run_id for one in attempts or []} | {"a stranger"}
    return (
        stored_run_ids
        - set(
            droppable_run_ids(stored_run_ids, facts_of(rows, attempts or [], branches or []), rule, clock())
        )
        - {"a stranger"}
    )


def test_the_newest_stay_and_the_last_of_each_period() -> None:
    # Periods of five days from 1970 on: 2013-01-01 is day 15706, the second of its period, so periods end
    # behind the runs 4, 9 and 14.
    assert run_ids_left(chain(12), Rule(3, 5 * DAYS)) == {"r4", "r9", "r10", "r11", "r12"}
    assert run_ids_left(chain(12), Rule(1, 1000 * DAYS)) == {"r12"}
    assert run_ids_left(chain(3), Rule(30, DAYS)) == {"r1", "r2", "r3"}


def test_run_ids_that_no_row_has_are_kept() -> None:
    assert "a stranger" not in droppable_run_ids(
        {"a stranger", "r1"}, facts_of(chain(5), [], []), Rule(1, 1000 * DAYS), clock()
    )


def test_snapshots_that_mains_newest_rows_continue_are_kept() -> None:
    rows = chain(6)
    restore_row = run_row(
        "back", seq=7, kind="restore", live=(Span(1, 2),), slice_start=day(0), slice_end=day(2)
    )
    assert run_ids_left([*rows, restore_row], Rule(2, 1000 * DAYS)) == {"r1", "r2", "r6", "back"}, (
        "r6 is what main was before the restore"
    )
    assert run_ids_left([*rows, restore_row], Rule(1, 1000 * DAYS)) == {"r2", "back"}


def test_a_branch_keeps_its_own_runs_and_what_it_forks_from() -> None:
    fork = run_row("fork", seq=7, kind="fork", branch="side", live=(Span(1, 2),), parent_seq=2)
    run_on_branch = run_row(
        "own", seq=8, branch="side", live=(Span(1, 2), Span(8, 8)), slice_start=day(2), slice_end=day(3)
    )
    rows = [*chain(6), fork, run_on_branch]
    assert run_ids_left(rows, Rule(1, 1000 * DAYS), branches=[Branch(fork, run_on_branch)]) == {
        "r2",
        "r6",
        "own",
        "fork",
    }
    assert run_ids_left(rows, Rule(1, 1000 * DAYS)) == {"r6", "fork"}, "the branch was dropped"


def test_attempts_that_can_still_be_published_stay() -> None:
    rows = chain(3)
    staged_attempt = attempt("s4", "staged", ledger_row=pack(run_row("s4"), rows[2], {}))
    after = attempt("s5", "rejected", ledger_row=pack(run_row("s5"), run_row("s4"), {}))
    stale_attempt = attempt("old", "staged", ledger_row=pack(run_row("old"), rows[1], {}))
    assert run_ids_left(
        rows, Rule(1, 1000 * DAYS), [staged_attempt, after, stale_attempt, attempt("f", "failed")]
    ) == {
        "r3",
        "s4",
        "s5",
    }
    begins = attempt("s1", "staged", ledger_row=pack(run_row("s1"), None, {}))
    assert run_ids_left([], Rule(1, DAYS), [begins]) == {"s1"} and run_ids_left(
        rows, Rule(1, 1000 * DAYS), [begins]
    ) == {"r3"}


def test_attempts_at_work_stay_and_dead_ones_do_not() -> None:
    later, earlier = clock() + DAYS, clock() - 8 * DAYS
    alive = attempt("alive", "claimed", owner=this_process(), expires_at=later)
    expired_claim = attempt("expired", "claimed", owner="elsewhere/boot.1/1/1", expires_at=earlier)
    dead = attempt("dead", "claimed", owner=this_process().rsplit("/", 1)[0] + "/1", expires_at=later)
    claim_without_lease = attempt("unleased", "claimed")
    assert run_ids_left([], Rule(1, DAYS), [alive, expired_claim, dead, claim_without_lease]) == {
        "alive",
        "unleased",
    }


def test_a_claim_that_has_just_expired_may_be_of_a_process_that_lives() -> None:
    """Its clock went back, ours is wrong, or its renewals fail; what it stages is published all the same."""
    attempt_behind = attempt(
        "behind", "claimed", owner="elsewhere/boot.1/1/1", expires_at=clock() - timedelta(hours=1)
    )
    assert run_ids_left([], Rule(1, DAYS), [attempt_behind]) == {"behind"}
