"""A window that the lineage has collected stays collected when the allowed lateness is raised, until a
restatement brings it back.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine, Replay
from slackwater.engine.rows.carried_timeline import timeline_of_slice
from slackwater.inspection.inspection import Inspection
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging import collected_mark
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.tables.run_files.staging import read_staged
from slackwater.windowing import EventTimeSessionWindows, SlidingEventTimeWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import to_ms
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, moment, ms

pytestmark = pytest.mark.first_fast

# Of the first day, on the second: under a lateness of three hours [2, 4) was collected when the watermark was
# at 7 h, on the first day.
LATE = Event(3.25, 30.2, 100, x=1000)
BY_ENGINE = pytest.mark.parametrize(
    "engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"]
)

BY_WINDOW = pytest.mark.parametrize(
    "window",
    [DAILY.window, SlidingEventTimeWindows.of(4 * HOUR, HOUR), EventTimeSessionWindows.with_gap(HOUR / 2)],
    ids=["tumbling", "sliding", "session"],
)


def world_of(folder: Path, engine: Engine, **settings: Any) -> World:
    """A row an hour for two days and `LATE`, of which the first day was run under three hours of lateness."""
    world = World(folder / "w", replace(DAILY, **settings), engine=engine)
    world.append([*every_hour(0, 48), LATE])
    world.run(24)
    return world


def counts(world: World) -> dict[float, int]:
    """What is published: start of a window in hours → rows."""
    return {(row["window_start"] - moment(0)) / HOUR: row["n"] for row in world.published()}


def marks(world: World) -> list[float | None]:
    """What the snapshots of main's live runs say of the collected mark, in hours."""
    found = []
    for row in world.ledger.live_runs(world.main):
        rows = read_staged(world.tables, "source_progress", row.files["source_progress"]).to_pylist()
        assert all(item["collected"] is None for item in rows if item["source_partition"] is not None)
        [whole] = [item["collected"] for item in rows if item["source_partition"] is None]
        found.append(None if whole is None else (to_ms(whole) - ms(0) + 1) / 3_600_000)
    return found


@BY_ENGINE
def test_a_late_row_of_a_collected_window_does_not_replace_what_it_has_published(
    tmp_path: Path, engine: Engine
) -> None:
    world = world_of(tmp_path, engine)
    world.declare(allowed_lateness=120 * HOUR)
    [row] = world.run(48)
    assert counts(world) == dict.fromkeys(range(0, 46, 2), 2), "two rows a window; the last one waits"
    assert [(late["row"], late["windows"]) for late in world.live("late_events")] == [
        (LATE.row, [{"start": moment(2), "end": moment(4)}])
    ]
    assert (row.rows_late, row.rows_unassigned) == (1, 0)


@BY_ENGINE
@BY_WINDOW
def test_a_raised_lateness_leaves_published_windows_of_any_kind_alone(
    tmp_path: Path, engine: Engine, window: Any
) -> None:
    world = world_of(tmp_path, engine, window=window)
    before = world.published()
    world.declare(allowed_lateness=120 * HOUR)
    world.run(48)
    after = world.published()
    assert [row for row in before if row not in after] == [] and len(after) > len(before)
    assert [late["row"] for late in world.live("late_events")] == [LATE.row]


@BY_ENGINE
def test_windows_that_were_open_when_the_lateness_rose_take_rows_by_the_new_one(
    tmp_path: Path, engine: Engine
) -> None:
    world = world_of(tmp_path, engine)
    world.append(
        [Event(20.5, 30.3, 101)]
    )  # [20, 22) is open at the end of the first day, and would be collected at 25 h
    world.declare(allowed_lateness=12 * HOUR)
    world.run(48)
    assert counts(world)[20] == 3 and [late["row"] for late in world.live("late_events")] == [LATE.row]


@pytest.mark.slow
def test_a_restatement_from_before_its_collection_takes_the_row_in(tmp_path: Path) -> None:
    world = world_of(tmp_path, ColumnarEngine())
    world.declare(allowed_lateness=120 * HOUR)
    world.run(48)
    world.backfill(24, 48)
    assert counts(world)[2] == 2 and len(world.live("late_events")) == 1, (
        "the snapshot of the first day has collected it"
    )
    world.backfill(0, 48)
    assert counts(world)[2] == 3 and world.live("late_events") == []
    assert marks(world) == [None, None]


@pytest.mark.slow
def test_a_snapshot_says_the_mark_only_where_it_does_not_follow_from_watermark_and_lateness(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, OperatorEngine())
    world.declare(allowed_lateness=20 * HOUR)
    world.run(48)
    assert marks(world) == [None, None], "two days on, twenty hours have collected more than three had"
    world.declare(allowed_lateness=0 * HOUR)
    world.append(every_hour(48, 120))
    world.run(72)
    world.declare(allowed_lateness=40 * HOUR)
    world.run(120)
    # The watermark of the third day stands at 70 h: of its last row, at 71 h, less one hour; it was emitted
    # at 23:40.
    assert marks(world) == [None, None, None, 70.0, None]


