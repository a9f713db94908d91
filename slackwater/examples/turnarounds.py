"""How long each aircraft keeps flying in and out of New York before it rests: sessions of one tail number,
three hours apart, over the flights of `departures`. Sessions cross midnight, and a flight that reports late
may join two that were published apart.
"""

from datetime import timedelta

from slackwater import EventTimeSessionWindows, Pipeline, agg, expect
from slackwater.examples import departures

turnarounds = Pipeline(
    name="turnarounds",
    source=departures.departures.source,
    watermarks=departures.departures.watermarks,
    key_by="tailnum",
    window=EventTimeSessionWindows.with_gap(timedelta(hours=3)),
    allowed_lateness=timedelta(hours=6),
    select={
        "departures": agg.count(),
        "first_departure": agg.min("event_time"),
        "last_departure": agg.max("event_time"),
        "mean_dep_delay": agg.mean("dep_delay"),
    },
    expect=[expect.between("departures", min=1, max=20), expect.not_null("first_departure")],
    start="2013-01-01",
    schedule="@daily",
)
