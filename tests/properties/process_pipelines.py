"""A KeyedProcessFunction with every kind of state and timer, pipelines that run it, and what they must give:
the operator itself, run on one key at a time over the whole range, without slices, ranges or tables.
"""

from __future__ import annotations

from collections import Counter, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from slackwater.pipelines import DeltaSource, Pipeline
from slackwater.windowing import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.times import to_datetime
from tests.model import brute_force
from tests.model import records as model

Element = namedtuple("Element", ["event_time", "arrival_time", "source", "row", "key", "x", "y"])


class Watch(KeyedProcessFunction):
    """Remembers what it has seen in typed and untyped state, sets and deletes timers of both domains, and
    raises when asked to.
    """

    states = (
        ValueStateDescriptor("total", sql_type="long"),
        ListStateDescriptor("recent", sql_type="int"),
        MapStateDescriptor("by_source", sql_type="long"),
        ReducingStateDescriptor("greatest", max, sql_type="int"),
        ValueStateDescriptor("seen_at", sql_type="timestamp"),
    )

    def __init__(self, raises_at: int | None = None, raises_on_timer: bool = False) -> None:
        self.raises_at, self.raises_on_timer = raises_at, raises_on_timer

    def open(self, runtime_context: Any) -> None:
        total, recent, by_source, greatest, seen_at = self.states
        self.total = runtime_context.get_state(total)
        self.recent = runtime_context.get_list_state(recent)
        self.by_source = runtime_context.get_map_state(by_source)
        self.greatest = runtime_context.get_reducing_state(greatest)
        self.seen_at = runtime_context.get_state(seen_at)
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, context: Any) -> Iterator[Any]:
        x, timers = value.x or 0, context.timer_service
        self.total.update((self.total.value() or 0) + x)
        self.recent.add(x)
        self.by_source.put(value.source, (self.by_source.get(value.source) or 0) + 1)
        self.greatest.add(x)
        before, _ = self.last.value(), self.last.update(value)
        self.seen_at.update(value.event_time)
        if x % 2 == 0:
            timers.register_event_time_timer(context.timestamp + 5 * (x % 3))
        if x % 3 == 0:
            timers.register_processing_time_timer(timers.current_processing_time + x)
        if x == 5 and before is not None:
            timers.delete_event_time_timer(context.timestamp + 5)
            timers.delete_processing_time_timer(timers.current_processing_time + 3)
        if x % 4 == 1:
            context.output("odd", (context.current_key, x))
        yield (
            "element",
            None if before is None else before.row,
            self.total.value(),
            timers.current_watermark,
            timers.current_processing_time,
        )
        if self.raises_at is not None and x == self.raises_at:
            raise ValueError(f"{x} is not wanted")

    def on_timer(self, timestamp: int, context: Any) -> list[Any]:
        if self.raises_on_timer:
            raise ValueError("timers are not wanted")
        total, timers = self.total.value(), context.timer_service
        sources = dict(sorted(self.by_source.items()))
        if context.time_domain == "processing":
            self.recent.clear()
            self.by_source.clear()
        elif total is not None and total > 12:
            self.total.clear()
            timers.register_processing_time_timer(timestamp + 9)
            context.output("totals", {"sources": len(sources), "seen_at": self.seen_at.value()})
        told = f"{context.time_domain} {timestamp} {self.recent.get()} {sources} {self.greatest.get()}"
        return [
            {
                "what": told,
                "before": None,
                "total": total,
                "watermark_then": timers.current_watermark,
                "clock": timers.current_processing_time,
            }
        ]


def pipeline_of(rules: model.Replay, **changes: Any) -> Pipeline:
    """`Watch` over the events of the slices' harness, with the watermarks of the rules."""
    ms = lambda number: timedelta(milliseconds=number)  # noqa: E731
    watermarks = WatermarkStrategy.bounded_out_of_orderness(ms(rules.bound)).with_interval(ms(rules.tick))
    if rules.idle_timeout is not None:
        watermarks = watermarks.with_idleness(ms(rules.idle_timeout))
    declared: dict[str, Any] = {
        "name": "random",
        "source": DeltaSource(
            "events",
            event_time="event_time",
            arrival_time="arrival_time",
            source_partition="source",
            order_by="row",
        ),
        "watermarks": watermarks,
        "key_by": "key",
        "process": Watch(),
        "output": "what string, before long, total long, watermark_then long, clock long",
        "side_outputs": {"odd": "key string, x int", "totals": "sources int, seen_at timestamp"},
        "max_ahead": ms(rules.max_ahead),
        "max_behind": None if rules.max_behind is None else ms(rules.max_behind),
        "start": to_datetime(rules.start),
    }
    return Pipeline(**{**declared, **changes})


