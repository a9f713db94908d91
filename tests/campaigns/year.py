"""The pipelines of the simulated year: the examples on flights of which some report days late.

Given to commands with --pipelines; imports nothing of the tests.
"""

from dataclasses import replace
from datetime import timedelta

from slackwater import expect
from slackwater.examples import departures as by_hour
from slackwater.examples import turnarounds as by_aircraft

_HISTORY = {
    "keep_history": timedelta(days=60),
    "keep_snapshots": 30,
    "keep_snapshot_every": timedelta(days=400),
}

departures = replace(
    by_hour.departures,
    allowed_lateness=timedelta(days=2),
    expect=[expect.between("flights", min=1), expect.in_set("origin", ["EWR", "JFK", "LGA"])],
    **_HISTORY,
)
# Of a simulated month that has a run each quarter of an hour.
quarter_hours = replace(departures, name="quarter_hours", slice=timedelta(minutes=15))
turnarounds = replace(
    by_aircraft.turnarounds,
    allowed_lateness=timedelta(days=2),
    expect=[expect.between("departures", min=1)],
    **_HISTORY,
)
