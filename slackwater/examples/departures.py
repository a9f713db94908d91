"""Departures of New York's three airports by the hour, from flights that report when they land; `slackwater
examples load departures` writes the source.
"""

from datetime import timedelta

from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg, expect

departures = Pipeline(
    name="departures",
    source=DeltaSource(
        "sources/departures",
        event_time="event_time",
        arrival_time="arrival_time",
        source_partition="carrier",
        order_by="row",
    ),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1))
    .with_idleness(timedelta(minutes=30))
    .with_interval(timedelta(minutes=5)),
    key_by="origin",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    allowed_lateness=timedelta(hours=4),
    select={
        "flights": agg.count(),
        "mean_dep_delay": agg.mean("dep_delay"),
        "max_dep_delay": agg.max("dep_delay"),
    },
    expect=[
        expect.between("flights", min=1),
        expect.between("mean_dep_delay", -60, 1500),
        expect.between("max_dep_delay", -60, 1500),
        expect.in_set("origin", ["EWR", "JFK", "LGA"]),
        expect.suite("departures.json"),
    ],
    start="2013-01-01",
    schedule="@daily",
)
