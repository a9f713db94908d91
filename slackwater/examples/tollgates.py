"""Vehicles per tollgate in windows of ten seconds, refreshed every 30 seconds while they come in, and
delivered to Redis. Their source is a bronze table with the records of a Kafka topic.

`slackwater examples load tollgates` writes the source, and REDIS_URL names the server. `python -m
slackwater.cli.tollgates_demo` does it all, with a server of its own.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from slackwater import (
    ContinuousProcessingTimeTrigger,
    DeltaSource,
    EventTimeTrigger,
    GlobalWindow,
    Pipeline,
    RedisSink,
    TimeWindow,
    Trigger,
    TriggerContext,
    TriggerResult,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    agg,
)

ENDLESS = GlobalWindow()


@dataclass(frozen=True)
class RefreshingTrigger(Trigger):
    """Fires whenever `refresh` does, from a window's first element until it is collected, and whenever `end`
    does: at the window's last instant of event time, then for each late element.

    ContinuousProcessingTimeTrigger alone fires for the last time when the clock reaches the window's last
    instant, and never publishes later arrivals. So it gets a window without an end here.
    """

    looks_at_elements: ClassVar[bool] = False
    states = ContinuousProcessingTimeTrigger.states

    end: ClassVar = EventTimeTrigger()
    refresh: ContinuousProcessingTimeTrigger

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, context: TriggerContext
    ) -> TriggerResult:
        result = self.refresh.on_element(element, timestamp, ENDLESS, context)
        return result.merge(self.end.on_element(element, timestamp, window, context))

    def on_event_time(self, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return self.end.on_event_time(timestamp, window, context)

    def on_processing_time(
        self, timestamp: int, window: TimeWindow, context: TriggerContext
    ) -> TriggerResult:
        return self.refresh.on_processing_time(timestamp, ENDLESS, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        self.refresh.clear(ENDLESS, context)
        self.end.clear(window, context)


tollgates = Pipeline(
    name="tollgates",
    source=DeltaSource(
        "sources/vehicles",
        derive={
            "tollgate": "value ->> '$.tollgate.id'",
            "event_time": "epoch_ms(CAST(value ->> '$.ts' AS BIGINT))",
        },
        event_time="event_time",
        arrival_time="timestamp",
        source_partition="partition",
        order_by="offset",
    ),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=5)).with_interval(
        timedelta(seconds=1)
    ),
    key_by="tollgate",
    max_parallelism=4,  # five keys need no more key groups, each of which may get a RocksDB of its own
    window=TumblingEventTimeWindows.of(timedelta(seconds=10)),
    trigger=RefreshingTrigger(ContinuousProcessingTimeTrigger.of(timedelta(seconds=30))),
    allowed_lateness=timedelta(minutes=2),
    select={"vehicles": agg.count()},
    sinks=[RedisSink("live", url="env:REDIS_URL", key="tollgates:{tollgate}:{window_start_ms}")],
    start="2024-01-01",
    schedule=None,
    slice=timedelta(minutes=10),
)
