"""The first rows of a view are those of all its rows, however few runs are read for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.rows.row_pages import top_rows
from slackwater.inspection.sql.views import LineageViews
from slackwater.inspection.windows.lineage_as_of import KeyRows
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.run_files.staging import write_staged
from tests.integration.conftest import great_expectations as great_expectations
from tests.runs.world import World, every_hour
from tests.warehouses.earlier import unpacked

ORDER = ("run_seq", "arrival_time")


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineageViews]:
    """Runs 1, 2 and 3 have two, four and nine late rows."""
    with LineageViews.of("peaks", str(unpacked(tmp_path_factory.mktemp("warehouse")))) as views:
        yield views


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ORDER) for row in rows]


@pytest.mark.parametrize("run_seq", [None, 2])
@pytest.mark.parametrize("key", [None, "south", "nowhere"])
def test_the_first_late_rows_are_those_of_all(
    views: LineageViews, key: str | None, run_seq: int | None
) -> None:
    late_rows = [
        row
        for row in views.query("FROM late_live").to_pylist()
        if key in (None, row["site"]) and run_seq in (None, row["run_seq"])
    ]
    assert len({row["run_seq"] for row in late_rows}) == {None: 3, "south": 1, "nowhere": 0}[key] or run_seq
    with LineageViews.over(views.inspection, views.row, key) as views_of_key:
        for limit in (1, 2, 7, None):
            top = top_rows(views_of_key, "late_live", ORDER, limit=limit, run_seq=run_seq)
            assert top.total == len(late_rows)
            assert places(top.rows) == sorted(places(late_rows))[:limit]
            assert all(row in late_rows for row in top.rows)


@pytest.fixture
def parted(tmp_path: Path, great_expectations: None) -> World:
    """A run whose open windows and timers stand in eight files, each of some key groups, as tasks write
    them.
    """
    world = World(tmp_path / "world")
    world.append([event for key in KEYS for event in every_hour(0, 24, key=key)])
    world.run(24)
    groups = world.pipeline.max_parallelism // 8
    for table in ("window_state", "timers"):
        folder, rows = world.table(table), world.table(table).read()
        ranges = pc.divide(rows.column("key_group"), groups)
        parts = (rows.filter(pc.equal(ranges, number)).drop_columns(["run_id"]) for number in range(8))
        files = [
            write_staged(folder.uri, world.main.run_id, f"range-{number}", part)
            for number, part in enumerate(parts)
            if part.num_rows
        ]
        folder.commit_files(files, folder.files())
    return world


KEYS = [f"key {number}" for number in range(24)]


def test_of_one_key_only_the_files_of_its_key_group_are_opened(parted: World) -> None:
    inspection = Inspection(parted.pipeline.name, parted.tables)
    row = inspection.run(None)
    rows = parted.table("window_state").read().to_pylist()
    [key_group] = {one["key_group"] for one in rows if one["k"] == KEYS[0]}
    expected = sorted(one["window_start"] for one in rows if one["k"] == KEYS[0])
    for table in ("window_state", "timers"):
        files = parted.table(table).files()
        own_paths = set(files.within(Within.only("key_group", key_group)).paths)
        assert len(own_paths) == 1 and len(files.paths) > 4
        for path in set(files.paths) - own_paths:
            Path(parted.table(table).uri, path).unlink()
    with LineageViews.over(inspection, row, KEYS[0]) as views:
        windows = top_rows(views, "windows_now", ["window_start"], limit=None)
        timers = top_rows(views, "timers_now", ["time"], limit=None)
    assert [one["window_start"] for one in windows.rows] == expected and expected
    assert timers.total >= len(expected)
    key_rows = KeyRows.of(parted.tables, ["k"], KEYS[0], parted.pipeline.max_parallelism)
    assert key_rows.parked_rows("window_state", row).num_rows == len(expected)
