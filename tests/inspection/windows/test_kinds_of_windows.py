"""Explanations of windows that few rows tell apart: what is expected here is counted by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.errors import UsageError
from slackwater.inspection.windows.window_answer import answer, further_sentences
from slackwater.inspection.windows.window_life import (
    WindowExplanation,
    WindowQuestion,
    WindowStatus,
    explain_window,
)
from slackwater.inspection.windows.window_search import NoSuchWindow, WindowName
from slackwater.inspection.windows.window_waiting import NextEvent
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.runs.own_lanes import LANES, lanes_of_a_day
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, moment

NO_LATENESS = timedelta(0)


def half_a_day(folder: Path, engine: Engine | None = None, **settings: Any) -> World:
    """A row each hour up to 17:00, which arrives half an hour later, replayed to 18:00 in slices of six
    hours. With a bound of an hour the watermark then is 15:59:59.999.
    """
    world = World(folder, replace(DAILY, **settings), engine=engine or OperatorEngine())
    world.append(every_hour(0, 20))
    world.run(18, slice_=6 * HOUR)
    return world


def explained(world: World, hours: float | None, key: str | None = "a", **question: Any) -> WindowExplanation:
    columns = question.pop("columns", {})
    name = WindowName(None if hours is None else moment(hours), columns)
    return explain_window(world.pipeline, str(world.folder), WindowQuestion(key=key, name=name, **question))


@pytest.mark.first_fast
@pytest.mark.parametrize("engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"])
def test_a_count_trigger_waits_for_the_elements_that_are_lacking(engine: Engine, tmp_path: Path) -> None:
    window = TumblingEventTimeWindows.of(4 * HOUR)
    world = half_a_day(tmp_path, engine, trigger=CountTrigger.of(3), window=window)
    waiting = explained(world, 16)
    assert waiting.waits_for.awaits is NextEvent.ELEMENTS
    assert waiting.waits_for.elements_needed == 1  # 16:00 and 17:00 have come
    assert answer(waiting) == (
        "open: waits for 1 more element; is collected at watermark 2013-01-01 23:00, it is at 16:00"
    )
    fired = explained(world, 12, reads_source=True)
    assert [(one.firing, one.cause, one.elements, one.clock) for one in fired.firings] == [
        (1, "element", 3, moment(14.5))
    ]
    assert [row.event_time for row in fired.elements.rows or ()] == [
        moment(hour) for hour in (12, 13, 14, 15)
    ]
    assert (fired.window.status, fired.waits_for.elements_needed) == (WindowStatus.HAS_FIRED, 2)


def test_a_window_that_never_had_its_elements_was_collected_without_a_firing(tmp_path: Path) -> None:
    life = explained(half_a_day(tmp_path, trigger=CountTrigger.of(30)), 2)
    assert (life.window.status, life.elements.accepted_count) == (WindowStatus.NEVER_FIRED, 2)
    # [02:00, 04:00) closes at 06:59:59.999, and the watermark of the second run is 09:59:59.999.
    assert life.window.collected_by == 2
    assert [(one.seq, one.elements) for one in life.elements.by_run] == [(1, 2)]


def test_a_watermark_that_is_a_millisecond_short_is_told_to_the_millisecond(tmp_path: Path) -> None:
    window = TumblingEventTimeWindows.of(6 * HOUR)
    life = explained(half_a_day(tmp_path, trigger=ContinuousEventTimeTrigger.of(2 * HOUR), window=window), 12)
    assert "watermark 2013-01-01 16:00:00.000, it is at 15:59:59.999" in answer(life)


def test_windows_of_the_clock_wait_for_the_clock(tmp_path: Path) -> None:
    window = TumblingProcessingTimeWindows.of(4 * HOUR)
    world = half_a_day(tmp_path, window=window, allowed_lateness=NO_LATENESS)
    life = explained(world, 16, reads_source=True)
    assert life.waits_for.domain == "processing"
    assert answer(life) == "open: waits for 2013-01-01 20:00 on the clock, which is at 2013-01-01 18:00"
    # By arrival: 15:00 came at 15:30, before the window.
    assert [row.event_time for row in life.elements.rows or ()] == [moment(16), moment(17)]


def test_the_global_window_and_windows_of_all_rows_are_named_without_what_they_lack(tmp_path: Path) -> None:
    window = GlobalWindows.create()
    endless = half_a_day(
        tmp_path / "1", window=window, trigger=CountTrigger.of(4), allowed_lateness=NO_LATENESS
    )
    life = explained(endless, None)
    assert [one.elements for one in life.firings] == [4, 8, 12, 16]
    assert life.waits_for.elements_needed == 2  # of 18
    with pytest.raises(UsageError, match="Leave --window out"):
        explained(endless, 3)
    keyless = half_a_day(tmp_path / "2", key_by=None)
    assert explained(keyless, 16, key=None).elements.accepted_count == 2
    with pytest.raises(UsageError, match="Leave --key out"):
        explained(keyless, 16)


def test_an_absorbed_session_is_found_as_the_one_that_holds_it(tmp_path: Path) -> None:
    pipeline = replace(DAILY, window=EventTimeSessionWindows.with_gap(HOUR), allowed_lateness=8 * HOUR)
    world = World(tmp_path, pipeline)
    # [01:00, 02:00) and [03:00, 04:00) have fired when the row of 02:00 joins them at 08:30.
    world.append([Event(1, 1.1, 0), Event(3, 3.1, 1), Event(8, 8.1, 2), Event(2, 8.5, 3), Event(8.2, 8.6, 4)])
    world.run(9, slice_=3 * HOUR)
    for instant in (1, 1.5, 2, 3, 3.9):
        life = explained(world, instant, reads_source=True)
        bounds = (life.window.columns["window_start"], life.window.columns["window_end"])
        assert bounds == (moment(1), moment(4))
        assert (life.window.instant is None) == (instant == 1)
    assert [(one.window["window_start"], one.absorbed_at) for one in life.absorbed_windows] == [
        (moment(1), moment(8.5)),
        (moment(3), moment(8.5)),
    ]
    assert [(one.clock, one.cause) for one in life.firings] == [
        (moment(19 / 6), "timer"),  # 03:10, the first tick at whose end the watermark is 02:00
        (moment(49 / 6), "timer"),
        (moment(8.5), "merge"),
        (moment(8.5), "merge"),
        (moment(8.5), "late row"),
    ]
    assert [row.event_time for row in life.elements.rows or ()] == [moment(1), moment(3), moment(2)]
    assert [(one["op"], one["cause"]) for one in life.corrections] == [
        ("insert", "first"),
        ("withdraw", "merge"),
        ("insert", "late"),
    ]
    with pytest.raises(NoSuchWindow, match="Nearest are 2013-01-01 01:00, 2013-01-01 08:00"):
        explained(world, 5)


def test_a_restated_window_shows_the_firings_that_count_and_says_which_do_not(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(every_hour(0, 20))
    world.run(18, slice_=6 * HOUR)
    world.append([Event(2.5, 3.2, 99, x=100)])
    world.backfill(0, 12)
    life = explained(world, 2)
    assert [(one.elements, one.brought_by, one.branch != "main") for one in life.firings] == [
        (3, "restatement", True)
    ]
    assert [(one.seq, one.standing, one.elements) for one in life.replaced_firings] == [(1, "replaced", 2)]
    assert "Other runs have replaced run 1" in " ".join(further_sentences(life))
    assert [
        (one["cause"], one["old"] and one["old"]["total"], one["new"]["total"]) for one in life.corrections
    ] == [
        ("first", None, 2),
        ("restatement", 2, 102),
    ]
    before = explained(world, 2, at="1")
    assert [(one.seq, one.elements) for one in before.firings] == [(1, 2)]
    assert before.window.status is WindowStatus.HAS_FIRED
    with pytest.raises(NoSuchWindow, match="as of run 1"):
        explained(world, 8, at="1")


def test_a_window_that_only_a_branch_has_fired_is_found_there(tmp_path: Path) -> None:
    world = half_a_day(tmp_path)
    world.append([Event(2.5, 3.2, 99, key="b")])
    world.backfill(0, 12, publish=False)
    life = explained(world, 2, key="b")
    [firing] = life.replaced_firings
    assert (life.window.status, life.firings) == (WindowStatus.ON_BRANCH, [])
    assert firing.standing == f"branch {world.ledger.branches()[0].name}"
    assert answer(life) == f"on a branch: it has fired on {firing.standing} alone, and not on main"
    on_branch = explained(world, 2, key="b", at=world.ledger.branches()[0].name)
    assert [one.elements for one in on_branch.firings] == [1]


def test_a_slice_that_was_rejected_is_why_nothing_goes_on(tmp_path: Path) -> None:
    world = half_a_day(tmp_path)
    head = world.main
    attempt = Attempt(
        run_id="r",
        parent_seq=head.seq,
        slice_start=moment(18),
        slice_end=moment(24),
        outcome="rejected",
        step="validate",
        at=moment(48),
    )
    AttemptsWriter(world.table("attempts")).record(attempt, moment(48))
    [stopped, *_] = further_sentences(explained(world, 16))
    assert stopped == (
        "The next slice, from 2013-01-01 18:00 to 2013-01-02 00:00, was tried and is rejected at validate; "
        "`slackwater runs daily` shows it."
    )


def test_windows_of_a_class_of_ones_own_are_told_apart_by_its_columns(tmp_path: Path) -> None:
    world = lanes_of_a_day(LANES, tmp_path)
    with pytest.raises(
        UsageError, match=r"gold, 2013-01-01 00:00 silver\. Name one with --column tier=VALUE"
    ):
        explained(world, 0)
    life = explained(world, 0, columns={"tier": "silver"}, reads_source=True)
    assert life.window.columns["tier"] == "silver"
    assert [row.event_time for row in life.elements.rows or ()] == [moment(0.2)]
    with pytest.raises(UsageError, match="its windows have tier"):
        explained(world, 0, columns={"x": "silver"})
