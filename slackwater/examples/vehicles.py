"""The source of the tollgates: vehicles that pass five gates, two a second, each event a pure function of its
number.

Most events arrive within two seconds, one in five up to a minute late, one in a hundred up to five minutes,
and one in a hundred up to ten minutes, of which the pipeline accepts the first seven.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from slackwater.examples import BadRange, LoadedRange
from slackwater.examples.appending import TIME, append_missing, checked_range, within
from slackwater.examples.random_numbers import Int64s, below

SOURCE = "sources/tollgates"
START = datetime(2024, 1, 1, tzinfo=UTC)
EVERY_MS = 500
TOLLGATES = ("A1", "A2", "B1", "B2", "C1")
# Of a thousand events, so many arrive with a delay of [least, greatest) milliseconds.
DELAYS = (
    (780, 0, 2_000),
    (200, 2_000, 60_000),
    (10, 60_000, 300_000),
    (10, 300_000, 600_000),
)
GREATEST_DELAY_MS = 600_000
SCHEMA = pa.schema(
    [
        ("tollgate", pa.string()),
        ("vehicle", pa.int64()),
        ("event_time", TIME),
        ("arrival_time", TIME),
        ("row", pa.int64()),
        ("arrival_date", pa.date32()),
    ]
)


def load_vehicles(warehouse: str, start: datetime, end: datetime) -> LoadedRange:
    """Write the events that arrived in [start, end) to ``<warehouse>/sources/tollgates``, except rows that it
    has.

    `start` and `end` have a time zone; nothing arrives before 2024. Raises BadRange, also for more than 30
    days, and the errors of `append_missing`.
    """
    start, end = checked_range(start, end)
    if end <= START:
        raise BadRange(
            f"nothing arrived before {START:%FT%TZ}, and the range ends at {end:%FT%TZ}. Give a later end.",
            start=start,
            end=end,
        )
    if end - start > timedelta(days=30):
        raise BadRange("a load takes 30 days at most; load one after the other.", start=start, end=end)
    return append_missing(warehouse, SOURCE, vehicles_arrived(start, end), start, end)


def vehicles_arrived(start: datetime, end: datetime) -> pa.Table:
    """The events that arrived in [start, end), as `SCHEMA`, by (arrival, row); the same in every range."""
    since, until = (-((START - moment) // timedelta(milliseconds=1)) for moment in (start, end))
    first = max(0, (since - GREATEST_DELAY_MS) // EVERY_MS - 1)
    events = _events(np.arange(first, max(first, until // EVERY_MS + 1), dtype=np.int64))
    return events.filter(within(start, end)).sort_by([("arrival_time", "ascending"), ("row", "ascending")])


def _events(number: Int64s) -> pa.Table:
    event_ms = number * EVERY_MS + below(number, 0, EVERY_MS)
    start_us = int(START.timestamp()) * 1_000_000
    arrival = pa.array(start_us + (event_ms + _delays(number)) * 1000).cast(TIME)
    columns = {
        "tollgate": np.asarray(TOLLGATES, object)[below(number, 1, len(TOLLGATES))],
        "vehicle": 100_000 + below(number, 2, 900_000),
        "event_time": pa.array(start_us + event_ms * 1000).cast(TIME),
        "arrival_time": arrival,
        "row": number,
        "arrival_date": arrival.cast(pa.date32()),
    }
    return pa.table(
        {field.name: pa.array(columns[field.name], field.type) for field in SCHEMA}, schema=SCHEMA
    )


def _delays(number: Int64s) -> Int64s:
    shares, least, greatest = (np.asarray(column, np.int64) for column in zip(*DELAYS, strict=True))
    kind = np.searchsorted(np.cumsum(shares), below(number, 3, int(shares.sum())), side="right")
    return least[kind] + below(number, 4, (greatest - least)[kind])
