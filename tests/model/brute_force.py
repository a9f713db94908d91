"""A replay of one arrival range with event-time windows, one event at a time, on plain lists.

Obviously right comes before everything else here: nothing is cached or indexed, every result is computed
again from the elements. Must not import slackwater. Times are integers in milliseconds, UTC; ranges
and windows are half-open [start, end).
"""

import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.model.aggregates import aggregate
from tests.model.records import (
    AHEAD_OF_ARRIVAL,
    BEHIND_ARRIVAL,
    NULL_ARRIVAL,
    NULL_EVENT_TIME,
    NULL_KEY,
    TIME_OUT_OF_RANGE,
    Assigner,
    Counts,
    Cumulative,
    Event,
    FirstRow,
    LateRow,
    OpenWindow,
    Outcome,
    Pane,
    Periods,
    QuarantinedRow,
    Replay,
    Session,
    Sliding,
    SourceProgress,
    Timer,
    Tumbling,
    Window,
)

LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1


def replay(
    events: Iterable[Event], rules: Replay, changes: Mapping[int, Mapping[str, Any]] | None = None
) -> Outcome:
    """Replay the events that arrived in [rules.start, rules.to), and those without an arrival, as one run
    from an empty state.

    `changes`: moment → the rules, by name, that are others from then on. An element is judged by the
    `max_ahead` and `max_behind` of its arrival. `bound` and `idle_timeout` count at every tick end after the
    moment, also for source partitions that have been seen before; the watermark never goes back. `tick`
    changes where a tick of both lengths ends. `allowed_lateness` counts for the windows that are open, too,
    of which those that it collects are collected at once; what was collected before the moment stays
    collected.
    """
    return _Machine(rules, sorted((changes or {}).items())).run(events)


def windows_of(timestamp: int, assigner: Assigner) -> list[Window]:
    """The windows that an element is assigned to, in Flink's order (sliding: the newest first; cumulative:
    the shortest first).
    """
    if isinstance(assigner, Session):
        return [Window(timestamp, timestamp + assigner.gap)]
    if isinstance(assigner, Periods):
        return [
            Window(start, end)
            for start, end in itertools.pairwise(assigner.bounds)
            if start <= timestamp < end
        ]
    if isinstance(assigner, Cumulative):
        start = timestamp - (timestamp - assigner.offset) % assigner.size
        sizes = range(assigner.step, assigner.size + 1, assigner.step)
        return [Window(start, start + size) for size in sizes if timestamp < start + size]
    step = assigner.size if isinstance(assigner, Tumbling) else assigner.slide
    start = timestamp - (timestamp - assigner.offset) % step
    windows = []
    while start > timestamp - assigner.size:
        windows.append(Window(start, start + assigner.size))
        start -= step
    return windows


def quarantine_reason(event: Event, rules: Replay) -> str | None:
    """Why the event cannot be used, or None. The first reason counts."""
    if event.arrival is None:
        return NULL_ARRIVAL
    if event.key is None or (isinstance(event.key, tuple) and None in event.key):
        return NULL_KEY
    timestamp = event.event_time
    if timestamp is None:
        return NULL_EVENT_TIME
    numbers = [
        timestamp,
        timestamp + rules.allowed_lateness,
        timestamp - getattr(rules.assigner, "offset", 0),
    ]
    if isinstance(rules.assigner, Sliding):
        numbers.append(timestamp - rules.assigner.size)
    for window in windows_of(timestamp, rules.assigner):
        numbers += [window.start, window.end, window.max + rules.allowed_lateness]
    if timestamp == LONG_MIN or any(number < LONG_MIN or number > LONG_MAX for number in numbers):
        return TIME_OUT_OF_RANGE
    if timestamp > event.arrival + rules.max_ahead:
        return AHEAD_OF_ARRIVAL
    if rules.max_behind is not None and event.arrival - timestamp > rules.max_behind:
        return BEHIND_ARRIVAL
    return None


@dataclass(eq=False)
class _Live:
    """A window with contents."""

    key: object
    window: Window
    members: list[Event]
    firings: int = 0
    last_fired_at: int | None = None


