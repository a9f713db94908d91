"""Hours, days, weeks and months of time zones: both engines leave what the brute-force model says, whatever
cuts, parallelism and changes of engine there are (P1 to P3).

Replays of other properties are stretched, so that a few hundred milliseconds become days around a change of
clocks. Where the periods begin is asked of zoneinfo, date by date and hour by hour.
"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.snapshot_rows import CalendarChanged
from slackwater.windowing import calendars
from slackwater.windowing.columnar.numbered_windows import table_of_starts
from slackwater.windowing.times import to_ms
from tests.model import records as model
from tests.properties import test_engines, test_split_and_parallelism
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import check_engines
from tests.properties.test_split_and_parallelism import START, check_against_model, cuts_of, left

MINUTE_MS = 60_000
ENGINES = {"operator": OperatorEngine(), "columnar": ColumnarEngine()}
# Zone and a date soon after which its clocks change.
CHANGES = [
    ("Europe/Berlin", date(2025, 3, 28)),
    ("Europe/Berlin", date(2025, 10, 24)),
    ("America/New_York", date(2025, 3, 7)),
    ("America/New_York", date(2025, 10, 31)),
    ("Australia/Lord_Howe", date(2025, 4, 4)),
    ("Asia/Kathmandu", date(1969, 12, 30)),
]
# How long a millisecond of the original becomes: windows should be about a tenth of the range.
STRETCHES = {
    "hours": 10 * MINUTE_MS,
    "days": 20 * MINUTE_MS,
    "weeks": 120 * MINUTE_MS,
    "months": 600 * MINUTE_MS,
}
# Unit, count, and a date from which several of them are counted.
PERIODS = [
    ("days", 1, None),
    ("weeks", 1, None),
    ("months", 1, None),
    ("hours", 1, None),
    ("hours", 6, None),
    ("days", 3, date(2025, 3, 29)),
    ("weeks", 2, date(2025, 11, 3)),
    ("months", 2, date(2024, 8, 31)),
]


def first_times(unit: str, count: int, since: date | None, around: date) -> list[datetime]:
    """The first local times of the periods of four years, some before them."""
    dates = [around + timedelta(days=off) for off in range(-730, 730)]
    if unit == "months":
        origin = since or date(1970, 1, 1)
        first = (around.year - origin.year) * 12 // count - 24
        dates = [origin + relativedelta(months=count * number) for number in range(first, first + 60)]
    elif unit != "hours":
        length = count * (7 if unit == "weeks" else 1)
        origin = since or (date(1970, 1, 5) if unit == "weeks" else date(1970, 1, 1))
        dates = [day for day in dates if (day - origin).days % length == 0]
    hours = range(0, 24, count) if unit == "hours" else [0]
    return [datetime(day.year, day.month, day.day, hour) for day in dates for hour in hours]  # noqa: DTZ001


def looked_up(zone: str, unit: str, around: date, count: int = 1, since: date | None = None) -> model.Periods:
    moments = (local.replace(tzinfo=ZoneInfo(zone)) for local in first_times(unit, count, since, around))
    bounds = tuple(to_ms(moment.astimezone(UTC)) for moment in moments)
    return model.Periods(bounds, zone, unit, count, since)


@st.composite
def stretched(draw, replays):
    """A replay whose windows are periods of a calendar, with all of its times drawn out."""
    rules, events = draw(replays)
    zone, day = draw(st.sampled_from(CHANGES), label="zone and change")
    unit, count, since = draw(st.sampled_from(PERIODS), label="period")
    stretch = STRETCHES[unit]
    base = to_ms(datetime(day.year, day.month, day.day, tzinfo=UTC))

    def later(time):
        return None if time is None else base + (time - START) * stretch

    lengths = {
        name: length and length * stretch
        for name in ("tick", "bound", "allowed_lateness", "idle_timeout", "max_ahead", "max_behind")
        if (length := getattr(rules, name)) is not None
    }
    stretched_rules = replace(
        rules,
        start=later(rules.start),
        to=later(rules.to),
        assigner=looked_up(zone, unit, day, count, since),
        **lengths,
    )
    return stretched_rules, [
        event._replace(event_time=later(event.event_time), arrival=later(event.arrival)) for event in events
    ]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@given(stretched(test_split_and_parallelism.replays()))
@searched(4, long=40)
def test_one_run_over_calendar_windows_is_what_the_model_says(engine, replay):
    rules, events = replay
    replayed = replay_pipeline(pipeline_of(rules, False), events, rules, [], [2], engines=[ENGINES[engine]])
    check_against_model(replayed, events, rules)


@pytest.mark.slow
@given(stretched(test_split_and_parallelism.replays()), st.data())
@searched(3, long=40)
def test_cuts_and_parallelism_do_not_show_in_calendar_windows(replay, data):
    rules, events = replay
    pipeline = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    once = left(replay_pipeline(pipeline, events, rules, [], [1], engines=[ENGINES["columnar"]]))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5, 32]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    engines = [ENGINES[name] for name in data.draw(st.permutations(sorted(ENGINES)), label="engines")]
    assert left(replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, engines=engines)) == once


@pytest.mark.slow
@given(st.data())
@searched(2, long=24)
def test_engines_leave_the_same_of_calendar_windows(data):
    rules, events = data.draw(stretched(test_engines.replays(test_engines.TUMBLING)), label="replay")
    check_engines(pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data)


def event(time: int, arrival: int, row: int) -> model.Event:
    return model.Event(time, arrival, "s", row, "a", {"x": 1, "y": 1.0})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parked_day_that_the_calendar_no_longer_has_is_refused_by_both_engines(engine, monkeypatch):
    start = to_ms(datetime(2031, 3, 20, tzinfo=UTC))
    day, tick = 24 * 60 * MINUTE_MS, 60 * MINUTE_MS
    rules = model.Replay(
        start, start + 20 * day, tick, 0, looked_up("Europe/Berlin", "days", date(2031, 3, 20))
    )
    cut = start + 12 * day  # on 1 April, when clocks have summer time
    events = [event(cut - 1, cut - 1, 1), event(cut + 5 * tick, cut + 5 * tick, 2)]
    pipeline = pipeline_of(rules, False)
    replay_pipeline(pipeline, events, rules, [cut], [1], engines=[ENGINES[engine]])

    class Repealing:
        """Europe/Berlin gives up summer time between the two runs."""

        name = ENGINES[engine].name

        def replay(self, replay, transport):
            if replay.scan.from_ms == cut:
                monkeypatch.setattr(calendars, "zone_named", lambda name: ZoneInfo("Etc/GMT-1"))
                table_of_starts.cache_clear()
            return ENGINES[engine].replay(replay, transport)

    try:
        with pytest.raises(CalendarChanged, match=r"1 open windows .* 'Europe/Berlin'") as caught:
            replay_pipeline(pipeline, events, rules, [cut], [1], engines=[Repealing()])
    finally:
        table_of_starts.cache_clear()
    message = str(caught.value)
    assert "parked as [2031-03-31T22:00:00Z, 2031-04-01T22:00:00Z)" in message
    assert "now has [2031-03-30T23:00:00Z, 2031-03-31T23:00:00Z)" in message
    assert "backfill random --from 2031-03-30T23:00:00Z" in message
