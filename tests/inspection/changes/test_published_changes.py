"""What a branch would change in `published` is what its publication then writes as corrections."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slackwater.inspection.changes.published_changes import PublishedChanges, changes_between
from slackwater.inspection.inspection import Inspection
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.publish_branch import BranchBehind, BranchPublisher
from tests.runs.world import Event, World, every_hour, multiset

DAYS = 3


@pytest.fixture(scope="module")
def three_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days, run day by day, over two keys of which `b` has only the second day's. Not to be written."""
    world = World(tmp_path_factory.mktemp("base") / "world")
    for day in range(DAYS):
        world.append(every_hour(24 * day, 24 * day + 24))
        world.append(every_hour(24 * day, 24 * day + 24, key="b") if day == 1 else [])
    world.run(24 * DAYS)
    return world.folder


@pytest.fixture
def world(three_days: Path, tmp_path: Path) -> World:
    return World(shutil.copytree(three_days, tmp_path / "world"))


def publisher(world: World) -> BranchPublisher:
    runner = world.runner()
    rolling = RollForward.of(world.pipeline, runner.tables, runner.shape)
    return BranchPublisher(world.pipeline, world.warehouse, runner.tables, rolling)


def changes_of_branch(world: World, limit: int | None = None, offset: int = 0) -> PublishedChanges:
    """What the newest branch would change."""
    tool, branch = publisher(world), world.ledger.branches()[-1]
    publication = tool.publication_of(branch.name)
    assert publication is not None
    return PublishedChanges.of_branch(tool, publication, limit, offset)


def corrections(world: World, seq: int) -> list[dict[str, Any]]:
    """The corrections that a ledger row has written, without what says which row that is."""
    rows = world.table("corrections").read(where=pc.field("seq") == seq)
    return rows.drop_columns(["seq", "run_id", "at"]).to_pylist()


def restated_day(world: World) -> None:
    """Leave the second day's rows on a branch: `a` has other values and lacks two hours, a new key comes, and
    `b` goes.
    """
    world.rewrite(24, 48, [*every_hour(26, 48, x=7), Event(30, 30.5, 900, key="new")])
    assert world.backfill(24, 48, publish=False) is None


def test_what_a_branch_would_change_is_what_its_publication_writes(world: World) -> None:
    restated_day(world)
    before = changes_of_branch(world)
    published, seq = multiset(world.published()), world.main.seq
    assert multiset(world.published()) == published and world.main.seq == seq, "nothing was published"
    row = publisher(world).publish_as_it_is(world.ledger.branches()[0].name)
    assert row is not None and row.seq > seq
    written = corrections(world, row.seq)
    assert multiset([dict(change) for change in before.rows]) == multiset(written)
    # By hand: of the 12 windows of `a` that begin on the second day the first is gone and 11 have other
    # values, the 12 of `b` are gone, and the new key has one.
    assert dict(before.counts) == {"update": 11, "withdraw": 13, "insert": 1} and before.days == 1
    committed = PublishedChanges.of_row(Inspection(world.pipeline.name, world.tables), row, None)
    assert committed == before
    for earlier, later in ((1, 3), (2, row.seq), (3, row.seq), (row.seq, row.seq)):
        assert_net_changes(world, earlier, later)


def assert_net_changes(world: World, earlier: int, later: int) -> None:
    """That the differences between two rows are those of `published` made from the corrections up to each."""

    def published(seq: int) -> dict[tuple, Any]:
        rows = world.table("corrections").read(where=pc.field("seq") <= seq).sort_by("seq").to_pylist()
        newest = {(row["k"], row["window_start"]): row["new"] for row in rows}
        return {window: results for window, results in newest.items() if results is not None}

    before, after = published(earlier), published(later)
    expected = {
        window: (before.get(window), after.get(window))
        for window in before.keys() | after.keys()
        if before.get(window) != after.get(window)
    }
    inspection = Inspection(world.pipeline.name, world.tables)
    rows = [inspection.run(earlier), inspection.run(later)]
    changes = changes_between(inspection, rows[0], rows[1], purges=False, limit=None)
    assert {(row["k"], row["window_start"]): (row["old"], row["new"]) for row in changes.rows} == expected
    assert changes.total == len(changes.rows) == len(expected)


def test_changes_are_read_page_by_page_in_order_of_window_and_key(world: World) -> None:
    restated_day(world)
    everything = changes_of_branch(world)
    order = [(change["window_start"], change["k"]) for change in everything.rows]
    assert order == sorted(order)
    pages = [changes_of_branch(world, 10, offset) for offset in (0, 10, 20, 30)]
    assert [len(page.rows) for page in pages] == [10, 10, len(order) - 20, 0]
    assert [change for page in pages for change in page.rows] == list(everything.rows)
    assert all(page.counts == everything.counts for page in pages)


def test_a_branch_that_is_behind_main_says_so_beside_its_changes(world: World) -> None:
    world.append([Event(30, 30.5, 900, key="new")])
    world.backfill(24, 48, publish=False)
    world.append(every_hour(24 * DAYS, 24 * DAYS + 24))
    world.run(24 * DAYS + 24)  # and takes the row in, too
    tool, branch = publisher(world), world.ledger.branches()[0]
    publication = tool.publication_of(branch.name)
    assert publication is not None and isinstance(publication.obstacle, BranchBehind)
    assert publication.later_runs == world.ledger.live_runs(world.main)[2:]
    with pytest.raises(BranchBehind):
        tool.publish_as_it_is(branch.name)
