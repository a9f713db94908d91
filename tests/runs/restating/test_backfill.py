"""A range that is restated: when it has met main again, what it makes live, and what happens when others are
at work too.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.args import Manifest, read_manifest
from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.errors import LostRaceError, RetryableError
from slackwater.pipelines import agg, expect
from slackwater.runs.outcome import report_to
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating import backfill
from slackwater.runs.restating.backfill import MainMoved
from slackwater.runs.restating.publish_branch import ChangedSinceShown
from slackwater.runs.staging.run import Runner, wall_clock
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.writer import LedgerWriter
from tests.runs.world import DAILY, Event, World, every_hour, moment, ms, multiset, perfect

pytestmark = pytest.mark.slow

DAYS = 4
END = 24 * DAYS


@pytest.fixture(scope="module")
def four_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days, run day by day; each day's rows are a file of their own. Not to be written."""
    world = World(tmp_path_factory.mktemp("base") / "world")
    for day in range(DAYS):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(END)
    return world.folder


@pytest.fixture
def world(four_days: Path, tmp_path: Path) -> World:
    return World(shutil.copytree(four_days, tmp_path / "world"))


@pytest.fixture
def is_perfect(tmp_path: Path) -> Callable[[World], None]:
    """That the tables are as if the source, as it is now, had been run once."""

    def check(world: World) -> None:
        assert world.left() == perfect(world, tmp_path / "perfect")

    return check


def corrected(day: int, x: int = 5) -> list[Event]:
    """A day's rows with other values."""
    return every_hour(24 * day, 24 * day + 24, x=x)


def straggler(hours: float, row: int = 1000) -> Event:
    """One more row of an hour."""
    return Event(hours, hours + 0.6, row, x=100)


def replayed(world: World) -> list[tuple[float, float]]:
    """The slices of the runs that branches have made."""
    return world.slices(
        [row for row in world.ledger.rows(since=DAYS) if row.kind == "run" and row.branch != "main"]
    )


# --- convergence


