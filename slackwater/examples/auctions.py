"""The source of the Nexmark queries: an online auction's people, items and bids, each event a pure function
of its number.

The model is Nexmark's (Tucker et al.; the generators of Apache Beam and of Flink's port): of 50 events one is
a person, three are auctions and 46 bids; half of the bids go to one hot auction of the last hundred, three
quarters come from one hot bidder of the last hundred people. In addition, an event arrives up to two seconds
after it happened, one in a hundred 5 to 30 seconds.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.examples import BadRange, LoadedRange
from slackwater.examples.appending import TIME, append_missing, checked_range, within
from slackwater.examples.random_numbers import Int64s, below, uniform

SOURCE = "sources/nexmark"
START = datetime(2024, 1, 1, tzinfo=UTC)
EVERY_MS = 10  # 100 events a second
PERSONS, AUCTIONS, BIDS = 1, 3, 46
EVENTS = PERSONS + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
IN_FLIGHT, ACTIVE_PEOPLE, LEAD = 100, 1000, 10
HOT_AUCTIONS, HOT_BIDDERS, HOT_SELLERS = 2, 4, 4  # one event in so many does not name the hot one
GREATEST_DELAY_MS = 30_000
CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
SCHEMA = pa.schema(
    [
        ("event", pa.string()),
        ("event_time", TIME),
        ("arrival_time", TIME),
        ("person", pa.int64()),
        ("state", pa.string()),
        ("auction", pa.int64()),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("row", pa.int64()),
        ("arrival_date", pa.date32()),
    ]
)
Bools = npt.NDArray[np.bool_]


def load_auctions(warehouse: str, start: datetime, end: datetime) -> LoadedRange:
    """Write the events that arrived in [start, end) to ``<warehouse>/sources/nexmark``, except rows that it
    has.

    `start` and `end` have a time zone; nothing arrives before 2024. Raises BadRange, also for more than a
    week, and the errors of `append_missing`.
    """
    start, end = checked_range(start, end)
    if end <= START:
        raise BadRange(
            f"nothing arrived before {START:%FT%TZ}, and the range ends at {end:%FT%TZ}. Give a later end.",
            start=start,
            end=end,
        )
    if end - start > timedelta(days=7):
        raise BadRange("a load takes a week at most; load one after the other.", start=start, end=end)
    return append_missing(warehouse, SOURCE, events_arrived(start, end), start, end)


def events_arrived(start: datetime, end: datetime) -> pa.Table:
    """The events that arrived in [start, end), as `SCHEMA`, by (arrival, row); the same in every range."""
    since, until = (-((START - moment) // timedelta(milliseconds=1)) for moment in (start, end))
    first = max(0, (since - GREATEST_DELAY_MS) // EVERY_MS)
    events = _events(np.arange(first, max(first, until // EVERY_MS + 1), dtype=np.int64))
    return events.filter(within(start, end)).sort_by([("arrival_time", "ascending"), ("row", "ascending")])


def _events(number: Int64s) -> pa.Table:
    place = number % EVENTS
    is_person, is_bid = place < PERSONS, place >= PERSONS + AUCTIONS
    is_auction = ~is_person & ~is_bid
    event_ms = number * EVERY_MS
    arrival_ms = event_ms + _delays(number)
    price = np.rint(np.power(10.0, uniform(number, 1) * 6) * 100).astype(np.int64)
    start_us = int(START.timestamp()) * 1_000_000
    arrival = pa.array(start_us + arrival_ms * 1000).cast(TIME)
    columns = {
        "event": np.select([is_person, is_auction], ["person", "auction"], "bid").astype(object),
        "event_time": pa.array(start_us + event_ms * 1000).cast(TIME),
        "arrival_time": arrival,
        "person": _where(is_person, FIRST_ID + _last_person(number)),
        "state": _where(is_person, np.asarray(STATES, object)[below(number, 2, len(STATES))]),
        "auction": _where(
            ~is_person, FIRST_ID + np.where(is_auction, _last_auction(number), _auction_of_bid(number))
        ),
        "seller": _where(is_auction, FIRST_ID + _person_or_hot(number, 3, HOT_SELLERS, 0)),
        "category": _where(is_auction, FIRST_CATEGORY + below(number, 5, CATEGORIES)),
        "bidder": _where(is_bid, FIRST_ID + _person_or_hot(number, 6, HOT_BIDDERS, 1)),
        "price": _where(is_bid, price),
        "channel": _where(is_bid, np.asarray(CHANNELS, object)[below(number, 8, len(CHANNELS))]),
        "row": number,
        "arrival_date": arrival.cast(pa.date32()),
    }
    return pa.table(
        {field.name: pa.array(columns[field.name], field.type) for field in SCHEMA}, schema=SCHEMA
    )


def _where(has_value: Bools, values: npt.NDArray) -> pa.Array:
    return pa.array(values, mask=~has_value)


def _delays(number: Int64s) -> Int64s:
    late = below(number, 9, 100) == 0
    return np.where(late, 5_000 + below(number, 10, GREATEST_DELAY_MS - 5_000), below(number, 11, 2_000))


def _last_person(number: Int64s) -> Int64s:
    """The number of the newest person, counted from 0, when the event happens."""
    return number // EVENTS


def _last_auction(number: Int64s) -> Int64s:
    """The number of the newest auction, counted from 0, when the event happens; 0 before there is one."""
    epoch, place = np.divmod(number, EVENTS)
    return np.maximum(0, epoch * AUCTIONS + np.clip(place - PERSONS, -1, AUCTIONS - 1))


def _auction_of_bid(number: Int64s) -> Int64s:
    newest = _last_auction(number)
    oldest = np.maximum(0, newest - IN_FLIGHT)
    ordinary_auction = oldest + below(number, 12, newest - oldest + 1 + LEAD)
    return np.where(below(number, 13, HOT_AUCTIONS) > 0, newest // 100 * 100, ordinary_auction)


def _person_or_hot(number: Int64s, purpose: int, ratio: int, hot: int) -> Int64s:
    """The hot person of the last hundred; for one event in `ratio` an active or a coming one."""
    people = _last_person(number) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    ordinary_person = people - active + below(number, purpose, active + LEAD)
    return np.where(below(number, purpose + 1, ratio) > 0, (people - 1) // 100 * 100 + hot, ordinary_person)
