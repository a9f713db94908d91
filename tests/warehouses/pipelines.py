"""The pipelines of the stored warehouses. A change of theirs would be a change of settings between two runs:
leave them as they are.

Given to commands with --pipelines; imports nothing of the tests.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from slackwater import (
    CountEvictor,
    DeltaSource,
    KeyedProcessFunction,
    Pipeline,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
    agg,
    expect,
)

SOURCE = DeltaSource(
    "sources/readings",
    event_time="event_time",
    arrival_time="arrival_time",
    source_partition="line",
    order_by="row",
)
WATERMARKS = (
    WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=20))
    .with_idleness(timedelta(hours=2))
    .with_interval(timedelta(minutes=30))
)


def _add(a: int, b: int) -> int:
    return a + b


readings = Pipeline(
    name="readings",
    source=SOURCE,
    watermarks=WATERMARKS,
    key_by="site",
    window=TumblingEventTimeWindows.of(timedelta(hours=2)),
    allowed_lateness=timedelta(hours=1),
    select={
        "n": agg.count(),
        "total": agg.sum("value"),
        "mean": agg.mean("value"),
        "lines": agg.count_distinct("line"),
    },
    expect=[expect.between("n", min=1), expect.between("total", max=-1, severity="warn")],
    start="2024-03-01",
)


class Peaks(ProcessWindowFunction):
    """The greatest value of the last readings of a window, and that of the window so far; records of a site
    go aside.
    """

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        values = [element.value for element in elements]
        of_window = context.window_state().get_state(ValueStateDescriptor("peak", sql_type="long"))
        of_window.update(max([*values, of_window.value() or 0]))
        record = context.global_state().get_state(ValueStateDescriptor("record", sql_type="long"))
        if max(values) > (record.value() or 0):
            record.update(max(values))
            context.output("records", {"value": max(values)})
        yield (key, len(values), of_window.value())

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("peak", sql_type="long")).clear()


peaks = Pipeline(
    name="peaks",
    source=SOURCE,
    watermarks=WATERMARKS,
    key_by="site",
    window=TumblingEventTimeWindows.of(timedelta(hours=3)),
    evictor=CountEvictor.of(4),
    allowed_lateness=timedelta(hours=2),
    process=Peaks(),
    output="site string, n long, peak long",
    side_outputs={"records": "value long"},
    columns=["value", "line"],
    start="2024-03-01",
)


class Totals(KeyedProcessFunction):
    """What a site has read between two timers; a timer comes at the end of the hour of the first reading
    after the one before.
    """

    states = (
        ReducingStateDescriptor("total", _add, sql_type="long"),
        ValueStateDescriptor("hour", sql_type="long"),
    )

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_reducing_state(self.states[0])
        self.hour = runtime_context.get_state(self.states[1])

    def process_element(self, value: Any, context: Any) -> None:
        self.total.add(value.value)
        if value.value > 60:
            context.output("large", {"value": value.value, "row": value.row})
        if self.hour.value() is None:
            self.hour.update(context.timestamp - context.timestamp % 3_600_000 + 3_600_000)
            context.timer_service.register_event_time_timer(self.hour.value())

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:
        yield (self.total.get(),)
        self.total.clear()
        self.hour.clear()


totals = Pipeline(
    name="totals",
    source=SOURCE,
    watermarks=WATERMARKS,
    key_by="site",
    process=Totals(),
    output="total long",
    side_outputs={"large": "value long, row long"},
    columns=["value", "row"],
    start="2024-03-01",
)
