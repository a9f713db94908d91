"""The pipelines that replay the workloads. Declarations only; `--pipelines slackwater.bench.pipelines`."""

from datetime import UTC, datetime, timedelta

from slackwater.bench.workloads import (
    BOUND_MS,
    EVENTS,
    FROM_JSON,
    START_MS,
    TICK_MS,
    WORKLOADS,
    Workload,
    left_open,
)
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.assigners import WindowAssigner


def _window(workload: Workload) -> WindowAssigner:
    size = timedelta(milliseconds=workload.size_ms)
    if workload.kind == "session":
        return EventTimeSessionWindows.with_gap(size)
    if workload.kind == "sliding":
        return SlidingEventTimeWindows.of(size, timedelta(milliseconds=workload.slide_ms))
    return TumblingEventTimeWindows.of(size)


def _trigger(workload: Workload) -> Trigger | None:
    """None for the trigger at windows' ends."""
    interval = timedelta(milliseconds=workload.fires_every_ms)
    return ContinuousEventTimeTrigger.of(interval) if interval else None


def pipeline_of(workload: Workload) -> Pipeline:
    """Counts and sums of the workload's windows."""
    return Pipeline(
        name=workload.pipeline,
        source=DeltaSource(
            EVENTS,
            derive=FROM_JSON if workload.is_json else {},
            event_time="event_time",
            arrival_time="arrival_time",
            order_by="row",
        ),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(milliseconds=BOUND_MS)).with_interval(
            timedelta(milliseconds=TICK_MS)
        ),
        key_by=None if workload.has_one_key else "key",
        window=_window(workload),
        trigger=_trigger(workload),
        allowed_lateness=timedelta(milliseconds=workload.lateness_ms),
        select={"n": agg.count(), "total": agg.sum("value")},
        start=datetime.fromtimestamp(START_MS / 1000, UTC),
        schedule=None,
    )


bench_a, bench_b, bench_c, bench_d, bench_e = (pipeline_of(WORKLOADS[name]) for name in "abcde")
bench_h, bench_i, bench_j = (pipeline_of(WORKLOADS[name]) for name in "hij")
bench_open = pipeline_of(left_open(WORKLOADS["b"]))
