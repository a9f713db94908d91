"""Runs go on when the source's log has lost the version that the run before has read, and when rows that came
late were compacted with older ones: what they leave is what one run over the same rows leaves.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.engine.source.pinning import VersionGone
from slackwater.runs.planning.source_reads import PlanInputs, read_source
from slackwater.runs.staging.slices import Slice
from tests.integration.conftest import great_expectations as great_expectations
from tests.runs.world import Event, World, every_hour, ms, perfect

LATE = Event(22, 23.4, 99)


@pytest.fixture
def world(tmp_path: Path, great_expectations: None) -> World:
    """Two days of rows, one file a day, of which the first day was run."""
    world = World(tmp_path / "world")
    world.append(every_hour(0, 24))
    world.run(24)
    world.append(every_hour(24, 48))
    return world


@pytest.fixture
def is_perfect(tmp_path: Path) -> Callable[[World], None]:
    """That the results are as if the source, as it is now, had been run once."""

    def check(world: World) -> None:
        assert world.left()["published"] == perfect(world, tmp_path / "perfect")["published"]

    return check


def compact(world: World) -> None:
    DeltaTable(world.source).optimize.compact()


def vacuum(world: World) -> None:
    DeltaTable(world.source).vacuum(0, enforce_retention_duration=False, dry_run=False)


def lose_log(world: World) -> None:
    """All commits before the newest, which a checkpoint stands for."""
    table = DeltaTable(world.source)
    table.create_checkpoint()
    for path in (Path(world.source) / "_delta_log").glob("*.json"):
        if int(path.stem) < table.version():
            path.unlink()


def warnings_of_plan(world: World, first: float, last: float) -> tuple[str, ...]:
    inputs = PlanInputs.of(world.warehouse, world.pipeline)
    owner = world.ledger.snapshot_owner(world.main)
    return read_source(inputs, [Slice(ms(first), ms(last))], owner).warnings


def test_late_rows_that_were_compacted_with_older_ones_are_folded_in_and_plan_says_what_is_read(
    world: World, is_perfect: Callable[[World], None], caplog: pytest.LogCaptureFixture
) -> None:
    world.append([LATE])
    compact(world)
    [note] = (text for text in warnings_of_plan(world, 24, 48) if "compacted" in text)
    assert "1 files, " in note and "are read as they were before, for these rows alone" in note
    with caplog.at_level(logging.INFO):
        world.run(48)
    assert note in caplog.messages
    assert [(row.rows_read, row.rows_folded) for row in world.ledger.rows()] == [(24, 0), (25, 1)]
    assert [item.files for item in world.main.inputs] == [2]
    is_perfect(world)


def test_a_run_goes_on_where_the_log_has_lost_the_version_of_the_run_before(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([LATE])
    lose_log(world)
    world.run(48)
    assert [(row.rows_read, row.rows_folded) for row in world.ledger.rows()] == [(24, 0), (25, 1)]
    is_perfect(world)


def test_rows_that_were_changed_in_commits_that_are_lost_are_named(world: World) -> None:
    world.rewrite(3, 5, every_hour(3, 5, x=7))
    lose_log(world)
    with pytest.raises(
        SourceRewritten, match=r"\(2 rows, .* --from 2013-01-01T03:30:00Z --to 2013-01-01T04:30"
    ):
        world.run(48)


def test_what_can_not_be_compared_any_more_is_counted_and_said(
    world: World, is_perfect: Callable[[World], None], caplog: pytest.LogCaptureFixture
) -> None:
    compact(world)
    vacuum(world)
    lose_log(world)
    [note] = (text for text in warnings_of_plan(world, 24, 48) if "was not checked" in text)
    assert "1 files that runs have read were replaced in them by 1 others" in note
    assert "as many rows that arrived before 2013-01-02T00:00:00Z, 24;" in note
    world.run(48)
    assert note in caplog.messages
    is_perfect(world)


def test_rows_that_are_fewer_where_nothing_can_be_compared_are_refused(world: World) -> None:
    DeltaTable(world.source).delete("row = 3")
    compact(world)
    vacuum(world)
    lose_log(world)
    with pytest.raises(SourceRewritten, match="--from 2013-01-01T00:30:00Z"):
        world.run(48)


def test_late_rows_of_which_the_file_is_vacuumed_are_refused_by_their_arrivals_and_a_backfill_reads_them(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append([LATE])
    compact(world)
    vacuum(world)
    with pytest.raises(SourceRewritten, match="nothing says any more which of them are new") as error:
        world.run(48)
    assert (error.value.facts["least_ms"], error.value.facts["greatest_ms"]) == (ms(23.4), ms(23.4))
    assert "--from 2013-01-01T23:24:00Z --to 2013-01-01T23:24:00.001" in str(error.value)
    world.backfill(23, 24, reason="late rows")
    world.run(48)
    is_perfect(world)


def test_a_warehouse_of_before_that_has_no_record_is_told_what_to_restate(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    shutil.rmtree(Path(world.folder) / "daily" / "_source_files")
    lose_log(world)
    with pytest.raises(VersionGone, match="backfill daily --from 2013-01-01T00:00:00Z --to 2013-01-02T00"):
        world.run(48)
    world.backfill(0, 24, reason="the log is gone")
    world.run(48)
    is_perfect(world)