def test_corrected_rows_are_restated_until_main_is_met_again_and_no_further(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(24, 48, corrected(1))
    row = world.backfill(24, 48, reason="a wrong unit")
    assert row is not None and (row.kind, row.verdict) == ("publish", "passed; reason: a wrong unit")
    assert replayed(world) == [(24, 48), (48, 72)], (
        "what the second day has left open is gone after the third"
    )
    assert world.slices(world.ledger.live_runs(world.main)) == [
        (24 * day, 24 * day + 24) for day in range(DAYS)
    ]
    is_perfect(world)
    assert (
        "daily: at 2013-01-03T00:00:00Z the branch has not converged: the open windows differ." in world.said
    )
    # 12 windows a day; those that end at midnight are fired in the next day's slice.
    assert world.said[-1] == f"daily: published as run {row.seq}; 12 rows updated in `published`, on 1 day."
    assert world.ledger.branches() == [], "its runs are main's now"


def test_equal_state_made_by_other_code_is_no_convergence(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.pipeline = replace(DAILY, select={"n": agg.count(), "total": agg.sum("x", where="x > 0")})
    world.code = "other code"
    world.rewrite(0, 24, corrected(0))
    row = world.backfill(0, 24)
    assert row is not None and replayed(world) == [(24 * day, 24 * day + 24) for day in range(DAYS)]
    assert (
        "daily: at 2013-01-03T00:00:00Z the branch has not converged: main's later runs were made by other "
        "code or settings." in world.said
    )
    is_perfect(world)


def test_equal_state_is_enough_where_it_was_asked_for_and_the_ledger_says_so(world: World) -> None:
    world.rewrite(24, 48, corrected(1))
    world.code = "other code"
    row = world.backfill(24, 48, whatever_the_code=True)
    assert row is not None and row.verdict == "passed; until converged: code and settings were not compared"
    assert replayed(world) == [(24, 48), (48, 72)]


@pytest.mark.first_fast
@pytest.mark.parametrize("row", [straggler(27), Event(27, None, 1000)], ids=["folded in", "quarantined"])
def test_a_row_that_main_has_read_later_is_not_read_twice(
    tmp_path: Path, row: Event, is_perfect: Callable[[World], None]
) -> None:
    world = World(tmp_path / "world")
    for day in range(2):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(48)
    world.append(
        [row]
    )  # if it has a window, that has been cleaned up by now: it leaves no trace in the state
    for day in range(2, 4):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(96)
    assert [run.rows_folded + run.rows_quarantined for run in world.ledger.live_runs(world.main)] == [
        0,
        0,
        1,
        0,
    ]
    world.backfill(24, 48)
    assert any(
        "2013-01-03T00:00:00Z the branch has not converged: run 3 has taken in rows" in line
        for line in world.said
    ), world.said
    assert "daily: at 2013-01-04T00:00:00Z the branch has converged." in world.said
    is_perfect(world)


def test_what_a_converged_restatement_has_read_is_not_folded_in_by_the_next_run(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([straggler(27)])
    world.append(every_hour(END, END + 24))
    world.backfill(24, 48)
    assert any("has converged" in line for line in world.said)
    [row] = world.run(END + 24)
    assert row.rows_folded == 0
    is_perfect(world)


def test_a_row_without_an_arrival_is_quarantined_once_whoever_reads_it_first(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([Event(27, None, 1000)])
    world.append(every_hour(END, END + 24))
    world.backfill(24, 48)
    world.run(END + 24)
    assert len(world.live("quarantine")) == 1
    is_perfect(world)


# --- sources that change under a lineage


def test_a_rewritten_source_is_refused_with_the_way_out_and_a_restatement_is_the_way_out(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(24, 48, corrected(1))
    world.append(every_hour(END, END + 24))
    with pytest.raises(
        SourceRewritten,
        match=r"slackwater backfill daily --from 2013-01-02T00:30:00Z --to 2013-01-02T23:30:00\.001Z",
    ):
        world.run(END + 24)
    with pytest.raises(SourceRewritten, match="--from 2013-01-02T00:30:00Z"):
        world.backfill(48, 72)  # begins behind what was rewritten
    world.backfill(24.5, 48)
    world.run(END + 24)
    is_perfect(world)


def test_rows_that_are_wanted_restated_are_not_folded_in_but_told_until_they_are(
    tmp_path: Path, four_days: Path, is_perfect: Callable[[World], None]
) -> None:
    world = World(tmp_path / "world", replace(DAILY, stragglers="restate"))
    for day in range(2):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(48)
    world.append([straggler(25), straggler(26, 1001)])
    world.append(every_hour(48, 72))
    [row] = world.run(72)
    assert (row.rows_folded, row.verdict) == (0, "warned")
    assert "2 rows appeared after their slices were run" in world.said[-1]
    assert "slackwater backfill daily --from 2013-01-02T00:00:00Z --to 2013-01-03T00:00:00Z" in world.said[-1]
    world.backfill(24, 48)
    world.append(every_hour(72, 96))
    [row] = world.run(96)
    assert row.verdict == "passed"
    is_perfect(world)


# --- others at work


def test_a_branch_is_published_over_a_main_that_has_moved_meanwhile(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([*every_hour(END, END + 24)])
    world.backfill(24, 48, runner=meddled(world, lambda: world.run(END + 24), behind=1))
    assert any("main has moved meanwhile" in line for line in world.said)
    assert world.slices(world.ledger.live_runs(world.main))[-1] == (END, END + 24)
    assert replayed(world) == [(24, 48)], "main's new run stays behind it too"
    is_perfect(world)


def test_a_branch_that_has_not_converged_catches_up_with_a_main_that_has_moved(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append(every_hour(END, END + 24))

    def main_goes_on() -> None:
        World(world.folder).run(END + 24)

    world.code = "other code"
    world.backfill(48, 72, runner=meddled(world, main_goes_on, behind=2))
    assert replayed(world) == [(48, 72), (72, 96), (96, 120)]
    is_perfect(world)


def meddled(world: World, meddle: Callable[[], object], behind: int) -> Runner:
    """A runner that lets something happen once, when so many slices of the branch are committed: after its
    look at main.
    """
    runner = world.runner()
    left = [meddle]

    def clock():
        if left and world.ledger.branches() and len(replayed(world)) == behind:
            left.pop()()
        return runner.clock()

    return replace(runner, clock=clock)


def test_a_branch_that_keeps_losing_is_kept_and_the_same_command_publishes_it(
    world: World, monkeypatch: pytest.MonkeyPatch, is_perfect: Callable[[World], None]
) -> None:
    commit = LedgerWriter.commit

    def losing(self, branch, parent_seq, rows, *others, **named):
        if rows[0].kind == "publish":
            raise LostRaceError("somebody else was first")
        return commit(self, branch, parent_seq, rows, *others, **named)

    world.rewrite(24, 48, corrected(1))
    with monkeypatch.context() as patched:
        patched.setattr(LedgerWriter, "commit", losing)
        with pytest.raises(MainMoved, match="main has moved 3 times") as error:
            world.backfill(24, 48)
    assert error.value.exit_code == 3
    before = replayed(world)
    assert world.main.seq == DAYS and world.backfill(24, 48) is not None
    assert replayed(world) == before, "nothing was run again"
    is_perfect(world)


# --- deaths


def test_a_killed_restatement_goes_on_behind_its_last_finished_slice(
    world: World, monkeypatch: pytest.MonkeyPatch, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(24, 48, corrected(1))
    commit = Publisher.commit

    def dying(self, attempts, rows, parent_seq, branch="main"):
        if len(replayed(world)) == 1:
            raise KeyboardInterrupt
        return commit(self, attempts, rows, parent_seq, branch)

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "commit", dying)
        with pytest.raises(KeyboardInterrupt):
            world.backfill(24, 48)
    staged = [row.run_id for row in world.tables.attempts.newest_rows() if row.outcome == "staged"]
    assert len(staged) == 1 and world.main.seq == DAYS
    world.backfill(24, 48)
    assert replayed(world) == [(24, 48), (48, 72)] and any(
        "goes on with the branch" in line for line in world.said
    )
    lost = [row for row in world.tables["panes"].read().to_pylist() if row["run_id"] in staged]
    assert lost and world.ledger.by_run_id(staged[0]) is None, "what the dead one had staged is nobody's"
    is_perfect(world)


def test_a_restatement_that_dies_behind_its_publication_is_finished_by_the_same_command(
    world: World, monkeypatch: pytest.MonkeyPatch, is_perfect: Callable[[World], None]
) -> None:
    commit = LedgerWriter.commit

    def dying(self, branch, parent_seq, rows, *others, **named):
        bound = commit(self, branch, parent_seq, rows, *others, **named)
        if rows[0].kind == "publish":
            raise KeyboardInterrupt
        return bound

    world.rewrite(24, 48, corrected(1))
    with monkeypatch.context() as patched:
        patched.setattr(LedgerWriter, "commit", dying)
        with pytest.raises(KeyboardInterrupt):
            world.backfill(24, 48)
    published = world.main
    assert published.kind == "publish"
    assert world.backfill(24, 48) == published
    assert world.main == published and world.ledger.branches() == []
    is_perfect(world)


def test_a_branch_is_not_gone_on_with_by_other_code_or_over_other_rows(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(24, 48, corrected(1))
    assert world.backfill(24, 48, publish=False) is None
    world.code = "other code"
    assert world.backfill(24, 48, publish=False) is None
    assert replayed(world) == [(24, 48), (48, 72), (24, 48), (48, 72), (72, 96)]
    world.code = "code"
    world.rewrite(24, 48, corrected(1, x=7))
    world.backfill(24, 48)
    assert replayed(world)[5:] == [(24, 48), (48, 72)], "the first branch has read rows that are gone"
    is_perfect(world)


# --- what else may be asked for


def test_a_preview_goes_on_to_where_it_can_be_published_and_is_published_by_the_same_command(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    before = world.left()
    world.rewrite(24, 48, corrected(1))
    assert world.backfill(24, 48, publish=False) is None
    assert world.left() == before
    [branch] = world.ledger.branches()
    assert branch.name == "preview-20130102t000000-20130103t000000"
    assert replayed(world) == [(24, 48), (48, 72)], "the third day's midnight windows are restated, too"
    assert "`slackwater diff daily --branch preview-20130102t000000-20130103t000000` shows" in world.said[-1]
    world.backfill(24, 48)
    assert len(replayed(world)) == 2 and world.ledger.branches() == []
    is_perfect(world)


def test_a_preview_that_main_has_left_behind_is_looked_at_again_before_it_is_published(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([straggler(75)])
    world.backfill(72, 96, publish=False)
    world.append(every_hour(END, END + 24))
    world.run(END + 24)  # which takes the straggler in, too
    main, before = world.main, world.left()
    with pytest.raises(ChangedSinceShown, match=r"nothing was published.*diff daily --branch preview-"):
        world.backfill(72, 96)
    assert (world.main, world.left()) == (main, before)
    assert replayed(world) == [(72, 96), (96, 120)], "and has caught up, so that it can be looked at"
    row = world.backfill(72, 96)
    assert row is not None and len(replayed(world)) == 2
    is_perfect(world)


def test_a_branch_may_be_cut_otherwise_and_meets_main_at_the_boundaries_that_both_have(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(24, 48, corrected(1))
    world.backfill(24, 48, slice_ms=16 * 3_600_000)
    assert replayed(world) == [(24, 32), (32, 48), (48, 64), (64, 80), (80, 96)]
    assert [line for line in world.said if "converged" in line] == [
        "daily: at 2013-01-03T00:00:00Z the branch has not converged: the open windows differ."
    ], "the third day ends within a slice of the branch"
    is_perfect(world)


def test_a_range_that_ends_behind_the_lineage_replaces_all_of_main_behind_its_start(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(72, 96, corrected(3))
    world.backfill(76, 200)
    assert (
        "daily: from 2013-01-04T04:00:00Z moved to 2013-01-04T00:00:00Z, the last boundary of a slice before "
        "it." in world.said
    )
    assert (
        "daily: to 2013-01-09T08:00:00Z moved to 2013-01-05T00:00:00Z, where the lineage ends." in world.said
    )
    assert replayed(world) == [(72, 96)]
    is_perfect(world)


def test_a_restatement_restates_a_restatement(world: World, is_perfect: Callable[[World], None]) -> None:
    world.rewrite(24, 48, corrected(1))
    world.backfill(24, 48)
    world.rewrite(24, 48, corrected(1, x=7))
    world.append([straggler(30)])
    world.backfill(24, 72)
    world.append(every_hour(END, END + 24))
    world.run(END + 24)
    assert multiset(world.live("panes")) == world.left()["panes"]
    is_perfect(world)


# --- what the task behind it is told


def reported(world: World, manifest: Path, first: float, last: float, **request: Any) -> Manifest:
    """What `backfill --manifest` leaves."""
    asked = backfill.BackfillRequest(world.pipeline.name, ms(first), ms(last), **request)
    work = backfill.Backfill(asked, world.runner, lambda line: None)
    with report_to(manifest, work):
        work.run()
    return read_manifest(manifest)


def test_how_it_ended_is_told_to_the_task_behind_it(world: World, tmp_path: Path) -> None:
    world.rewrite(24, 48, corrected(1))
    kept = reported(world, tmp_path / "manifest", 24, 48, publish=False)
    assert (kept.outcome, kept.exit_code, kept.slices) == (
        "kept",
        0,
        tuple((f"2013-01-{day:02}T00:00:00+00:00", f"2013-01-{day + 1:02}T00:00:00+00:00") for day in (2, 3)),
    )
    assert "is not live" in kept.message
    published = reported(world, tmp_path / "manifest", 24, 48)
    assert (published.outcome, published.exit_code, published.slices) == ("published", 0, ())
    assert published.message.endswith("12 rows updated in `published`, on 1 day.")
    refused = reported(world, tmp_path / "manifest", END, END + 24)
    assert (refused.outcome, refused.exit_code) == ("refused", 2)
    with pytest.raises(RetryableError, match="another run is alive"):
        with_a_branch_held(world, lambda: reported(world, tmp_path / "manifest", 48, 72))
    assert not (tmp_path / "manifest").exists(), "another try may end otherwise"


def with_a_branch_held(world: World, work: Callable[[], object]) -> None:
    """Do `work` while another process is at work on the branch that the work would go on with."""
    world.append([*every_hour(END, END + 24), straggler(50)])
    world.backfill(48, 72, publish=False)  # it has to go on when main has taken in the straggler, too
    [branch] = world.ledger.branches()
    attempts = AttemptsWriter(world.tables["attempts"])
    other = Attempt(
        run_id="other",
        parent_seq=branch.head.seq,
        slice_start=moment(72),
        slice_end=moment(96),
        at=wall_clock(),
    )
    assert attempts.claim(other, wall_clock) is not None
    assert world.run(END + 24) != [], "main is not in its way"
    work()


def test_a_slice_of_a_branch_that_is_rejected_may_be_accepted_and_the_restatement_goes_on(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.pipeline = replace(DAILY, expect=[expect.between("total", max=8)])
    world.rewrite(24, 48, [*every_hour(24, 46, x=5), *every_hour(46, 48)])
    with pytest.raises(SliceRejected) as error:
        world.backfill(24, 48)
    assert replayed(world) == [] and world.main.seq == DAYS
    rejected = world.tables.attempts.newest_rows()[-1]
    assert f"slackwater publish daily {rejected.run_id} --accept REASON" in str(error.value)
    runner = world.runner()
    accepting = Publisher("daily", runner.tables, RollForward.of(world.pipeline, runner.tables, runner.shape))
    [row] = accepting.publish(rejected.run_id, "ten is right")
    assert (row.branch, row.verdict) == ("restate-20130102t000000-20130103t000000", "accepted: ten is right")
    published = world.backfill(24, 48)
    assert published is not None and published.verdict == "accepted: ten is right"
    world.pipeline = DAILY
    is_perfect(world)
