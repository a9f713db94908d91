"""Rows that a run has staged and that its tables have lost since are noticed before the run becomes live.
Rows that upkeep has put into other files are there.
"""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.runs.publishing.publish import Publisher, StagedStateGone
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.delta.upkeep import TableUpkeep
from tests.runs.world import Event, World, every_hour


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A day that is live, and one that is staged, with a late row and one that cannot be used."""
    world = World(tmp_path / "w")
    world.append([*every_hour(0, 48), Event(3.5, 40, 100), Event(40 + 30 * 24, 40.5, 101)])
    world.run(24)
    assert world.run(48, publish=False) == []
    return world


def publisher(world: World) -> Publisher:
    runner = world.runner()
    rolling = RollForward.of(world.pipeline, runner.tables, runner.shape)
    return Publisher(world.pipeline.name, runner.tables, rolling)


@pytest.mark.parametrize(
    "table",
    ["panes", *(pytest.param(name, marks=pytest.mark.slow) for name in ("late_events", "quarantine"))],
)
def test_a_commit_that_is_gone_stops_the_publisher_and_the_slice_is_run_again(
    world: World, table: str
) -> None:
    before, live = world.published(), world.main.seq
    uri = world.table(table).uri
    Path(uri, "_delta_log", f"{DeltaTable(uri).version():020d}.json").unlink()
    with pytest.raises(StagedStateGone, match=rf"the table {table} has 0 of its rows, and it has staged \d+"):
        publisher(world).publish()
    assert world.published() == before and world.main.seq == live
    [row] = world.run(48)
    assert row.rows_late == 1 and row.rows_quarantined == 1 and len(world.published()) > len(before)


def test_rows_that_upkeep_has_merged_are_not_missed(world: World) -> None:
    for table in ("panes", "late_events", "quarantine"):
        folder = world.table(table)
        TableUpkeep(folder, "run_id").compact()
    assert len(world.table("panes").files().paths) == 1
    [row] = publisher(world).publish()
    assert row.rows_late == 1 and world.main.seq == row.seq
