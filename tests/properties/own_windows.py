"""Windows of classes of a user's own, and assigners that give them: the lanes of a key, one for each tier of
its elements.

With a lane for each tier, a key's windows are those of plain windows keyed by key and tier, which is what the
brute-force model is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from slackwater.windowing import (
    MergingWindowAssigner,
    TimeWindow,
    WindowAssigner,
    merge_touching_windows,
)
from tests.model import records as model
from tests.properties.slices import Replayed

TIERS = ("gold", "silver", "ж")


def tier_of(x: int | None) -> str:
    return TIERS[(x or 0) % len(TIERS)]


def level_of(x: int | None) -> int:
    return (x or 0) % 5


class Lane(NamedTuple):
    """A span of time in a tier."""

    start: int
    end: int
    tier: str
    columns = "tier string"

    def max_timestamp(self) -> int:
        return self.end - 1


class Turn(NamedTuple):
    """A window without bounds of its own: the turn of a tier by number."""

    tier: str
    number: int
    size: int
    columns = "tier string, number long, size int"

    def max_timestamp(self) -> int:
        return (self.number + 1) * self.size - 1


class Climb(NamedTuple):
    """A session that carries the highest level of its elements, which is part of what it is."""

    start: int
    end: int
    level: int
    columns = "level int"

    def max_timestamp(self) -> int:
        return self.end - 1

    def cover(self, other: Climb) -> Climb:
        return Climb(min(self.start, other.start), max(self.end, other.end), max(self.level, other.level))


class Span(NamedTuple):
    """What TimeWindow is, as a class of a user."""

    start: int
    end: int
    columns = ""

    def max_timestamp(self) -> int:
        return self.end - 1

    def java_hash(self) -> int:
        return TimeWindow(*self).java_hash()

    def serialize(self) -> bytes:
        return TimeWindow(*self).serialize()


def merge_lanes(windows: Iterable[Any], callback: Any, is_same_lane: Any) -> None:
    """Reports the groups of windows of one lane that overlap or touch, in the order of their starts."""
    groups: list[list[Any]] = []
    for window in sorted(windows):
        group = next((group for group in groups if _touches(group, window, is_same_lane)), None)
        if group is None:
            groups.append([window])
        else:
            group.append(window)
    for group in groups:
        members = list(dict.fromkeys(group))
        if len(members) > 1:
            cover = members[0]._replace(end=max(member.end for member in members))
            callback(cover, members)


def _touches(group: list[Any], window: Any, is_same_lane: Any) -> bool:
    return is_same_lane(group[0], window) and window.start <= max(member.end for member in group)


@dataclass(frozen=True)
class Spans(WindowAssigner):
    """The windows of another assigner as spans."""

    window_type = Span

    plain: WindowAssigner

    @property
    def is_event_time(self) -> bool:  # type: ignore[override]
        return self.plain.is_event_time

    @property
    def looks_at_elements(self) -> bool:  # type: ignore[override]
        """As the other assigner promises: ties of rows are told by the columns that a pipeline reads."""
        return self.plain.looks_at_elements

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Span]:
        return [Span(*window) for window in self.plain.assign_windows(element, timestamp, context)]


@dataclass(frozen=True)
class SpanSessions(Spans, MergingWindowAssigner):
    """The windows of another assigner as spans, which merge as its windows do."""

    looks_at_elements = Spans.looks_at_elements  # type: ignore[assignment]  # a promise is a class's own

    plain: MergingWindowAssigner

    def merge_windows(self, windows: Iterable[Span], callback: Any) -> None:
        self.plain.merge_windows(
            [TimeWindow(*window) for window in windows],
            lambda cover, members: callback(Span(*cover), [Span(*member) for member in members]),
        )


@dataclass(frozen=True)
class Lanes(WindowAssigner):
    """The windows of another assigner, each in the tier of the element."""

    window_type = Lane

    plain: WindowAssigner

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Lane]:
        windows = self.plain.assign_windows(element, timestamp, context)
        return [Lane(window.start, window.end, tier_of(element.x)) for window in windows]


@dataclass(frozen=True)
class LaneSessions(MergingWindowAssigner):
    """Sessions that merge within their tier."""

    window_type = Lane

    gap: int

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Lane]:
        return [Lane(timestamp, timestamp + self.gap, tier_of(element.x))]

    def merge_windows(self, windows: Iterable[Lane], callback: Any) -> None:
        merge_lanes(windows, callback, lambda a, b: a.tier == b.tier)


@dataclass(frozen=True)
class Climbs(MergingWindowAssigner):
    """Sessions that merge whatever their level."""

    window_type = Climb

    gap: int

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Climb]:
        return [Climb(timestamp, timestamp + self.gap, level_of(element.x))]

    def merge_windows(self, windows: Iterable[Climb], callback: Any) -> None:
        merge_touching_windows(windows, callback)


@dataclass(frozen=True)
class Turns(WindowAssigner):
    """Tumbling windows that have a number instead of bounds."""

    window_type = Turn

    size: int

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Turn]:
        return [Turn(tier_of(element.x), timestamp // self.size, self.size)]


def own_window(assigner: Any, plain: WindowAssigner, has_bounds: bool) -> WindowAssigner:
    """The assigner of lanes for one of the model's assigners, which is `plain` as a pipeline declares it."""
    if isinstance(assigner, model.Session):
        return LaneSessions(assigner.gap)
    is_counted = isinstance(assigner, model.Tumbling) and not assigner.offset and not has_bounds
    return Turns(assigner.size) if is_counted else Lanes(plain)


def keyed_by_lane(events: Iterable[model.Event]) -> list[model.Event]:
    """The events as they are keyed by key and tier."""
    return [
        event._replace(key=None if event.key is None else f"{event.key}/{tier_of(event.values['x'])}")
        for event in events
    ]


def as_of_lanes(replayed: Replayed) -> Replayed:
    """The rows as they would be with the lane in the key, and plain windows. Of windows without a start it is
    worked out.
    """
    late = [{**row, "windows": [_plain_window(window) for window in row["windows"]]} for row in replayed.late]
    for row in replayed.late:
        assert {window["tier"] for window in row["windows"]} <= {tier_of(row["x"])}
    return replace(
        replayed,
        panes=[_of_lane(row) for row in replayed.panes],
        windows=[_of_lane(row) for row in replayed.windows],
        timers=[_of_lane(row) for row in replayed.timers],
        late=late,
    )


def _of_lane(row: dict[str, Any]) -> dict[str, Any]:
    start = row["window_start"]
    if "number" in row:
        assert start is None
        start = row["number"] * row["size"]
    return {**row, "key": f"{row['key']}/{row['tier']}", "window_start": start}


def _plain_window(window: dict[str, Any]) -> dict[str, Any]:
    start = window["number"] * window["size"] if "number" in window else window["start"]
    return {"start": start, "end": window["end"]}
