"""A user's pipelines over the example's flights: delays by destination, and aircraft that rest.

Lineages are stored that were written under this text, but for the import lines: leave it as it is.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from slackwater import (
    DeltaSource,
    KeyedProcessFunction,
    Pipeline,
    SlidingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
    agg,
    expect,
)

FLIGHTS = DeltaSource(
    "sources/departures",
    event_time="event_time",
    arrival_time="arrival_time",
    source_partition="carrier",
    order_by="row",
)
REPORTS = WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=2)).with_idleness(timedelta(hours=1))

routes = Pipeline(
    name="routes",
    source=FLIGHTS,
    watermarks=REPORTS,
    key_by="dest",
    window=SlidingEventTimeWindows.of(timedelta(hours=4), timedelta(hours=2)),
    allowed_lateness=timedelta(hours=3),
    select={
        "flights": agg.count(),
        "least_delay": agg.min("dep_delay"),
        "greatest_delay": agg.max("dep_delay"),
        "mean_delay": agg.mean("dep_delay"),
    },
    expect=[expect.between("flights", min=1)],
    start="2013-01-22",
    schedule="@daily",
)


class Rests(KeyedProcessFunction):
    """How long an aircraft flew before it rested for nine hours: one row when the ninth hour has passed."""

    first = ValueStateDescriptor("first", sql_type="long")
    last = ValueStateDescriptor("last", sql_type="long")
    states = (first, last)

    def open(self, runtime_context: Any) -> None:
        self.first_flight = runtime_context.get_state(self.first)
        self.last_flight = runtime_context.get_state(self.last)

    def process_element(self, value: Any, context: Any) -> None:
        if self.first_flight.value() is None:
            self.first_flight.update(context.timestamp)
        latest = max(context.timestamp, self.last_flight.value() or 0)
        self.last_flight.update(latest)
        context.timer_service.register_event_time_timer(latest + 9 * 3_600_000)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:
        last = self.last_flight.value()
        if last is not None and timestamp == last + 9 * 3_600_000:
            yield (last - self.first_flight.value(),)
            self.first_flight.clear()
            self.last_flight.clear()


rests = Pipeline(
    name="rests",
    source=FLIGHTS,
    watermarks=REPORTS,
    key_by="tailnum",
    process=Rests(),
    output="flown_ms long",
    columns=["dest"],
    start="2013-01-22",
    schedule="@daily",
)
