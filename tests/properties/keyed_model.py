"""What a pipeline must give: the windowing core itself, run on one key at a time over the whole range,
without slices, ranges or tables.

The core is held by Flink's traces; watermarks and the judging of rows are the brute-force model's.
"""

from __future__ import annotations

from collections import Counter, namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from slackwater.pipelines import Pipeline
from slackwater.pipelines.windows import window_config
from slackwater.windowing import GLOBAL_WINDOW, AggregateFunction
from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.operator_output import SkipReason
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.times import to_datetime
from tests.model import brute_force
from tests.model import records as model
from tests.model.aggregates import aggregate
from tests.properties.slices import AGGREGATES, SELECT

Element = namedtuple("Element", ["event_time", "arrival_time", "source", "row", "key", "x", "y"])


@dataclass
class Expected:
    """Rows as tuples that can be counted; see `pane_of` and `side_of` for what stands in them."""

    panes: Counter[str] = field(default_factory=Counter)
    sides: Counter[str] = field(default_factory=Counter)
    late: Counter[int] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


def expected(
    pipeline: Pipeline, events: Sequence[model.Event], rules: model.Replay, timeline: Any = None
) -> Expected:
    """All that the range leaves. Raises what the core raises. `timeline` is given when it is that of other
    events than these.
    """
    timeline = brute_force.replay(events, rules).timeline if timeline is None else timeline
    result = Expected()
    read = [
        event for event in events if event.arrival is not None and rules.start <= event.arrival < rules.to
    ]
    usable = [event for event in read if brute_force.quarantine_reason(event, rules) is None]
    result.counts["rows_read"] = len(read)
    result.counts["rows_quarantined"] = len(read) - len(usable)
    for key in sorted({event.key for event in usable}):
        mine = sorted(
            (event for event in usable if event.key == key), key=lambda event: (event.arrival, event.order)
        )
        _Key(pipeline, key, rules, result).replay(mine, timeline)
    return result


