"""The history of a window, by hand: fired, changed by late rows, restated with a row that was too late, and
restored.

Windows of two hours with three hours of lateness and a bound of one. [20, 22) of the first day fires when a
row of 23 h has been seen, with two rows; two more come on the second day, when the watermark is 22 h; a fifth
comes at 36 h and is too late.
"""

from datetime import timedelta

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.inspection.changes.causing_rows import CausingRows
from slackwater.inspection.changes.published_change import reason_of
from slackwater.inspection.changes.window_history import HistoryQuestion, WindowHistory, history_of
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.windows.lineage_as_of import KeyRows
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive
from slackwater.runs.staging.declarations import Declarations
from tests.runs.world import HOUR, START, Event, World, every_hour, moment, ms

TOO_LATE = Event(20.5, 36.0, 502, x=1000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two days (runs 1 and 2), the redriven row restated, and run 2 restored. Not to be written."""
    world = World(tmp_path_factory.mktemp("history") / "world")
    world.append(every_hour(0, 48))
    world.append([Event(21.0, 24.2, 500, x=10), Event(21.5, 24.25, 501, x=100), TOO_LATE])
    world.append([Event(20.1, 20.6, 503, key="b")])
    world.run(48)
    runner = world.runner()
    rolling = RollForward.of(runner.pipeline, runner.tables, runner.shape)
    late = Inspection(world.pipeline.name, world.tables).late(None).rows
    redriven = Redrive(world.warehouse, world.pipeline, rolling, InProcess).run(late, "a slow feed")
    assert redriven.to_restate is not None
    first, last = ((bound - START) / HOUR for bound in redriven.to_restate)
    world.backfill(first, last, reason="a slow feed")
    declared = Declarations(world.pipeline, world.code, world.tables)
    Moves(world.pipeline.name, world.tables, rolling, declared).restore(2)
    return world


def history(world: World, **question: object) -> WindowHistory:
    asked = HistoryQuestion(**{"key": "a", **question})  # type: ignore[arg-type]
    return history_of(Inspection(world.pipeline.name, world.tables), asked)


def test_each_change_of_a_window_stands_with_its_run_and_what_caused_it(world: World) -> None:
    publication, restore = [row for row in world.ledger.rows() if row.branch == "main"][-2:]
    restored, restated, late, first = history(world, window_ms=ms(20)).changes
    assert [(change.seq, change.cause, change.old, change.new) for change in (first, late)] == [
        (1, "first", None, {"n": 2, "total": 2}),
        (2, "late", {"n": 2, "total": 2}, {"n": 4, "total": 112}),
    ]
    assert [(change.seq, change.cause, change.old, change.new) for change in (restated, restored)] == [
        (publication.seq, "redrive", {"n": 4, "total": 112}, {"n": 5, "total": 1112}),
        (restore.seq, "restore", {"n": 5, "total": 1112}, {"n": 4, "total": 112}),
    ]
    assert reason_of(first) == "fired with 2 rows when the watermark reached 2013-01-01 22:00"
    assert late.late_arrivals == [moment(24.2), moment(24.25)]
    assert reason_of(late) == "2 late rows, arrived at 2013-01-02 00:12 and 00:15"
    assert restated.moved_count == 1
    [row] = restated.moved_rows
    assert (row.is_taken, row.event_time, row.arrival_time) == (True, moment(20.5), moment(36.0))
    assert row.values == {"e": moment(20.5), "a": moment(36.0), "row": 502, "x": 1000}
    assert restated.before is not None and restated.before.seq == 2 and restated.before.elements == 4
    assert restated.after is not None and restated.after.elements == 5
    assert restated.after.seq in {row.seq for row in world.ledger.rows() if row.branch != "main"}
    assert reason_of(restated) == (
        f"run {restated.after.seq} replaces run 2; 1 late row taken in; rows in the window 4 → 5; a slow feed"
    )
    assert [row.is_taken for row in restored.moved_rows] == [False]
    assert restored.after is not None and restored.after.seq == 2


def test_the_rows_that_caused_a_change_are_read_from_the_source(world: World) -> None:
    key_rows = KeyRows.of(world.tables, ["k"], "a", world.pipeline.max_parallelism)
    causes = CausingRows(world.pipeline, world.tables, world.warehouse, key_rows)
    rows = [
        [(cause.is_taken, cause.row.values["row"]) for cause in causes.of(change)]
        for change in history(world, window_ms=ms(20)).changes
    ]
    assert rows == [
        [(False, 502)],
        [(True, 502)],
        [(True, 500), (True, 501)],
        [(True, 20), (True, 21)],
    ]


def test_a_key_has_the_changes_of_all_its_windows_page_by_page(world: World) -> None:
    corrections = [row for row in world.table("corrections").read().to_pylist() if row["k"] == "a"]
    expected = sorted(
        ((row["seq"], row["window_start"], row["old"], row["new"]) for row in corrections),
        key=lambda change: change[:2],
        reverse=True,
    )

    def changes(limit: int | None, offset: int = 0) -> list[tuple]:
        page = history(world, limit=limit, offset=offset)
        assert page.has_more == (limit is not None and offset + limit < len(expected))
        return [
            (change.seq, change.window["window_start"], change.old, change.new) for change in page.changes
        ]

    assert changes(None) == expected
    assert [change for offset in range(0, len(expected), 10) for change in changes(10, offset)] == expected
    assert [change.seq for change in history(world, seq=2).changes] == [
        seq for seq, *_ in expected if seq == 2
    ]
    assert not history(world, key="nobody").changes


def test_a_window_that_started_another_day_has_no_history(world: World) -> None:
    assert not history(world, window_ms=ms(20) + timedelta(days=9) // timedelta(milliseconds=1)).changes
