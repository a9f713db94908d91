"""A plan of many rows or windows holds few of them: it looks at some key groups, and says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.runs.planning import touched_windows
from slackwater.runs.planning.plan import Plan
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.tables.delta.stored_files import StoredFiles
from tests.integration.conftest import great_expectations as great_expectations
from tests.runs.world import DAILY, Event, World, every_hour, moment, ms

KEYS = [f"key {number}" for number in range(60)]
LATE_HOURS = (20.5, 21.5, 23.5)
GROUPS = DAILY.max_parallelism
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, great_expectations: None) -> World:
    """Two days of 60 keys, of which the first was run. On the second each key also has rows of the first
    day's last hours, which touch windows that are parked and published.
    """
    world = World(tmp_path_factory.mktemp("many") / "world")
    world.append([event for key in KEYS for event in every_hour(0, 24, key=key)])
    world.run(24)
    late_events = [
        Event(hours, 24.5, 100 + number, key) for key in KEYS for number, hours in enumerate(LATE_HOURS)
    ]
    world.append([*late_events, *(event for key in KEYS for event in every_hour(24, 47, key=key))])
    return world


def plan_of(world: World) -> Plan:
    return RangePlanner(world.warehouse, world.pipeline).plan(to_ms=ms(48))


def touched_in(world: World, table: str, groups: int = GROUPS) -> int:
    """How many windows in a table the second day's rows touch, one by one, of the first key groups."""
    times = [moment(hours) for hours in (*LATE_HOURS, *range(24, 47))]
    windows = {
        (row["k"], row["window_start"])
        for row in world.table(table).read().to_pylist()
        if row["key_group"] < groups and any(row["window_start"] <= at < row["window_end"] for at in times)
    }
    return len(windows)


def test_all_windows_are_counted_where_they_are_few(world: World) -> None:
    plan = plan_of(world)
    assert plan.touched_parked_windows == touched_in(world, "window_state") > 0
    assert plan.touched_published_windows == touched_in(world, "published") > 0
    assert sum(item.rows or 0 for item in plan.slices) == 60 * (3 + 23)
    assert not any("estimated" in warning for warning in plan.warnings)


def test_of_many_those_of_some_key_groups_stand_for_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 60 * (3 + 23)
    monkeypatch.setattr(touched_windows, "SAMPLE_ROWS", rows // 3)
    points: list[int] = []
    take_points = touched_windows.points

    def count_points(*arguments: Any) -> pa.Table:
        table = take_points(*arguments)
        points.append(table.num_rows)
        return table

    windows: list[int] = []
    scan = StoredFiles.scan

    def count_windows(files: StoredFiles, columns: Any, *arguments: Any) -> Iterator[pa.Table]:
        for part in scan(files, columns, *arguments):
            windows.append(part.num_rows)
            yield part

    monkeypatch.setattr(touched_windows, "points", count_points)
    monkeypatch.setattr(StoredFiles, "scan", count_windows)
    plan = plan_of(world)
    # A third of the rows are in a third of the groups; halved, these are the first quarter of them.
    quarter = GROUPS // 4
    for table, count in (
        ("window_state", plan.touched_parked_windows),
        ("published", plan.touched_published_windows),
    ):
        assert count == 4 * touched_in(world, table, quarter) > 0
    assert sum(item.rows or 0 for item in plan.slices) == rows, "rows are counted all the same"
    assert [warning for warning in plan.warnings if "estimated" in warning] == [
        "there are many rows or windows: how many windows are touched is estimated from "
        f"{quarter} of the {GROUPS} key groups"
    ]
    of_quarter = {
        row["k"] for row in world.table("published").read().to_pylist() if row["key_group"] < quarter
    }
    assert sum(points) == len(of_quarter) * 26
    stored_windows = len(world.table("published").read()) + len(world.table("window_state").read())
    assert sum(windows) < stored_windows / 2


def test_before_the_first_run_the_arrivals_alone_are_read(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_world = World(tmp_path / "world")
    new_world.append(every_hour(0, 40))
    columns_read: list[tuple[str, ...]] = []
    batches = PinnedSources.batches

    def note_columns(sources: PinnedSources, file: Any, columns: Any, *bounds: Any) -> Iterator[pa.Table]:
        columns_read.append(tuple(columns))
        return batches(sources, file, columns, *bounds)

    monkeypatch.setattr(PinnedSources, "batches", note_columns)
    plan = RangePlanner(new_world.warehouse, new_world.pipeline).plan(to_ms=ms(48))
    assert [item.rows for item in plan.slices] == [24, 16]
    assert set(columns_read) == {("a",)}
