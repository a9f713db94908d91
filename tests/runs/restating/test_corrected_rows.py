"""Rows that are corrected in the source, in files that hold many others: their slices alone are named, and
restating these is enough. What is right is what a lineage leaves that reads the corrected source once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.source import row_comparison
from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.row_changes import row_changes_since
from slackwater.runs.lineage.verify import recorded_slice
from slackwater.runs.staging.stragglers import find_stragglers
from tests.runs.world import DAILY, Event, World, every_hour, ms, perfect

END = 96
CORRECTED = every_hour(30, 33, x=5)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four days of rows in one file, which were run day by day."""
    world = World(tmp_path / "world")
    world.append(every_hour(0, END))
    world.run(END)
    return world


@pytest.fixture
def is_perfect(tmp_path: Path) -> Callable[[World], None]:
    """That the tables are as if the source, as it is now, had been run once."""

    def check(world: World) -> None:
        assert world.left() == perfect(world, tmp_path / "perfect")

    return check


def newest(world: World) -> PinnedSource:
    return pin(world.pipeline.sources[0], world.source)


def named(world: World, folds: bool = True) -> list[tuple[float, int]]:
    """The slices that a plan names, by the hour of their start, with their rows."""
    reads = world.ledger.live_reads(world.main, "events")
    stragglers = find_stragglers(newest(world), reads, "a", folds=folds)
    assert stragglers is not None
    return [((item.slice.from_ms - ms(0)) / 3_600_000, item.rows) for item in stragglers]


@pytest.mark.slow
def test_corrected_rows_name_their_slices_and_restating_these_is_enough(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.rewrite(30, 33, CORRECTED)
    assert named(world) == [(24, 3)]
    world.append(every_hour(END, END + 24))
    with pytest.raises(
        SourceRewritten,
        match=r"\(3 rows, arrivals from 2013-01-02T06:30:00Z to 2013-01-02T08:30:00Z\).*"
        r"--from 2013-01-02T06:30:00Z --to 2013-01-02T08:30:00.001Z",
    ):
        world.run(END + 24)
    world.backfill(30.5, 32.6)
    assert any("has converged" in line for line in world.said)
    assert named(world) == []
    [row] = world.run(END + 24)
    assert row.rows_folded == 0
    is_perfect(world)
    # The run is repeated from its pins, also where the files that it has compared are gone.
    DeltaTable(world.source).vacuum(0, dry_run=False, enforce_retention_duration=False)
    tables = world.warehouse.stored_tables("daily", {})
    files = recorded_slice(world.pipeline, world.warehouse, tables, row).scan().files
    assert not any(file.may_hold_unread for file in files)


def test_a_restatement_of_other_slices_is_not_enough(world: World) -> None:
    world.rewrite(30, 33, CORRECTED)
    world.append(every_hour(END, END + 24))
    with pytest.raises(SourceRewritten, match="3 rows"):
        world.backfill(48, 72)


@pytest.mark.slow
def test_rows_that_were_only_written_again_name_no_slice(
    world: World, is_perfect: Callable[[World], None]
) -> None:
    world.append(every_hour(END, END + 12))
    world.run(END + 12)
    DeltaTable(world.source).optimize.compact()
    assert named(world) == []
    world.append(every_hour(END + 12, END + 24))
    world.rewrite(24, 60, every_hour(24, 60))  # with a change of the data, as the log has it
    assert named(world) == []
    [row] = world.run(END + 24)
    assert (row.rows_folded, row.rows_read) == (0, 12)
    is_perfect(world)


def test_rows_that_were_deleted_or_put_beside_are_told_as_well(world: World) -> None:
    world.rewrite(50, 52, [Event(50, 50.5, 50), Event(51, 51.6, 1000), Event(51, 51.7, 1001)])
    assert named(world) == [(48, 2)]
    with pytest.raises(SourceRewritten, match=r"3 rows, .* 2013-01-03T03:30:00Z to 2013-01-03T03:42"):
        world.run(END + 24)
    DeltaTable(world.source).delete("row = 3")
    with pytest.raises(SourceRewritten, match="4 rows, arrivals from 2013-01-01T03:30:00Z"):
        world.run(END + 24)


def test_rows_without_an_arrival_have_no_slice(world: World) -> None:
    world.append([Event(60, None, 2000)])
    world.run(END + 1)
    DeltaTable(world.source).delete("row = 2000")
    world.append(every_hour(END + 1, END + 24))
    with pytest.raises(SourceRewritten, match=r"\(1 row\)"):
        world.run(END + 24)


@pytest.mark.parametrize("seed", range(6))
def test_a_comparison_of_files_is_the_difference_of_multisets(tmp_path: Path, seed: int) -> None:
    random = Random(seed)

    def events(count: int) -> list[Event]:
        return [
            Event(1, random.choice([None, 1, 2, 3]), random.randint(0, 2), random.choice("ab"))
            for _ in range(count)
        ]

    world = World(tmp_path / "world", replace(DAILY, source=replace(DAILY.sources[0], order_by=None)))
    before_rows, after_rows = events(30), events(30)
    write_deltalake(world.source, world.rows(before_rows))
    before = newest(world)
    write_deltalake(world.source, world.rows(after_rows), mode="overwrite")
    [changes] = row_changes_since(newest(world), before, "a") or ()
    old, new = Counter(before_rows), Counter(after_rows)
    added = Counter(event.arrival for event in (new - old).elements())
    removed = Counter(event.arrival for event in (old - new).elements())
    hours = sorted(hour for hour in {*added, *removed} if hour is not None)
    assert changes.arrivals.tolist() == [ms(hour) for hour in hours]
    assert changes.added_counts.tolist() == [added[hour] for hour in hours]
    assert changes.removed_counts.tolist() == [removed[hour] for hour in hours]
    assert changes.undated_count == max(added[None], removed[None])


@pytest.mark.slow
def test_three_hundred_rows_of_a_large_file_are_told_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_comparison, "MEMORY_LIMIT", "64MB")
    count, world = 400_000, World(tmp_path / "world")
    numbers = pa.array(range(count), pa.int64())
    times = pa.array([ms(0) * 1000 + number * 1_000 for number in range(count)]).cast(
        pa.timestamp("us", "UTC")
    )
    keys = pa.array([f"key {number % 1000:>60}" for number in range(count)])
    table = pa.table({"e": times, "a": times, "row": numbers, "k": keys, "x": numbers})
    write_deltalake(world.source, table)
    before = newest(world)
    values = [number + (1_000 <= number < 1_306) for number in range(count)]
    write_deltalake(world.source, table.set_column(4, "x", pa.array(values, pa.int64())), mode="overwrite")
    [changes] = row_changes_since(newest(world), before, "a") or ()
    assert changes.arrivals.tolist() == [ms(0) + number for number in range(1_000, 1_306)]
    assert set(changes.added_counts.tolist()) == set(changes.removed_counts.tolist()) == {1}
