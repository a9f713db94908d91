"""An explanation says of each window what a brute-force model says that replays the raw rows: its firings,
its rows, where it stands and what it waits for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.errors import UsageError
from slackwater.inspection.windows.window_life import (
    WindowExplanation,
    WindowQuestion,
    WindowStatus,
    explain_window,
)
from slackwater.inspection.windows.window_search import SeveralWindows, WindowName
from slackwater.inspection.windows.window_waiting import NextEvent
from slackwater.pipelines import DeltaSource
from slackwater.windowing import (
    CumulateEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.times import to_datetime, to_ms
from tests.model import brute_force
from tests.model.records import (
    Aggregate,
    Cumulative,
    Event,
    Outcome,
    Replay,
    Session,
    Sliding,
    Tumbling,
    Window,
)
from tests.runs.world import DAILY, HOUR, World, ms
from tests.runs.world import Event as Row

HOUR_MS = 3_600_000
TICK = timedelta(minutes=10)
BASE = replace(
    DAILY,
    source=DeltaSource("events", event_time="e", arrival_time="a", order_by="row", source_partition="x"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(HOUR).with_idleness(5 * HOUR).with_interval(TICK),
)
PIPELINES = {
    "tumbling": BASE,
    "sliding": replace(BASE, window=SlidingEventTimeWindows.of(4 * HOUR, 2 * HOUR)),
    "cumulative": replace(BASE, window=CumulateEventTimeWindows.of(6 * HOUR, 2 * HOUR)),
    "sessions": replace(BASE, window=EventTimeSessionWindows.with_gap(HOUR)),
}
ASSIGNERS = {
    "tumbling": Tumbling(2 * HOUR_MS),
    "sliding": Sliding(4 * HOUR_MS, 2 * HOUR_MS),
    "cumulative": Cumulative(6 * HOUR_MS, 2 * HOUR_MS),
    "sessions": Session(HOUR_MS),
}
END = 40


def rows_of_two_days() -> list[Row]:
    """Rows of two keys and three source partitions; partition 3 falls silent and later sends old rows."""
    choose = random.Random(5)
    rows = []
    for number in range(90):
        event = number * END / 90
        partition = choose.choice((1, 2, 3)) if not 20 < event < 34 else choose.choice((1, 2))
        lag = choose.choice((0.2, 0.4, 1.5)) if choose.random() < 0.85 else choose.choice((4.5, 7, 12))
        rows.append(Row(event, min(event + lag, END - 0.01), number, choose.choice("ab"), partition))
    return rows


def model_of(kind: str, rows: list[Row], to: float) -> Outcome:
    rules = Replay(
        start=ms(0),
        to=ms(to),
        tick=600_000,
        bound=HOUR_MS,
        assigner=ASSIGNERS[kind],
        allowed_lateness=3 * HOUR_MS,
        idle_timeout=5 * HOUR_MS,
        aggregates=(Aggregate("n", "count"), Aggregate("total", "sum", "x")),
    )
    events = [
        Event(ms(row.event), ms(row.arrival or 0), str(row.x), row.row, row.key, {"x": row.x, "row": row.row})
        for row in rows
    ]
    return brute_force.replay(events, rules)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], World]:
    """A pipeline under an engine, replayed in slices of eight hours; made once."""

    @cache
    def world_of(kind: str, engine: str) -> World:
        engines: dict[str, Engine] = {"columnar": ColumnarEngine(), "operator": OperatorEngine()}
        folder = tmp_path_factory.mktemp(f"{kind}_{engine}")
        world = World(folder, PIPELINES[kind], engine=engines[engine])
        world.append(rows_of_two_days())
        world.run(END, slice_=8 * HOUR)
        return world

    return world_of


def explained(world: World, key: str, window: Window, **question: Any) -> WindowExplanation:
    """Windows that begin together are told apart by their ends."""
    is_cumulative = isinstance(world.pipeline.window, CumulateEventTimeWindows)
    columns = {"window_end": to_datetime(window.end).isoformat()} if is_cumulative else {}
    window_question = WindowQuestion(key=key, name=WindowName(to_datetime(window.start), columns), **question)
    return explain_window(world.pipeline, str(world.folder), window_question)


def windows_of_model(outcome: Outcome) -> list[tuple[Any, Window]]:
    """Every window of the model that was not absorbed."""
    withdrawn = {(pane.key, pane.window) for pane in outcome.panes if pane.kind == "withdrawn"}
    panes = {(pane.key, pane.window) for pane in outcome.panes} - withdrawn
    late = {(row.event.key, window) for row in outcome.late for window in row.windows}
    opened = {(window.key, window.window) for window in outcome.open_windows}
    return sorted(panes | late | opened, key=repr)


@pytest.mark.first_fast
@pytest.mark.parametrize(("kind", "engine"), [("tumbling", "columnar"), ("sessions", "operator")])
def test_some_windows_are_explained_as_a_model_of_the_raw_rows_has_them(
    kind: str, engine: str, worlds: Callable[[str, str], World]
) -> None:
    outcome = model_of(kind, rows_of_two_days(), END)
    some_windows = windows_of_model(outcome)[-4::-5]
    assert check_windows(worlds(kind, engine), outcome, kind, some_windows) >= {WindowStatus.IS_COLLECTED}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["columnar", "operator"])
@pytest.mark.parametrize("kind", list(PIPELINES))
def test_each_window_is_explained_as_a_model_of_the_raw_rows_has_it(
    kind: str, engine: str, worlds: Callable[[str, str], World]
) -> None:
    outcome = model_of(kind, rows_of_two_days(), END)
    statuses = check_windows(worlds(kind, engine), outcome, kind, windows_of_model(outcome))
    assert {WindowStatus.OPEN, WindowStatus.HAS_FIRED, WindowStatus.IS_COLLECTED} <= statuses
    assert outcome.late
    assert kind != "sessions" or any(pane.kind == "withdrawn" for pane in outcome.panes)


def check_windows(
    world: World, outcome: Outcome, kind: str, windows: Sequence[tuple[Any, Window]]
) -> set[WindowStatus]:
    """Compare the explanations of `windows` with the model; gives the statuses that there were."""
    statuses = set()
    for number, (key, window) in enumerate(windows):
        life = explained(world, key, window, reads_source=number % 6 == 0)
        if (ms_of(life, "window_start"), ms_of(life, "window_end")) != window:
            # A late row's own window touches none that was open, and lies in the span of one that has been.
            assert kind == "sessions" and any(window in row.windows for row in outcome.late)
            continue
        statuses.add(life.window.status)
        check_firings(life, outcome, key, window)
        check_waiting(life, outcome, key, window)
        check_elements(life, outcome, key, window, kind)
    return statuses


def ms_of(life: WindowExplanation, column: str) -> int:
    return to_ms(life.window.columns[column])


def check_firings(life: WindowExplanation, outcome: Outcome, key: Any, window: Window) -> None:
    causes = {"on_time": "timer", "late": "late row"}
    expected = [
        (
            pane.firing,
            pane.kind,
            pane.elements,
            pane.tick_end if pane.cause_arrival is None else pane.cause_arrival,
            pane.watermark,
            pane.results,
            causes[pane.kind],
        )
        for pane in outcome.panes
        if (pane.key, pane.window) == (key, window)
    ]
    assert [
        (
            one.firing,
            one.kind,
            one.elements,
            to_ms(one.clock) if one.clock else None,
            to_ms(one.watermark) if one.watermark else None,
            dict(one.values),
            str(one.cause),
        )
        for one in life.firings
        if dict(one.window) == dict(life.window.columns)
    ] == expected
    absorbed = {
        pane.window: pane.cause_arrival
        for pane in outcome.panes
        if pane.key == key
        and pane.kind == "withdrawn"
        and window.start <= pane.window.start <= pane.window.end <= window.end
    }
    assert {
        Window(to_ms(one.window["window_start"]), to_ms(one.window["window_end"])): to_ms(one.absorbed_at)
        for one in life.absorbed_windows
        if one.absorbed_at
    } == absorbed
    assert not life.replaced_firings
    published = [
        dict(pane.results or {}) for pane in outcome.published if (pane.key, pane.window) == (key, window)
    ]
    assert [{name: row[name] for name in ("n", "total")} for row in life.published_rows] == published
    own = [one for one in life.corrections if one["window"] == dict(life.window.columns)]
    assert [one["old"] for one in own[1:]] == [one["new"] for one in own[:-1]]
    assert [dict(one["new"] or {}) for one in own[-1:]] == published


def check_waiting(life: WindowExplanation, outcome: Outcome, key: Any, window: Window) -> None:
    waiting = life.waits_for
    timers = sorted(
        (timer for timer in outcome.timers if (timer.key, timer.window) == (key, window)),
        key=lambda timer: timer.time,
    )
    assert (life.parked_state is None) == (not timers)
    if not timers:
        assert (waiting.awaits, waiting.held_back_by) == (NextEvent.NOTHING, ())
        return
    firing = [timer for timer in timers if "fire" in timer.purpose]
    next_timer = (firing or timers)[0]
    assert waiting.awaits is (NextEvent.FIRING if firing else NextEvent.CLEANUP)
    assert waiting.needed_time == to_datetime(next_timer.time)
    assert waiting.present == to_datetime(outcome.watermark)
    slow = sorted(
        (shown.max_event_time, shown.source)
        for shown in outcome.progress
        if not shown.idle and shown.max_event_time - HOUR_MS - 1 < next_timer.time
    )
    assert [(to_ms(one.max_event_time), one.source_partition) for one in waiting.held_back_by] == slow
    [opened] = [one for one in outcome.open_windows if (one.key, one.window) == (key, window)]
    assert life.parked_state is not None
    assert (life.parked_state.elements, life.parked_state.firings) == (opened.elements, opened.firings)
    assert life.elements.accepted_count == opened.elements
    assert (life.elements.first_arrival, life.elements.last_arrival) == (
        to_datetime(opened.first_arrival),
        to_datetime(opened.last_arrival),
    )


def check_elements(life: WindowExplanation, outcome: Outcome, key: Any, window: Window, kind: str) -> None:
    late = [
        row
        for row in outcome.late
        if row.event.key == key
        and any(
            one == window or (kind == "sessions" and one.start <= window.end and one.end >= window.start)
            for one in row.windows
        )
    ]
    assert life.elements.late == len(late)
    if life.elements.rows is None:
        return
    rows_in = Counter(
        (to_ms(row.event_time), to_ms(row.arrival_time)) for row in life.elements.rows if not row.is_late
    )
    members = [pane.members for pane in outcome.panes if (pane.key, pane.window) == (key, window)]
    if members and life.parked_state is None:
        assert rows_in == Counter((one.event_time, one.arrival) for one in members[-1])
    else:
        assert sum(rows_in.values()) == (life.elements.accepted_count or 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(PIPELINES))
def test_both_engines_give_one_explanation(kind: str, worlds: Callable[[str, str], World]) -> None:
    key, window = windows_of_model(model_of(kind, rows_of_two_days(), END))[-3]
    first, second = (
        explained(worlds(kind, engine), key, window, reads_source=True).as_json()
        for engine in ("columnar", "operator")
    )
    for values in (first, second):
        for correction in values["corrections"]:
            correction.pop("at")
    assert first == second


@pytest.mark.slow
def test_a_start_that_several_windows_have_is_refused_with_their_ends(
    worlds: Callable[[str, str], World],
) -> None:
    world = worlds("cumulative", "columnar")
    question = WindowQuestion(key="a", name=WindowName(to_datetime(ms(6)), {}))
    with pytest.raises(SeveralWindows, match=r"--column window_end=2013-01-01T08:00:00Z\.") as refusal:
        explain_window(world.pipeline, str(world.folder), question)
    ends = sorted(to_ms(window["window_end"]) for window in refusal.value.windows)
    assert ends == [ms(8), ms(10), ms(12)]
    assert "until" in str(refusal.value)
    of_text = WindowQuestion(key="a", name=WindowName(to_datetime(ms(6)), {"window_end": "noon"}))
    with pytest.raises(UsageError, match="'noon' is not an ISO 8601 time"):
        explain_window(world.pipeline, str(world.folder), of_text)
