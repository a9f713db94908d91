"""What `late advise` says of another lateness or bound, checked by running the same rows with it, and by
counting over the rows themselves.
"""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows import lateness_and_bound, recorded_assignments
from slackwater.inspection.late_rows.completeness import BoundAdvice
from slackwater.inspection.late_rows.lateness_advice import LatenessAdvice
from slackwater.inspection.late_rows.lateness_and_bound import exactness, lateness_suggestion
from slackwater.inspection.late_rows.source_assignments import NotFromSource
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
)
from tests.runs.world import DAILY, HOUR, START, Event, World, moment

DAYS = 3
SLIDING = SlidingEventTimeWindows.of(2 * HOUR, HOUR)
SESSIONS = EventTimeSessionWindows.with_gap(HOUR / 4)


def delayed_events(seed: int = 7) -> list[Event]:
    """Rows of three days, most of which arrive within half an hour, and some many hours later."""
    chosen = random.Random(seed)
    events = []
    for number in range(500):
        event = chosen.uniform(0, 24 * DAYS - 6)
        delay = chosen.choice([0.1, 0.3, 0.5, chosen.expovariate(1 / 3)])
        events.append(Event(round(event, 3), round(event + delay, 3), number, chosen.choice("abc")))
    return [event for event in events if event.arrival is not None and event.arrival < 24 * DAYS]


EVENTS = delayed_events()


def replayed(folder: Path, pipeline: Pipeline, **settings: Any) -> World:
    """The rows, replayed in slices of a day."""
    world = World(folder, replace(pipeline, **settings), engine=ColumnarEngine())
    world.append(EVENTS)
    world.run(24 * DAYS)
    return world


def advice_of(
    world: World, lateness: timedelta | None = None, *, reads_source: bool = False
) -> LatenessAdvice:
    lateness_ms = None if lateness is None else lateness // timedelta(milliseconds=1)
    inspection = Inspection(world.pipeline.name, world.tables)
    reading = (world.pipeline, world.warehouse) if reads_source else None
    return lateness_and_bound.advice_of(inspection, lateness_ms=lateness_ms, reading=reading).lateness


def bound_advice_of(world: World, bound: timedelta, *, reads_source: bool = False) -> BoundAdvice:
    inspection = Inspection(world.pipeline.name, world.tables)
    bound_ms = bound // timedelta(milliseconds=1)
    reading = (world.pipeline, world.warehouse) if reads_source else None
    advice = lateness_and_bound.advice_of(inspection, bound_ms=bound_ms, reading=reading).bound
    assert advice is not None
    return advice


def refires(world: World) -> list[tuple[Any, ...]]:
    """The window of each firing for late rows."""
    return [
        (row["k"], row["window_start"], row["window_end"])
        for row in world.live("panes")
        if row["kind"] == "late"
    ]


SLOW = pytest.mark.slow
BY_REFIRES = pytest.mark.parametrize(
    "tumbling", ["element", pytest.param("tick", marks=SLOW)], indirect=True, scope="module"
)


@pytest.fixture(scope="module")
def tumbling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return replayed(tmp_path_factory.mktemp("tumbling"), DAILY, late_refires=request.param)


@pytest.mark.first_fast
@BY_REFIRES
@pytest.mark.parametrize("hours", [2, 8, *(pytest.param(hours, marks=SLOW) for hours in (0, 1, 5, 24))])
def test_another_lateness_does_what_the_advice_says(tmp_path: Path, tumbling: World, hours: int) -> None:
    price = advice_of(tumbling, hours * HOUR).price(hours * 3_600_000)
    other = replayed(tmp_path, tumbling.pipeline, allowed_lateness=hours * HOUR)
    before, after = ({row["row"] for row in world.live("late_events")} for world in (tumbling, other))
    assert len(before) > 10 and (price.rows_saved, price.rows_lost) == (
        len(before - after),
        len(after - before),
    )
    assert price.late_rows == len(after)
    assert (price.refires, price.windows_refired) == (len(refires(other)), len(set(refires(other))))
    runs = other.ledger.live_runs(other.main)
    open_windows = sum(run.windows_open for run in runs) / len(runs)
    assert price.windows_open == pytest.approx(open_windows, abs=1), "a few windows have late rows alone"


