"""A source that was dropped and made again is never taken for the old one: it is refused, restated from, or
declared the same after a check of its rows."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.source.pinning import SourceReplaced
from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.verify import CannotRepeat, Verifier
from tests.runs.world import Event, World, every_hour, perfect

EVENTS = every_hour(0, 48)


def reload(world: World, *parts: Sequence[Event]) -> None:
    """Drop the source and make it again, with one commit for each part."""
    shutil.rmtree(world.source)
    for part in parts:
        world.append(part)


def thirds(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Three parts of which each holds rows of all arrivals, so that none is of one slice alone."""
    return [events[place::3] for place in range(3)]


def values_of(world: World) -> dict[str, int]:
    """The rows and the sum over all published windows: what is counted of the source."""
    rows = world.published()
    return {"rows": sum(row["n"] for row in rows), "total": sum(row["total"] for row in rows)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two days in two commits, both run."""
    made = World(tmp_path / "w")
    made.append(EVENTS[:24])
    made.append([*EVENTS[24:], *every_hour(48, 72)])
    made.run(24)
    made.run(48)
    return made


RELOADS = {
    "the same rows": (EVENTS, every_hour(48, 72)),
    "half of the rows": (EVENTS[::2], every_hour(48, 72)),
    "other values": ([replace(event, x=event.x + 1) for event in EVENTS], every_hour(48, 72)),
}


class TestRefusal:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", RELOADS)
    def test_a_source_that_was_made_again_is_refused_whatever_its_version(
        self, world: World, kind: str
    ) -> None:
        before, left = world.main, values_of(world)
        rows, later = RELOADS[kind]
        reload(world, *thirds(rows), later)
        assert DeltaTable(world.source).version() >= before.inputs[0].version
        with pytest.raises(SourceReplaced, match="dropped and made again") as refused:
            world.run(72)
        assert refused.value.exit_code == 2
        assert "backfill daily --from 2013-01-01T00:00:00Z --to 2013-01-03T00:00:00Z`" in str(refused.value)
        assert (world.main, values_of(world)) == (before, left)

    def test_one_whose_newest_version_is_below_the_pinned_one_is_told_as_such_too(self, world: World) -> None:
        reload(world, [*EVENTS, *every_hour(48, 72)])
        with pytest.raises(SourceReplaced, match="slackwater backfill daily"):
            world.run(72)

    def test_runs_that_read_the_old_table_cannot_be_repeated(self, world: World) -> None:
        reload(world, *thirds(EVENTS), every_hour(48, 72))
        verifier = Verifier(world.warehouse, world.pipeline, world.code, OperatorEngine(), InProcess())
        for seq in (1, 2):
            with pytest.raises(CannotRepeat, match=f"run {seq} can't be repeated.*dropped and made again"):
                verifier.verify(seq)

    def test_a_table_that_only_grows_is_the_same(self, world: World) -> None:
        world.append(every_hour(72, 73))
        world.run(72)
        ids = {item.table_id for row in world.ledger.rows() for item in row.inputs}
        assert ids == {str(DeltaTable(world.source).metadata().id)}


class TestRestatement:
    @pytest.mark.slow
    @pytest.mark.first_fast
    @pytest.mark.parametrize("kind", RELOADS)
    def test_everything_is_restated_from_the_new_table_and_runs_go_on(
        self, world: World, tmp_path: Path, kind: str
    ) -> None:
        rows, later = RELOADS[kind]
        reload(world, *thirds(rows), later)
        world.backfill(0, 48)
        world.run(72)
        assert world.left() == perfect(world, tmp_path / "other")

    @pytest.mark.slow
    def test_no_run_that_read_the_old_table_stays_behind_the_branch(
        self, world: World, tmp_path: Path
    ) -> None:
        reload(world, *thirds([*EVENTS[:24], *(replace(event, x=7) for event in EVENTS[24:])]))
        world.backfill(0, 24)
        assert any("has read another table as events" in sentence for sentence in world.said)
        assert world.left() == perfect(world, tmp_path / "other")

    def test_a_part_that_rests_on_the_old_table_is_refused(self, world: World) -> None:
        reload(world, *thirds(EVENTS))
        with pytest.raises(SourceReplaced):
            world.backfill(24, 48)
