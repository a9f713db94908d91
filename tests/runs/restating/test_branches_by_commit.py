"""A restatement of a table without a column of arrivals, after a vacuum has taken what told rows of several
commits apart: main's later runs stay behind the branch only where no row gets lost between the two.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.engine.source.row_groups import SourceFile
from slackwater.runs.restating.branches import ReadAgain
from tests.runs.commit_worlds import Table, TrackedTable, world_of
from tests.runs.world import World, ms

BEHIND = "has not read rows that arrive behind the branch since a VACUUM"


def rewrite_files_of(table: Table, hour: float, *numbers: int) -> None:
    """OPTIMIZE of the files that have these rows."""
    source = table.plain()
    places = [
        place
        for place, (file, _) in enumerate(source.files_with_bounds("e"))
        for batch in SourceFile(source.uri, file, source.schema).batches(["row"], None)
        if set(numbers) & set(batch.rows.column("row").to_pylist())
    ]
    table.rewrite(hour, places)


def world_after_three_days(table: Table, folder: Path) -> World:
    """Of the rows of the first day 1 and 2 leave nothing open; one file has them together with those of the
    second day.
    """
    world = world_of(folder, table)
    table.bring(2, 1, 2)
    table.bring(20, 3, 4, 5, 6)
    table.bring(30, 8, 9)
    table.bring(50, 10)
    world.run(72)
    rewrite_files_of(table, 73, 1, 8)
    return world


def why_not(world: World, table: Table, boundary: float) -> str | None:
    """Why main's last run can't stay behind a branch that has read the newest version up to a boundary."""
    live = world.ledger.live_runs(world.main)
    read_again = ReadAgain(world.pipeline, world.warehouse, live, ms(0), world.tables)
    [source_input] = live[0].inputs
    tip = replace(live[0], inputs=(replace(source_input, version=table.version),))
    return read_again.before(ms(boundary), tip)(live[-1])


def test_a_run_may_not_stay_behind_a_boundary_over_which_a_vacuum_has_moved_rows(tmp_path: Path) -> None:
    table = Table(tmp_path / "source")
    world = world_after_three_days(table, tmp_path / "w")
    assert [why_not(world, table, boundary) for boundary in (24, 48)] == [None, None]
    table.vacuum(74)
    last_seq = world.ledger.live_runs(world.main)[-1].seq
    assert why_not(world, table, 24) == f"run {last_seq} {BEHIND}"
    assert why_not(world, table, 48) is None


def test_a_run_may_stay_where_rows_are_tracked(tmp_path: Path) -> None:
    table = TrackedTable(tmp_path / "source")
    world = world_after_three_days(table, tmp_path / "w")
    table.vacuum(74)
    assert [why_not(world, table, boundary) for boundary in (24, 48)] == [None, None]


@pytest.mark.parametrize(
    ("kind_of_table", "rows_read", "reasons"),
    [(Table, [4, 4, 1], [BEHIND, None]), (TrackedTable, [6, 2, 1], [None])],
)
def test_a_restatement_goes_on_to_the_slice_in_which_the_rows_arrive_now(
    tmp_path: Path, kind_of_table: type[Table], rows_read: list[int], reasons: list[str | None]
) -> None:
    table = kind_of_table(tmp_path / "source")
    world = world_after_three_days(table, tmp_path / "w")
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [6, 2, 1]
    table.vacuum(74)
    world.backfill(0, 24)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == rows_read
    sentences = [line for line in world.said if "converged" in line]
    assert [reason is None for reason in reasons] == ["has converged." in line for line in sentences]
    assert all(reason is None or reason in line for reason, line in zip(reasons, sentences, strict=True))
