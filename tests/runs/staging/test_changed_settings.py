"""Settings that change between runs, restatements and restores of one lineage: what is published is right,
or the change is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.runs.lineage.moves import Moves
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.publish_branch import BranchPublisher
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import SettingsChanged
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing import CountTrigger, EventTimeTrigger, PurgingTrigger
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, multiset, perfect

PURGING = PurgingTrigger.of(EventTimeTrigger())
BASE = replace(DAILY, slice=4 * HOUR, allowed_lateness=50 * HOUR)
# A window of two hours that fires on time and for three late rows in three slices.
EVENTS = [*every_hour(0, 12), Event(0.5, 4.2, 100), Event(0.6, 4.3, 101), Event(0.7, 9, 102)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world", BASE)
    made.append(EVENTS)
    return made


@pytest.fixture
def declare(world: World) -> Callable[..., None]:
    """Change settings of the pipeline; with equal settings it is as before."""

    def change(**settings: Any) -> None:
        world.pipeline = replace(BASE, **settings)
        world.code = repr(sorted(settings.items()))

    change()
    return change


def restore(world: World, seq: int) -> None:
    runner = world.runner()
    rolling = RollForward.of(world.pipeline, runner.tables, runner.shape)
    Moves(
        world.pipeline.name,
        runner.tables,
        rolling,
        Declarations(world.pipeline, world.code, runner.tables),
    ).restore(seq)


def run(world: World, to: float) -> None:
    world.run(to, slice_=4 * HOUR)


TRIGGERS = [(PURGING, None), (None, PURGING)]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), TRIGGERS, ids=["purging before", "purging after"])
def test_a_trigger_that_tells_published_rows_apart_otherwise_is_refused_also_in_a_restatement_from_the_start(
    world: World, declare: Callable[..., None], before: Any, after: Any
) -> None:
    declare(trigger=before)
    run(world, 12)
    published = multiset(world.published())
    declare(trigger=after)
    for command in (lambda: run(world, 16), lambda: world.backfill(0, 12)):
        with pytest.raises(
            SettingsChanged, match=r"\n  trigger: .*\nUndo the change; or begin a new lineage"
        ):
            command()
    assert multiset(world.published()) == published


@pytest.mark.slow
def test_a_lineage_that_is_restated_with_another_trigger_publishes_as_if_it_had_had_it_always(
    world: World, declare: Callable[..., None], tmp_path: Path
) -> None:
    run(world, 12)
    declare(trigger=CountTrigger.of(2))
    with pytest.raises(SettingsChanged, match=r"trigger.*\n.*restate the lineage from its start"):
        run(world, 16)
    world.backfill(0, 12)
    assert world.left() == perfect(world, tmp_path / "perfect")


@pytest.mark.first_fast
@pytest.mark.parametrize(("before", "after"), TRIGGERS, ids=["purging before", "purging after"])
def test_what_was_published_with_another_trigger_is_restored_only_where_that_is_declared_again(
    world: World, declare: Callable[..., None], before: Any, after: Any
) -> None:
    declare(trigger=before)
    run(world, 8)
    seq, published = world.main.seq, multiset(world.published())
    run(world, 12)
    assert multiset(world.published()) != published
    declare(trigger=after)
    with pytest.raises(
        SettingsChanged,
        match=f"run {seq} was declared otherwise.*\n  trigger: .*\nDeclare these settings as they were",
    ):
        restore(world, seq)
    declare(trigger=before)
    restore(world, seq)
    assert multiset(world.published()) == published


def test_a_branch_that_was_run_with_another_trigger_is_published_only_where_that_is_declared_again(
    world: World, declare: Callable[..., None]
) -> None:
    run(world, 12)
    world.backfill(0, 12, publish=False)
    runner, [branch] = world.runner(), world.ledger.branches()
    declare(trigger=PURGING)
    rolling = RollForward.of(world.pipeline, runner.tables, runner.shape)
    publisher = BranchPublisher(world.pipeline, world.warehouse, runner.tables, rolling)
    with pytest.raises(SettingsChanged, match="can't be made live by today's rules:\n  trigger: "):
        publisher.publish_as_it_is(branch.name)


def test_what_was_staged_with_another_trigger_is_published_only_where_that_is_declared_again(
    world: World, declare: Callable[..., None]
) -> None:
    run(world, 8)
    world.run(12, slice_=4 * HOUR, publish=False)
    live, shape = world.main.live, world.runner().shape

    def publish() -> list[LedgerRow]:
        rolling = RollForward.of(world.pipeline, world.tables, shape)
        return Publisher(
            "daily",
            world.tables,
            rolling,
            declarations=Declarations(world.pipeline, world.code, world.tables),
        ).publish()

    declare(trigger=PURGING)
    with pytest.raises(SettingsChanged, match="can't be made live by today's rules:\n  trigger: "):
        publish()
    assert world.main.live == live
    declare(allowed_lateness=HOUR)
    assert len(publish()) == 1


def test_a_lineage_keeps_its_number_of_key_groups_also_where_it_is_restated_from_its_start(
    world: World, declare: Callable[..., None]
) -> None:
    run(world, 12)
    declare(max_parallelism=64)
    for command in (lambda: run(world, 16), lambda: world.backfill(0, 12)):
        with pytest.raises(
            SettingsChanged,
            match=r"\n  max_parallelism: 128 → 64\nUndo the change; or begin a new lineage",
        ):
            command()


@pytest.mark.slow
def test_later_runs_that_could_not_be_carried_on_do_not_stay_live_whatever_is_waived(
    world: World, declare: Callable[..., None], tmp_path: Path
) -> None:
    """No session is parked here that would merge, so snapshots are equal."""
    run(world, 12)
    declare(flink_exact=True)
    world.backfill(0, 4, whatever_the_code=True)
    assert any("has not converged: main's later runs were declared otherwise" in line for line in world.said)
    assert world.left() == perfect(world, tmp_path / "perfect")
    run(world, 16)


class TestStragglers:
    STRAGGLER = Event(1, 1.5, 200)

    @pytest.mark.slow
    def test_rows_that_were_left_to_a_restatement_are_restated_before_others_are_folded(
        self, world: World, declare: Callable[..., None], tmp_path: Path
    ) -> None:
        declare(stragglers="restate")
        run(world, 4)
        world.append([self.STRAGGLER])
        run(world, 8)
        declare(stragglers="fold")
        world.append([Event(5, 5.5, 201)])
        with pytest.raises(
            SettingsChanged,
            match=r"stragglers: restate → fold.*1 rows.*--from 2013-01-01T00:00:00Z --to "
            r"2013-01-01T04:00:00Z",
        ):
            run(world, 12)
        world.backfill(0, 4)
        run(world, 12)
        assert sum_of_rows(world) == len(EVENTS) + 2
        assert multiset(world.published()) == perfect(world, tmp_path / "perfect")["published"]

    def test_rows_that_were_folded_before_are_not_waited_for(
        self, world: World, declare: Callable[..., None]
    ) -> None:
        run(world, 4)
        world.append([self.STRAGGLER])
        run(world, 8)
        declare(stragglers="restate")
        run(world, 12)
        declare(stragglers="fold")
        world.append([Event(13, 13.5, 201), Event(1, 2.5, 202)])
        run(world, 16)
        assert sum_of_rows(world) == len(EVENTS) + 3


def sum_of_rows(world: World) -> int:
    """How many rows main's live runs have read, each as often as it was."""
    return sum(row.rows_read or 0 for row in world.ledger.live_runs(world.main))