class _Select(AggregateFunction):
    """The select over a list of elements, by brute force."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[Any]) -> Any:
        members = [
            model.Event(
                _in_ms(e.event_time), _in_ms(e.arrival_time), e.source, e.row, e.key, {"x": e.x, "y": e.y}
            )
            for e in accumulator
        ]
        return aggregate(members, AGGREGATES)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [*a, *b]


class _Key:
    """One key's operator, and its output and listener."""

    def __init__(self, pipeline: Pipeline, key: Any, rules: model.Replay, result: Expected) -> None:
        self.pipeline, self.key, self.rules, self.result = pipeline, key, rules, result
        self.clock = ReplayProcessingTimeService(rules.start)
        self.now = rules.start  # the runner's clock, which does not stop at timers
        self.watermark = LONG_MIN
        config = window_config(pipeline, STRING, _Select())
        self.operator = WindowOperator(config, self, self.clock, listener=self)
        self.firings: Counter[Any] = Counter()
        self.elements: Counter[Any] = Counter()
        self.firing: tuple[Any, ...] | None = None
        self.ordinal = 0
        self.side_ordinals: Counter[str] = Counter()
        self.row = 0

    def replay(self, events: Sequence[model.Event], timeline: Sequence[tuple[int, int]]) -> None:
        self.operator.open()
        rises = list(timeline)
        for event in events:
            while rises and rises[0][0] <= event.arrival:
                self.rise(*rises.pop(0))
            self.move(event.arrival)
            values = {
                "x": event.values["x"],
                "y": None if event.values["y"] is None else event.values["y"] + 0.0,
            }
            self.row = event.order if isinstance(event.order, int) else event.order[1]
            # Named after the real arrival, which a folded row keeps.
            arrival = event.order[0] if isinstance(event.order, tuple) else event.arrival
            element = Element(
                to_datetime(event.event_time),
                to_datetime(arrival),
                event.source,
                self.row,
                event.key,
                **values,
            )
            self.operator.process_element(self.key, element, event.event_time)
        while rises:
            self.rise(*rises.pop(0))
        self.move(self.rules.to)
        self.operator.close()

    def rise(self, tick_end: int, watermark: int) -> None:
        self.move(tick_end)
        self.watermark = watermark
        self.operator.process_watermark(watermark)

    def move(self, moment: int) -> None:
        self.now = moment
        self.clock.advance_to(moment)

    def element_added(self, key: Any, window: Any, value: Any, timestamp: int) -> None:
        self.elements[window] += 1

    def element_skipped(
        self, key: Any, value: Any, timestamp: int, reason: SkipReason, missed: Sequence[Any]
    ) -> None:
        self.result.counts["rows_late" if reason is SkipReason.LATE else "rows_unassigned"] += 1
        if reason is SkipReason.LATE:
            self.result.late[self.row] += 1

    def windows_missed(self, key: Any, value: Any, timestamp: int, missed: Sequence[Any]) -> None:
        self.result.counts["assignments_missed"] += len(missed)

    def window_fired(self, key: Any, window: Any, by: Any, has_contents: bool) -> None:
        if has_contents:
            self.firings[window] += 1
            tick_end = self.now if by is not None and by.domain == "event" else None
            self.firing = (self.kind(window, by), tick_end, self.now if by is None else None)
            self.ordinal = 0
            self.side_ordinals.clear()

    def kind(self, window: Any, by: Any) -> str:
        if window == GLOBAL_WINDOW:
            return "count"
        last = window.end - 1
        if by is not None:
            return "early" if by.timestamp < last else "on_time" if by.timestamp == last else "late"
        now = self.watermark if self.pipeline.window.is_event_time else self.now
        return "early" if now < last else "late"

    def collect(self, value: Any, timestamp: int, window: Any, key: Any) -> None:
        kind, tick_end, cause = self.firing
        names = list(SELECT) if self.pipeline.select else [name for name, _ in self.pipeline.output_columns]
        results = row_of(value, names)
        place = (key, *bounds(window), self.firings[window], self.ordinal, kind)
        values = tuple(results[name] for name in self.pipeline.pane_results)
        self.result.panes[
            repr((*place, *values, self.elements[window], self.shown_watermark, tick_end, cause))
        ] += 1
        self.ordinal += 1

    @property
    def shown_watermark(self) -> int | None:
        return None if self.watermark in (LONG_MIN, LONG_MAX) else self.watermark

    def late(self, value: Any, timestamp: int, key: Any) -> None:
        raise AssertionError("nobody asked for a late side output")

    def side(self, tag: str, value: Any, timestamp: int, window: Any, key: Any) -> None:
        columns = [name for name, _ in self.pipeline.side_columns[tag]]
        values = row_of(value, columns)
        firing = None if self.firing is None else self.firings[window]
        shown = tuple(values[name] for name in columns if name != "key")
        stamp = None if timestamp == LONG_MAX else timestamp
        self.result.sides[
            repr((tag, key, *bounds(window), firing, self.side_ordinals[tag], stamp, *shown))
        ] += 1
        self.side_ordinals[tag] += 1

    def firing_ended(self, key: Any, window: Any) -> None:
        replaces = not self.pipeline.purges and window != GLOBAL_WINDOW
        if self.firing is not None and self.ordinal == 0 and self.firings[window] > 1 and replaces:
            _, tick_end, cause = self.firing
            place = (key, *bounds(window), self.firings[window], 0, "withdrawn")
            nothing = (None,) * len(self.pipeline.pane_results)
            facts = (self.elements[window], self.shown_watermark, tick_end, cause)
            self.result.panes[repr((*place, *nothing, *facts))] += 1
        self.firing = None
        self.side_ordinals.clear()

    def window_purged(self, key: Any, window: Any) -> None:
        pass

    def windows_merged(self, key: Any, result: Any, absorbed: Sequence[Any]) -> None:
        elements = sum(self.elements.pop(window, 0) for window in absorbed)
        for window in absorbed:
            fired = self.firings.pop(window, 0)
            if fired and not self.pipeline.purges:
                nothing = (None,) * len(self.pipeline.pane_results)
                place = (key, *bounds(window), fired + 1, 0, "withdrawn")
                self.result.panes[repr((*place, *nothing, 0, self.shown_watermark, None, self.now))] += 1
        self.elements[result] = elements

    def window_cleared(self, key: Any, window: Any) -> None:
        self.firings.pop(window, None)
        self.elements.pop(window, None)
        self.side_ordinals.clear()


def bounds(window: Any) -> tuple[int | None, int | None]:
    return (None, None) if window == GLOBAL_WINDOW else (window.start, window.end)


def row_of(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """A row that a function emitted, by name; times in milliseconds."""
    if value is None:
        return dict.fromkeys(names)
    if isinstance(value, dict):
        row = value
    elif hasattr(value, "_asdict"):
        row = value._asdict()
    elif isinstance(value, tuple):
        row = dict(zip(names, value, strict=True))
    else:
        row = {names[0]: value}
    return {name: _in_ms(row[name]) for name in names}


def _in_ms(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return value
