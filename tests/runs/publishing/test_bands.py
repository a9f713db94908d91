"""A large day of `published` stands in files that each hold some key groups, its bands, and a late element
rewrites those of its band alone; a small day is one file.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.runs.publishing.portion_tasks import PortionTasks
from slackwater.runs.publishing.rebuild import Rebuild
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.delta.upkeep import TableUpkeep
from tests.runs.lineages import HOUR, LATE_EVENING
from tests.runs.published_model import PaneRow, history
from tests.runs.rolling import commit_run, roll_forward, with_file_rows
from tests.runs.tables_of_panes import in_any_order, published_of
from tests.runs.task_bytes import AsOnACluster
from tests.tables.ledger.ledger_rows import clock

GROUPS, WINDOWS = 40, 4
# Four key groups of four windows each are as many rows as a file has.
FILE_ROWS = 16
BANDS = [(4 * band, 4 * band + 3) for band in range(GROUPS // 4)]


def clustered(root: Path, file_rows: int = FILE_ROWS) -> RollForward:
    return with_file_rows(roll_forward(root), file_rows)


def panes_of(
    groups: Sequence[int], firing: int = 1, kind: str = "on_time", windows: int = WINDOWS
) -> list[PaneRow]:
    """Panes of one key of each group, in windows of one day: by window, as an engine emits them."""
    starts = [LATE_EVENING - number * HOUR for number in range(windows)]
    return [
        PaneRow(group, (f"k{group}", 1, start, start + HOUR), firing, 0, kind, (firing, 0.5))
        for start in starts
        for group in groups
    ]


def earlier_windows(groups: range) -> list[PaneRow]:
    """Panes of windows of the same day that start before all of `panes_of`, one of each group."""
    start = LATE_EVENING - 9 * HOUR
    return [
        replace(pane, window=(*pane.window[:2], start, start + HOUR)) for pane in panes_of(groups, windows=1)
    ]


def publish(rolling: RollForward, *runs: list[PaneRow]) -> None:
    for panes in runs:
        commit_run(rolling.tables, panes)
        rolling.finish()


def newest_commit(rolling: RollForward) -> tuple[list[str], list[dict[str, Any]]]:
    """The newest commit of `published` by its JSON in the log: (paths removed, statistics of files added)."""
    uri = rolling.tables["published"].uri
    version = DeltaTable(uri).version()
    actions = [
        json.loads(line) for line in Path(f"{uri}/_delta_log/{version:020d}.json").read_text().splitlines()
    ]
    return (
        [action["remove"]["path"] for action in actions if "remove" in action],
        [json.loads(action["add"]["stats"]) for action in actions if "add" in action],
    )


def bands_by_path(rolling: RollForward) -> dict[str, tuple[int, int]]:
    """Path → the bounds of key groups, of every file."""
    actions = rolling.tables["published"].files().actions
    columns = [actions.column(name).to_pylist() for name in ("path", "min.key_group", "max.key_group")]
    return {path: (least, greatest) for path, least, greatest in zip(*columns, strict=True)}


def require_that_published_is_right(rolling: RollForward, *runs: list[PaneRow]) -> None:
    """`published` is what the rules make of the runs, and a rebuild finds nothing to repair."""
    published, _ = history(runs, purging=False)
    assert in_any_order(published_of(rolling.tables["published"].read())) == in_any_order(published.values())
    rebuilt = Rebuild("p", rolling.tables, rolling, clock).run()
    assert (rebuilt.removed_copies, rebuilt.is_published_anew, rebuilt.row) == ({}, False, None)


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    """A published day of ten bands."""
    rolling = clustered(tmp_path)
    rolling.tables.ensure()
    publish(rolling, panes_of(range(GROUPS)))
    assert sorted(bands_by_path(rolling).values()) == BANDS
    return rolling


def test_a_late_element_rewrites_the_file_of_its_band_alone(rolling: RollForward) -> None:
    before = bands_by_path(rolling)
    late = panes_of([21], 2, "late", windows=1)
    publish(rolling, late)
    removed_paths, added_files = newest_commit(rolling)
    assert [before[path] for path in removed_paths] == [(20, 23)]
    assert [(file["numRecords"], file["minValues"]["key_group"]) for file in added_files] == [(16, 20)]
    assert sorted(bands_by_path(rolling).values()) == BANDS
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), late)


@pytest.mark.slow
@pytest.mark.parametrize("portion_rows", [1 << 20, 7])
@pytest.mark.parametrize("tasks", [None, PortionTasks(AsOnACluster(2), least=1)])
def test_late_elements_of_several_bands_leave_each_band_as_it_was(
    rolling: RollForward, portion_rows: int, tasks: PortionTasks | None
) -> None:
    before = bands_by_path(rolling)
    late = panes_of([1, 38], 2, "late", windows=1)
    publish(replace(rolling, portion_rows=portion_rows, tasks=tasks), late)
    removed_paths, _ = newest_commit(rolling)
    assert sorted(before[path] for path in removed_paths) == [(0, 3), (36, 39)]
    bands = sorted(bands_by_path(rolling).values())
    if tasks is None or portion_rows > GROUPS * WINDOWS:
        assert bands == BANDS
    else:  # tasks that share a band write a file each
        assert all(any(first <= least <= most <= last for first, last in BANDS) for least, most in bands)
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), late)


@pytest.mark.slow
def test_a_band_that_has_shrunk_takes_no_rows_of_another_when_portions_are_small(
    rolling: RollForward,
) -> None:
    withdrawn, late = panes_of([1], 2, "withdrawn"), panes_of([2, 38], 2, "late", windows=1)
    publish(replace(rolling, portion_rows=7), withdrawn, late)
    assert sorted(bands_by_path(rolling).values()) == BANDS
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), withdrawn, late)


def test_rows_of_another_hour_stand_beside_the_bands_and_are_not_touched(rolling: RollForward) -> None:
    """A few rows for the day are one file; a late element of an older window leaves it alone."""
    earlier = earlier_windows(range(0, GROUPS, 4))
    before = set(bands_by_path(rolling))
    publish(rolling, earlier)
    [earlier_path] = set(bands_by_path(rolling)) - before
    late = panes_of([21], 2, "late", windows=1)
    publish(rolling, late)
    assert len(newest_commit(rolling)[0]) == 1 and earlier_path in bands_by_path(rolling)
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), earlier, late)


def test_a_small_day_is_one_file(tmp_path: Path) -> None:
    rolling = clustered(tmp_path, file_rows=GROUPS * WINDOWS // 2 + 1)
    rolling.tables.ensure()
    publish(rolling, panes_of(range(GROUPS)), panes_of([1, 38], 2, "late"))
    assert list(bands_by_path(rolling).values()) == [(0, GROUPS - 1)]


@pytest.mark.slow
def test_a_large_file_of_an_earlier_version_is_divided_when_it_is_rewritten(tmp_path: Path) -> None:
    earlier = clustered(tmp_path, file_rows=1 << 20)
    earlier.tables.ensure()
    publish(earlier, panes_of(range(GROUPS)))
    assert list(bands_by_path(earlier).values()) == [(0, GROUPS - 1)]
    rolling, late = clustered(tmp_path), panes_of([21], 2, "late", windows=1)
    publish(rolling, late)
    assert sorted(bands_by_path(rolling).values()) == BANDS
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), late)


@pytest.mark.slow
def test_upkeep_leaves_bands_alone_and_divides_what_small_files_hold(rolling: RollForward) -> None:
    """Ten runs of four windows each leave small files beside the bands; together they fill two."""
    small_runs = [earlier_windows(range(number, GROUPS, 10)) for number in range(10)]
    publish(rolling, *small_runs)
    assert len(bands_by_path(rolling)) == len(BANDS) + 10
    upkeep = TableUpkeep(rolling.tables["published"])
    assert upkeep.compactable() == upkeep.compact() == 8
    assert sorted(bands_by_path(rolling).values()) == sorted([*BANDS, (0, 19), (20, 39)])
    assert (upkeep.compactable(), upkeep.compact()) == (0, 0)
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), *small_runs)


@pytest.mark.slow
def test_a_foreign_optimize_loses_the_bands_and_the_next_late_element_brings_them_back(
    rolling: RollForward,
) -> None:
    DeltaTable(rolling.tables["published"].uri).optimize.compact()
    assert list(bands_by_path(rolling).values()) == [(0, GROUPS - 1)]
    late = panes_of([21], 2, "late", windows=1)
    publish(rolling, late)
    assert sorted(bands_by_path(rolling).values()) == BANDS
    require_that_published_is_right(rolling, panes_of(range(GROUPS)), late)