def test_the_mark_changes_no_state_hash_where_it_follows_from_watermark_and_lateness(tmp_path: Path) -> None:
    hashes = []
    for name, known in (("a", True), ("b", False)):
        world = World(tmp_path / name)
        world.append(every_hour(0, 72))
        with patch(
            "slackwater.runs.staging.slice_replay.mark_of",
            collected_mark.mark_of if known else lambda *facts: None,
        ):
            hashes.append([row.state_hash for row in world.run(72)])
    assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_a_fork_and_a_restore_take_the_mark_of_their_run(tmp_path: Path) -> None:
    world = world_of(tmp_path, OperatorEngine(), allowed_lateness=120 * HOUR)
    world.declare(allowed_lateness=0 * HOUR)
    world.append(every_hour(48, 72))
    [second, _] = world.run(72)
    world.declare(allowed_lateness=120 * HOUR)
    world.append([Event(3.5, 73, 102), *every_hour(74, 96)])
    world.run(96)
    assert {late["row"] for late in world.live("late_events")} == {LATE.row, 102}
    rolling = RollForward.of(world.pipeline, world.tables, world.runner().shape)
    Moves("daily", world.tables, rolling, Declarations(world.pipeline, world.code, world.tables)).restore(1)
    world.run(96)
    assert counts(world)[2] == 4 and world.live("late_events") == []
    assert second.seq == 2 and marks(world) == [None] * 4


@pytest.mark.slow
def test_a_run_reads_no_history(tmp_path: Path) -> None:
    world = world_of(tmp_path, OperatorEngine())
    with patch(
        "slackwater.runs.staging.collected_mark.marks",
        side_effect=AssertionError("the history is read"),
    ):
        world.run(48)
        world.declare(allowed_lateness=120 * HOUR)
        world.append(every_hour(48, 96))
        world.run(72)
        world.run(96)
    assert marks(world) == [None, None, 43.0, 43.0]


@pytest.mark.slow
def test_a_run_notes_the_restatement_that_saves_rows_of_collected_windows_and_it_does(tmp_path: Path) -> None:
    world = World(tmp_path / "w", engine=ColumnarEngine())
    world.append([*every_hour(0, 72), Event(27.25, 50.2, 100), Event(3.5, 55, 101)])
    world.run(48)
    world.declare(
        allowed_lateness=26 * HOUR
    )  # takes the first of them, had its window not been collected; not the second
    [row] = world.run(72)
    assert row.rows_late == 2
    [note] = notes(world, row.seq)
    assert note.startswith("1 rows are for windows that were collected under a smaller allowed lateness")
    command = "`slackwater backfill daily --from 2013-01-02T00:00:00Z --to 2013-01-03T02:12:00.001Z`"
    assert command in note, "the first day has not collected [26, 28), the second has"
    world.backfill(24, 50.2)
    assert [late["row"] for late in world.live("late_events")] == [101] and counts(world)[26] == 3
    assert [notes(world, later.seq) for later in world.ledger.live_runs(world.main)] == [[], [], []]


def notes(world: World, seq: int) -> list[str]:
    """What a run says of rows that a restatement would save."""
    checks = Inspection(world.pipeline.name, world.tables).checks(seq)
    return [check["observed"] for check in checks if check["expectation"] == "late rows of collected windows"]


@BY_WINDOW
def test_a_plan_says_which_restatement_before_the_run_saves_rows_of_collected_windows_and_it_does(
    tmp_path: Path, window: Any
) -> None:
    world = world_of(tmp_path, OperatorEngine(), window=window)
    assert planner(world).plan().warnings == ()
    world.declare(allowed_lateness=120 * HOUR)
    command = (
        "`slackwater backfill daily --from 2013-01-01T00:00:00Z --to 2013-01-02T00:00:00Z` takes them in; "
        "do that before the run"
    )
    [sentence] = planner(world).plan().warnings
    assert sentence.startswith("rows of the range are for windows that were collected") and sentence.endswith(
        command
    )
    world.backfill(0, 24)
    assert planner(world).plan().warnings == ()
    world.run(48)
    assert world.live("late_events") == []


def test_a_plan_of_a_restatement_that_begins_behind_the_collection_says_where_it_has_to_begin(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, OperatorEngine())
    world.run(48)
    world.declare(allowed_lateness=120 * HOUR)
    [sentence] = planner(world).plan(ms(24), ms(48)).warnings
    assert "--from 2013-01-01T00:00:00Z --to 2013-01-03T00:00:00Z` takes them in" in sentence
    assert planner(world).plan(ms(0), ms(48)).warnings == ()


def planner(world: World) -> RangePlanner:
    return RangePlanner(world.warehouse, world.pipeline)


@BY_ENGINE
@pytest.mark.parametrize("file_rows", [1, 50_000], ids=["files", "driver"])
def test_a_run_that_creates_a_collected_window_again_is_rejected(
    tmp_path: Path, engine: Engine, file_rows: int
) -> None:
    def forgetful(*arguments: Any) -> Any:
        timeline, after = timeline_of_slice(*arguments)
        return replace(timeline, collected_mark=INITIAL_WATERMARK), after

    world = world_of(tmp_path, engine)
    world.declare(allowed_lateness=120 * HOUR)
    with (
        patch("slackwater.runs.staging.slice_replay.timeline_of_slice", forgetful),
        patch("slackwater.runs.staging.slice_replay.Replay", partial(Replay, file_rows=file_rows)),
        pytest.raises(SliceRejected, match="collected windows stay collected"),
    ):
        world.run(48)
    assert counts(world)[2] == 2
    world.run(48)
