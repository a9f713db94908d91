"""Queries 5, 7, 11 and 12 of Nexmark, over the one source that `slackwater examples load nexmark_q5` writes.
The benchmark's steps after its windows (the greatest count, the highest bid) are queries on `published`.
"""

from datetime import timedelta
from functools import partial

from slackwater import (
    DeltaSource,
    EventTimeSessionWindows,
    Pipeline,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
    agg,
)

_TEN_SECONDS = timedelta(seconds=10)
_query = partial(
    Pipeline,
    source=DeltaSource(
        "sources/nexmark", event_time="event_time", arrival_time="arrival_time", order_by="row"
    ),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(seconds=3)).with_interval(
        timedelta(seconds=1)
    ),
    where="event = 'bid'",
    allowed_lateness=_TEN_SECONDS,
    start="2024-01-01",
    schedule=None,
    slice=timedelta(hours=1),
)

# Hot items: bids for each auction within the last ten seconds, every two seconds.
nexmark_q5 = _query(
    name="nexmark_q5",
    key_by="auction",
    window=SlidingEventTimeWindows.of(_TEN_SECONDS, timedelta(seconds=2)),
    select={"bids": agg.count()},
)

# Highest bid: the highest price of all bids of ten seconds.
nexmark_q7 = _query(
    name="nexmark_q7",
    key_by="event",
    window=TumblingEventTimeWindows.of(_TEN_SECONDS),
    select={"highest_price": agg.max("price")},
)

# User sessions: bids of each bidder until ten seconds of silence.
nexmark_q11 = _query(
    name="nexmark_q11",
    key_by="bidder",
    window=EventTimeSessionWindows.with_gap(_TEN_SECONDS),
    select={"bids": agg.count()},
)

# Processing time windows: bids of each bidder within ten seconds of the clock, which in a replay is the
# arrival.
nexmark_q12 = _query(
    name="nexmark_q12",
    key_by="bidder",
    window=TumblingProcessingTimeWindows.of(_TEN_SECONDS),
    allowed_lateness=timedelta(0),
    select={"bids": agg.count()},
)