class _Machine:
    def __init__(self, rules: Replay, changes: list[tuple[int, Mapping[str, Any]]]) -> None:
        self.rules = rules
        self.changes = changes
        self.watermark = LONG_MIN
        self.collected = (
            LONG_MIN  # windows up to there were collected before the newest change of the lateness
        )
        self.next_tick_end = rules.start // rules.tick * rules.tick + rules.tick
        self.progress: dict[Hashable, SourceProgress] = {}
        self.carried: dict[Hashable, int] = {}
        self.live: list[_Live] = []
        self.first_rows: list[FirstRow] = []
        self.panes: list[Pane] = []
        self.late: list[LateRow] = []
        self.unassigned: list[Event] = []
        self.quarantined: list[QuarantinedRow] = []
        self.timeline: list[tuple[int, int]] = []
        self.counts = Counts()

    def run(self, events: Iterable[Event]) -> Outcome:
        events = list(events)
        read = [event for event in events if event.arrival is None]
        read += sorted(
            (
                event
                for event in events
                if event.arrival is not None and self.rules.start <= event.arrival < self.rules.to
            ),
            key=lambda event: (event.arrival, event.order),
        )
        for event in read:
            if event.arrival is not None:
                self.finish_ticks(event.arrival)
            self.take(event)
        self.finish_ticks(self.rules.to)
        return self.outcome()

    def finish_ticks(self, clock: int) -> None:
        """A tick that ends at `clock` is finished before an element that arrives at it: the element belongs
        to the next tick.
        """
        while self.changes and self.changes[0][0] <= clock:
            moment, changed = self.changes.pop(0)
            self.finish_ticks(moment)
            self.collected = max(self.collected, self.watermark - self.rules.allowed_lateness)
            self.forget()
            self.rules = replace(self.rules, **changed)
            self.next_tick_end = moment // self.rules.tick * self.rules.tick + self.rules.tick
            self.collect()
        while self.next_tick_end <= clock:
            self.finish_tick(self.next_tick_end)
            self.next_tick_end += self.rules.tick

    def finish_tick(self, end: int) -> None:
        held_back_to = []
        for source, shown in self.progress.items():
            idle = self.rules.idle_timeout is not None and end - shown.last_arrival >= self.rules.idle_timeout
            self.progress[source] = replace(shown, idle=idle)
            if not idle:
                held_back_to.append(self.held_back_to(shown))
        self.rise(held_back_to, end)

    def held_back_to(self, shown: SourceProgress) -> int:
        """The watermark that an active source partition allows."""
        if self.rules.carried is not None:
            return self.carried.get(shown.source, LONG_MIN)
        return shown.max_event_time - self.rules.bound - 1

    def take_carried(self, event: Event) -> None:
        """What an event carries is in force right after it; it wakes its source partition, too."""
        shown = self.progress[event.source]
        self.progress[event.source] = replace(shown, idle=False)
        watermark = self.rules.carried(event.values, event.event_time)
        if watermark is not None:
            self.carried[event.source] = max(watermark, self.carried.get(event.source, LONG_MIN))
        active = [self.held_back_to(item) for item in self.progress.values() if not item.idle]
        self.rise(active, event.arrival)

    def rise(self, held_back_to: list[int], end: int) -> None:
        before = self.watermark
        if held_back_to:
            self.watermark = max(before, min(held_back_to))
        if self.watermark == before:
            return
        self.timeline.append((end, self.watermark))
        for live in self.live:
            if before < live.window.max <= self.watermark:
                self.counts.on_time_firings += 1
                self.fire(live, "on_time", clock=end, tick_end=end)
        self.collect()

    def collect(self) -> None:
        for live in list(self.live):
            if self.cleanup_time(live.window) <= self.watermark:
                self.counts.windows_cleaned += 1
                self.live.remove(live)

    def take(self, event: Event) -> None:
        self.counts.read += 1
        reason = quarantine_reason(event, self.rules)
        if reason is not None:
            self.counts.quarantined += 1
            self.quarantined.append(QuarantinedRow(event, reason))
            return
        shown = self.progress.get(
            event.source, SourceProgress(event.source, event.event_time, event.arrival, idle=False)
        )
        self.progress[event.source] = replace(
            shown, max_event_time=max(shown.max_event_time, event.event_time), last_arrival=event.arrival
        )
        if self.is_duplicate(event):
            self.counts.duplicate += 1
            return
        missed, accepted = [], False
        for window in windows_of(event.event_time, self.rules.assigner):
            if isinstance(self.rules.assigner, Session):
                live = self.add_session(event, window)
            else:
                live = self.add_window(event, window)
            if live is None:
                missed.append(window)
                continue
            accepted = True
            live.members.append(event)
            if live.window.max <= self.watermark:
                self.counts.late_firings += 1
                self.fire(live, "late", clock=event.arrival, cause_arrival=event.arrival)
        if accepted:
            self.counts.accepted += 1
            self.counts.assignments_missed += len(missed)
        elif (
            event.event_time + self.rules.allowed_lateness <= self.watermark
            or event.event_time <= self.collected
        ):
            self.counts.late += 1
            self.late.append(LateRow(event, tuple(missed), self.watermark))
        else:
            self.counts.unassigned += 1
            self.unassigned.append(event)
        if self.rules.carried is not None:
            self.take_carried(event)

    def is_duplicate(self, event: Event) -> bool:
        """Whether a row like it is remembered; if none is, this one is remembered from now on."""
        values = tuple(event.values[name] for name in self.rules.distinct_by)
        if not values or None in values:
            return False
        self.forget()
        if any((first.key, first.values) == (event.key, values) for first in self.first_rows):
            return True
        self.first_rows.append(FirstRow(event.key, values, event.event_time))
        return False

    def forget(self) -> None:
        """A row is remembered for the bound and the allowed lateness."""
        kept = self.rules.bound + self.rules.allowed_lateness
        self.first_rows = [first for first in self.first_rows if self.watermark < first.event_time + kept]

    def add_window(self, event: Event, window: Window) -> _Live | None:
        """The window's contents, made if absent; None when the window is late."""
        if self.is_collected(window):
            return None
        for live in self.live:
            if live.key == event.key and live.window == window:
                return live
        return self.open(event.key, window, [])

    def add_session(self, event: Event, window: Window) -> _Live | None:
        """The session that the element joins, extends or bridges; None when its own window touches no session
        and is late.

        Sessions merge when they touch ([0,10) and [10,20) do). One that already covers the element's window
        goes on as it is.
        """
        touched = [
            live
            for live in self.live
            if live.key == event.key and live.window.start <= window.end and live.window.end >= window.start
        ]
        cover = Window(
            min([window.start] + [live.window.start for live in touched]),
            max([window.end] + [live.window.end for live in touched]),
        )
        if self.is_collected(cover):
            assert not touched, "a session past its cleanup time is no longer there to merge with"
            return None
        if len(touched) == 1 and touched[0].window == cover:
            return touched[0]
        for live in touched:
            self.live.remove(live)
            if not live.firings:
                self.counts.windows_opened -= 1
            else:
                self.counts.windows_merged += 1
                self.panes.append(
                    Pane(
                        live.key,
                        live.window,
                        live.firings + 1,
                        "withdrawn",
                        0,
                        None,
                        self.watermark,
                        None,
                        event.arrival,
                        (),
                    )
                )
        members = [member for live in touched for member in live.members]
        members.sort(key=lambda member: (member.arrival, member.order))
        return self.open(event.key, cover, members)

    def open(self, key: object, window: Window, members: list[Event]) -> _Live:
        self.counts.windows_opened += 1
        live = _Live(key, window, members)
        self.live.append(live)
        return live

    def fire(
        self,
        live: _Live,
        kind: str,
        *,
        clock: int,
        tick_end: int | None = None,
        cause_arrival: int | None = None,
    ) -> None:
        live.firings += 1
        live.last_fired_at = clock
        results = aggregate(live.members, self.rules.aggregates)
        members = tuple(live.members)
        self.panes.append(
            Pane(
                live.key,
                live.window,
                live.firings,
                kind,
                len(members),
                results,
                self.watermark,
                tick_end,
                cause_arrival,
                members,
            )
        )

    def is_collected(self, window: Window) -> bool:
        return self.cleanup_time(window) <= self.watermark or window.max <= self.collected

    def cleanup_time(self, window: Window) -> int:
        return window.max + self.rules.allowed_lateness

    def outcome(self) -> Outcome:
        self.forget()
        newest = {(pane.key, pane.window): pane for pane in self.panes}
        return Outcome(
            panes=tuple(self.panes),
            published=tuple(
                newest[identity] for identity in sorted(newest) if newest[identity].kind != "withdrawn"
            ),
            late=tuple(self.late),
            unassigned=tuple(self.unassigned),
            quarantined=tuple(self.quarantined),
            open_windows=tuple(
                self.open_window(live) for live in sorted(self.live, key=lambda live: (live.key, live.window))
            ),
            timers=tuple(
                timer
                for live in sorted(self.live, key=lambda live: (live.key, live.window))
                for timer in self.timers(live)
            ),
            progress=tuple(self.progress.values()),
            watermark=self.watermark,
            timeline=tuple(self.timeline),
            unfinished_tick=None
            if self.rules.to % self.rules.tick == 0
            else self.rules.to // self.rules.tick * self.rules.tick,
            counts=self.counts,
            first_rows=tuple(self.first_rows),
        )

    def open_window(self, live: _Live) -> OpenWindow:
        return OpenWindow(
            key=live.key,
            window=live.window,
            elements=len(live.members),
            firings=live.firings,
            results=aggregate(live.members, self.rules.aggregates),
            first_arrival=min(member.arrival for member in live.members),
            last_arrival=max(member.arrival for member in live.members),
            last_fired_at=live.last_fired_at,
            next_firing=live.window.max if live.window.max > self.watermark else None,
            cleanup_time=self.cleanup_time(live.window),
        )

    def timers(self, live: _Live) -> list[Timer]:
        cleanup = self.cleanup_time(live.window)
        if live.window.max <= self.watermark:
            return [Timer(live.key, live.window, cleanup, "cleanup")]
        if live.window.max == cleanup:
            return [Timer(live.key, live.window, cleanup, "fire+cleanup")]
        return [
            Timer(live.key, live.window, live.window.max, "fire"),
            Timer(live.key, live.window, cleanup, "cleanup"),
        ]
