"""The pipeline of these tests: hourly departures with a trigger, an evictor and a process function of its
own.

Given to commands with --pipelines; imports nothing of the tests.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline, expect
from slackwater.windowing import (
    CountEvictor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
)


def _add(a: int, b: int) -> int:
    return a + b


SEEN = ReducingStateDescriptor("seen", _add, sql_type="long")


@dataclass(frozen=True)
class EveryThirdFlight(Trigger):
    """Fires at every third flight of the window, at its end, and at each flight that comes later."""

    states = (SEEN,)

    every: int = 3

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        seen = context.get_partitioned_state(SEEN)
        seen.add(1)
        if window.max_timestamp() <= context.current_watermark:
            return TriggerResult.FIRE
        context.register_event_time_timer(window.max_timestamp())
        return TriggerResult.FIRE if seen.get() % self.every == 0 else TriggerResult.CONTINUE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE if timestamp == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, context: Any) -> None:
        context.get_partitioned_state(SEEN).clear()
        context.delete_event_time_timer(window.max_timestamp())


class Worst(NamedTuple):
    dep_delay: int
    flight: int


class Latest(ProcessWindowFunction):
    """The last flights that reported, by tail number, and the worst delay of the window so far; worse ones
    than ever go aside.
    """

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        flights = list(elements)
        kept = context.window_state().get_state(ValueStateDescriptor("worst"))
        worst = max(
            [Worst(flight.dep_delay, flight.flight) for flight in flights]
            + ([kept.value()] if kept.value() else [])
        )
        kept.update(worst)
        record = context.global_state().get_state(ValueStateDescriptor("record", sql_type="int"))
        if worst.dep_delay > (record.value() or 120):
            record.update(worst.dep_delay)
            context.output(
                "records",
                {"dep_delay": worst.dep_delay, "flight": worst.flight, "at_time": flights[-1].event_time},
            )
        yield (key, len(flights), worst.dep_delay, [flight.tailnum for flight in flights])

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("worst")).clear()


latest = Pipeline(
    name="latest",
    source=departures.source,
    watermarks=departures.watermarks,
    key_by="origin",
    window=departures.window,
    trigger=EveryThirdFlight(),
    evictor=CountEvictor.of(5),
    allowed_lateness=departures.allowed_lateness,
    process=Latest(),
    output="origin string, flights long, worst int, tails array<string>",
    side_outputs={"records": "dep_delay int, flight int, at_time timestamp"},
    columns=["event_time", "dep_delay", "flight", "tailnum"],
    records=[Worst],
    expect=[expect.between("flights", min=1, max=5)],
    start=departures.start,
)