@pytest.mark.first_fast
@BY_REFIRES
@pytest.mark.parametrize("hours", [0.25, 3, *(pytest.param(hours, marks=SLOW) for hours in (0.5, 1, 1.5, 6))])
def test_another_bound_does_what_the_advice_says(tmp_path: Path, tumbling: World, hours: float) -> None:
    advice = bound_advice_of(tumbling, hours * HOUR, reads_source=hours < 1)
    [price] = [price for price in advice.prices if price.bound_ms == hours * 3_600_000]
    strategy = tumbling.pipeline.watermarks
    bound_ms = int(hours * 3_600_000)
    other = replayed(tmp_path, tumbling.pipeline, watermarks=replace(strategy, out_of_orderness_ms=bound_ms))
    assert price.late_rows == len(other.live("late_events"))
    watermark = tumbling.main.watermark_out
    assert watermark is not None
    settled = watermark - max(tumbling.pipeline.allowed_lateness, (hours - 1) * HOUR)
    all_rows: Counter[tuple[str, int]] = Counter()
    for event in EVENTS:
        end = int(event.event // 2) * 2 + 2
        if moment(end) - timedelta(milliseconds=1) <= settled:
            all_rows[event.key, end] += 1
    first_rows = {
        (row["k"], int((row["window_end"] - START) / HOUR)): row["elements"]
        for row in other.live("panes")
        if row["kind"] == "on_time"
    }
    shares = sorted(first_rows.get(window, 0) / rows for window, rows in all_rows.items())
    assert price.windows == len(shares) > 80
    assert price.complete_windows == sum(share == 1 for share in shares)
    assert price.rows == sum(all_rows.values())
    assert price.rows_at_first_firing == sum(first_rows.get(window, 0) for window in all_rows)
    assert price.quantiles[0.1] == shares[len(shares) // 10]
    assert sum(price.bars) == len(shares) and price.bars[-1] == price.complete_windows


@pytest.mark.first_fast
@SLOW
@pytest.mark.parametrize("hours", [0, 2, 5, 24])
def test_of_overlapping_windows_rows_are_exact_and_firings_a_lower_bound(tmp_path: Path, hours: int) -> None:
    world = replayed(tmp_path / "declared", DAILY, window=SLIDING)
    advice = advice_of(world, hours * HOUR)
    price = advice.price(hours * 3_600_000)
    other = replayed(tmp_path / "other", DAILY, window=SLIDING, allowed_lateness=hours * HOUR)
    before, after = ({row["row"] for row in one.live("late_events")} for one in (world, other))
    assert price.rows_saved == len(before - after)
    assert price.late_rows == (len(after) if hours >= 3 else None)
    assert price.rows_lost == max(0, _assigned(world) - _assigned(other))
    firings = len(refires(other))
    assert (
        price.refires is not None and price.refires <= firings <= price.refires + advice.missed_by_taken_rows
    )
    assert advice.missed_by_taken_rows > 0 and (hours >= 3 or price.refires == firings)
    price = advice_of(world, hours * HOUR, reads_source=True).price(hours * 3_600_000)
    assert (price.refires, price.late_rows) == (firings, len(after)), "the source tells them"


def _assigned(world: World) -> int:
    """How many elements the windows have that fired, each counted in each of its windows."""
    newest: dict[tuple[Any, ...], int] = {}
    for row in world.live("panes"):
        window = (row["k"], row["window_start"])
        newest[window] = max(newest.get(window, 0), row["elements"])
    return sum(newest.values())


@pytest.mark.first_fast
@SLOW
@pytest.mark.parametrize("hours", [4, 8, 24])
def test_of_sessions_rows_saved_are_a_lower_bound(tmp_path: Path, hours: int) -> None:
    world = replayed(tmp_path / "declared", DAILY, window=SESSIONS)
    price = advice_of(world, hours * HOUR).price(hours * 3_600_000)
    other = replayed(tmp_path / "other", DAILY, window=SESSIONS, allowed_lateness=hours * HOUR)
    before, after = ({row["row"] for row in one.live("late_events")} for one in (world, other))
    assert after <= before and 0 < price.rows_saved <= len(before - after)
    assert price.refires is not None and price.refires <= len(refires(other))
    assert (price.rows_lost, price.windows_refired) == (0, None)


def test_a_shorter_lateness_is_suggested_where_many_windows_would_have_lost_no_row(tmp_path: Path) -> None:
    world = World(tmp_path, replace(DAILY, allowed_lateness=24 * HOUR), engine=ColumnarEngine())
    events = [event for event in EVENTS if event.arrival is not None and event.arrival - event.event < 4]
    world.append(events)
    world.run(12)
    few_windows = advice_of(world)
    assert few_windows.rows_late == 0 and few_windows.suggestion == few_windows.current
    world.run(24 * DAYS)
    advice = advice_of(world)
    needed = [row["watermark"] - row["window_end"] for row in world.live("panes") if row["kind"] == "late"]
    assert timedelta(0) < max(needed) < advice.suggestion.lateness_ms * timedelta(milliseconds=1) < 4 * HOUR
    assert "instead of 1 day would have lost no row, and kept about" in lateness_suggestion(advice)


def test_rows_that_were_late_under_a_smaller_lateness_alone_ask_for_no_longer_one(tmp_path: Path) -> None:
    world = World(tmp_path, replace(DAILY, allowed_lateness=timedelta(0)), engine=ColumnarEngine())
    world.append(EVENTS)
    world.run(48)
    world.declare(allowed_lateness=24 * HOUR)
    world.run(24 * DAYS)
    advice = advice_of(world)
    assert len(world.live("late_events")) == advice.rows_late == advice.current.rows_saved > 20
    assert advice.suggestion == advice.current
    assert lateness_suggestion(advice).endswith("rows were too late under a smaller one alone.")


@BY_REFIRES
def test_of_the_newest_runs_whole_windows_are_looked_at(tumbling: World) -> None:
    reading = (tumbling.pipeline, tumbling.warehouse)
    inspection = Inspection("daily", tumbling.tables)
    watermark = tumbling.main.watermark_out
    assert watermark is not None
    settled = watermark - tumbling.pipeline.allowed_lateness
    rows = sum(
        event.event // 2 * 2 >= 24 and moment(event.event // 2 * 2 + 2) - timedelta(milliseconds=1) <= settled
        for event in EVENTS
    )
    advice = lateness_and_bound.advice_of(inspection, last_runs=2, reading=reading)
    assert advice.bound is not None and advice.bound.current.rows == rows
    late = [row for row in tumbling.live("late_events") if row["arrival_time"] >= moment(24)]
    assert advice.lateness.rows_late == len(late)


@BY_REFIRES
def test_of_many_rows_a_sample_of_the_windows_is_looked_at(
    tumbling: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = advice_of(tumbling).current
    monkeypatch.setattr(recorded_assignments, "SAMPLE_ROWS", 60)
    advice = advice_of(tumbling)
    assert advice.is_sample and advice.current.rows_saved == exact.rows_saved
    for name in ("refires", "windows_refired"):
        estimate, count = getattr(advice.current, name), getattr(exact, name)
        assert count / 2 < estimate < count * 2 and estimate % 4 == 0
    assert any("estimated from a sample" in sentence for sentence in exactness(advice))


def test_windows_without_a_key_that_purge_their_rows(tmp_path: Path) -> None:
    trigger = PurgingTrigger.of(EventTimeTrigger())
    world = replayed(tmp_path, DAILY, key_by=None, trigger=trigger)
    price = advice_of(world, timedelta(0)).price(0)
    late_panes = [row for row in world.live("panes") if row["kind"] == "late"]
    assert price.rows_lost == len(late_panes) > 0, "each late row makes its window fire"
    assert (price.refires, price.windows_refired) == (0, 0)


def test_a_trigger_of_another_kind_decides_when_windows_fire(tmp_path: Path) -> None:
    world = replayed(tmp_path, DAILY, trigger=CountTrigger.of(5))
    advice = lateness_and_bound.advice_of(Inspection("daily", world.tables))
    assert advice.bound is None and {price.refires for price in advice.lateness.prices} == {None}
    assert advice.lateness.prices[-1].rows_saved == len(world.live("late_events"))
    assert any("decided by the pipeline's trigger" in one for one in exactness(advice.lateness))


def test_a_session_is_as_complete_as_it_and_those_that_it_absorbed_were(tmp_path: Path) -> None:
    world = replayed(tmp_path, DAILY, window=SESSIONS)
    with pytest.raises(NotFromSource, match="windows on a grid alone"):
        advice_of(world, reads_source=True)
    price = bound_advice_of(world, 2 * HOUR).current
    watermark = world.main.watermark_out
    assert watermark is not None
    late_times: Counter[tuple[str, float]] = Counter()
    for row in world.live("late_events"):
        late_times[row["k"], (row["event_time"] - START) / HOUR] += 1
    windows_of_late_firings = [
        (row["k"], (row["window_start"] - START) / HOUR, (row["window_end"] - START) / HOUR)
        for row in world.live("panes")
        if row["kind"] == "late"
    ]
    shares = []
    for key in "abc":
        for first, last in _sessions(sorted(event.event for event in EVENTS if event.key == key)):
            if moment(last + 0.25) - timedelta(milliseconds=1) + 3 * HOUR > watermark:
                continue
            rows = sum(event.key == key and first <= event.event <= last for event in EVENTS)
            late = sum(
                number
                for (k, time), number in late_times.items()
                if k == key and first <= time <= last + 1e-6
            )
            late += sum(
                k == key and first - 1e-6 <= start and end <= last + 0.25 + 1e-6
                for k, start, end in windows_of_late_firings
            )
            shares.append((rows - late, rows))
    assert price.windows == len(shares) > 50
    assert price.rows == sum(rows for _, rows in shares)
    assert price.rows_at_first_firing == sum(on_time for on_time, _ in shares) < price.rows
    assert price.complete_windows == sum(on_time == rows for on_time, rows in shares)


def _sessions(times: list[float]) -> list[tuple[float, float]]:
    """First and last element of each session, in hours."""
    sessions: list[tuple[float, float]] = []
    for time in times:
        if sessions and time <= sessions[-1][1] + 0.25 + 1e-9:
            sessions[-1] = (sessions[-1][0], time)
        else:
            sessions.append((time, time))
    return sessions