@dataclass
class Expected:
    """Rows as tuples that can be counted, without ordinals."""

    panes: Counter[Any] = field(default_factory=Counter)
    sides: Counter[Any] = field(default_factory=Counter)
    state: Counter[Any] = field(default_factory=Counter)
    timers: Counter[Any] = field(default_factory=Counter)
    accepted: int = 0


def expected(
    function: KeyedProcessFunction, events: Sequence[model.Event], rules: model.Replay, timeline: Any = None
) -> Expected:
    """What the core leaves of the usable events. `timeline` is that of other events than these."""
    result = Expected()
    rises = brute_force.replay(events, rules).timeline if timeline is None else timeline
    read = [
        event for event in events if event.arrival is not None and rules.start <= event.arrival < rules.to
    ]
    usable = [event for event in read if brute_force.quarantine_reason(event, rules) is None]
    for key in sorted({event.key for event in usable}):
        mine = sorted(
            (event for event in usable if event.key == key), key=lambda event: (event.arrival, event.order)
        )
        _Key(function, key, rules, result).replay(mine, rises)
    result.accepted = len(usable)
    return result


class _Key:
    """One key's operator and its output."""

    def __init__(
        self, function: KeyedProcessFunction, key: Any, rules: model.Replay, result: Expected
    ) -> None:
        self.key, self.rules, self.result = key, rules, result
        self.clock = ReplayProcessingTimeService(rules.start)
        self.operator = KeyedProcessOperator(function, STRING, self, self.clock)
        self.watermark = LONG_MIN
        self.cause: int | None = None
        self.tick_end: int | None = None

    def replay(self, events: Sequence[model.Event], timeline: Sequence[tuple[int, int]]) -> None:
        self.operator.open()
        rises = list(timeline)
        for event in events:
            while rises and rises[0][0] <= event.arrival:
                self.rise(*rises.pop(0))
            self.clock.advance_to(event.arrival)
            arrival = event.order[0] if isinstance(event.order, tuple) else event.arrival
            row = event.order[1] if isinstance(event.order, tuple) else event.order
            values = {
                "x": event.values["x"],
                "y": None if event.values["y"] is None else event.values["y"] + 0.0,
            }
            element = Element(
                to_datetime(event.event_time), to_datetime(arrival), event.source, row, event.key, **values
            )
            self.cause = event.arrival
            self.operator.process_element(self.key, element, event.event_time)
            self.cause = None
        for rise in rises:
            self.rise(*rise)
        self.clock.advance_to(self.rules.to)
        for name, state in (("total", "value"), ("recent", "list"), ("greatest", "reducing")):
            for entry in self.operator.backend.entries(_ALL):
                if entry.state_name == name and entry.kind == state:
                    self.result.state[name, self.key, repr(entry.value)] += 1
        service = self.operator.timer_service
        for domain, queue in (("event", service.event_timers), ("processing", service.processing_timers)):
            for group in _ALL:
                for time, key, _ in queue.snapshot(group):
                    self.result.timers[key, domain, time] += 1
        self.operator.close()

    def rise(self, tick_end: int, watermark: int) -> None:
        self.clock.advance_to(tick_end)
        self.watermark, self.tick_end = watermark, tick_end
        self.operator.process_watermark(watermark)
        self.tick_end = None

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        values = tuple(value.values()) if isinstance(value, dict) else value
        shown = None if self.watermark in (LONG_MIN, LONG_MAX) else self.watermark
        self.result.panes[key, timestamp, values, shown, self.tick_end, self.cause] += 1

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        raise AssertionError("nothing is late")

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        values = (
            (value["sources"], (value["seen_at"] - to_datetime(0)) // timedelta(milliseconds=1))
            if tag == "totals"
            else value[1:]
        )
        self.result.sides[tag, key, timestamp, values] += 1


def _all_key_groups() -> Any:
    from slackwater.windowing.key_groups import KeyGroupRange

    return KeyGroupRange(0, 127)


_ALL = _all_key_groups()
