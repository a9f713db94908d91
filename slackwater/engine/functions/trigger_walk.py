"""Windows with any of Flink's triggers, on numbers of elements: key by key, element by element, as the window
operator takes them.

The trigger itself is asked, so what it decides needs no second form here. What differs from the operator is
what an element costs: it is a number in a list, times are columns that are worked out before, and
the timers and the history of one key fit small dictionaries that are parked as soon as its last element is
behind.

    key a    restore ─ advance to each element's clock and watermark: timers ─ take the element ─ … ─ park
    key b    …
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.functions.calls import FiringTime, FunctionCalls
from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.functions.walk_context import Domain, TimerOfKey, WalkContext
from slackwater.engine.functions.window_contents import WindowContents
from slackwater.windowing import MergingWindowAssigner
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import NO_CONTENTS, NO_TIME, PaneKind
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.runtime.merging_windows import MergingWindowSet
from slackwater.windowing.runtime.window_ends import WindowEnds
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.triggers import TriggerResult
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = TriggerResult

_Pairs = Sequence[tuple[Window, Window]]


@dataclass
class KeyState:
    """A key's state at the start or end of a slice; `pairs` are of (session, state window)."""

    lives: dict[Window, WindowLife] = field(default_factory=dict)
    contents: dict[Window, Any] = field(default_factory=dict)
    pairs: _Pairs = ()
    event: list[TimerOfKey] = field(default_factory=list)
    processing: list[TimerOfKey] = field(default_factory=list)


@dataclass
class WalkOutput:
    """What the walk over all keys of a range leaves; rows are tuples in the order of the columns.

    Attributes:
        firings, withdrawals: rows of Firings; a key's in the order in which they happen.
        clocks: at each firing.
        late: (place, start, end) of elements that no window took.
        windows: rows of OpenWindows, with their histories in `lives` and their `state_windows`.
        timers: key number → its pending timers by domain.
    """

    firings: list[tuple[int, ...]] = field(default_factory=list)
    withdrawals: list[tuple[int, ...]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)
    windows: list[tuple[int, ...]] = field(default_factory=list)
    lives: list[tuple[int, Window, WindowLife]] = field(default_factory=list)
    state_windows: list[Window] = field(default_factory=list)
    timers: dict[int, Mapping[Domain, Iterable[TimerOfKey]]] = field(default_factory=dict)
    windows_opened: int = 0
    windows_cleaned: int = 0
    windows_merged: int = 0
    assignments_missed: int = 0
    elements_cleaned: int = 0
    elements_never_fired: int = 0


class WalkRules:
    """The rules of a walk. `calls` is a function that keeps state, or None when it is called after the walk;
    `first_number` is the number of the slice's first element.
    """

    def __init__(
        self,
        config: WindowOperatorConfig,
        timeline: Timeline,
        *,
        contents: WindowContents,
        backend: StateBackend,
        calls: FunctionCalls | None,
        first_number: int,
    ) -> None:
        self.config, self.trigger = config, config.trigger
        self.contents, self.calls = contents, calls
        self.context = WalkContext(backend)
        self.first_number = first_number
        self.accumulates = not config.trigger.purges
        self.arms_once = config.trigger.arms_once
        self.ends = WindowEnds(is_event_time=True, allowed_lateness_ms=config.allowed_lateness_ms)
        self.initial, self.from_ms = timeline.initial, timeline.from_ms
        self.collected_mark: int = timeline.collected_mark
        self.watermarks: list[int] = timeline.watermarks.tolist()
        self.tick_ends: list[int] = timeline.tick_ends.tolist()
        self.output = WalkOutput()

    def sessions(self, pairs: _Pairs) -> MergingWindowSet | None:
        """The windows in flight of a key; None where windows don't merge."""
        assigner = self.config.assigner
        if not isinstance(assigner, MergingWindowAssigner):
            return None
        return MergingWindowSet(assigner, pairs, self.config.is_flink_exact)


class KeyWalk:
    """The walk over the windows of one key; while one goes on there is no other of the same rules."""

    def __init__(self, rules: WalkRules, number: int, key: Any, state: KeyState) -> None:
        self._rules, self._number, self._output = rules, number, rules.output
        self._context = context = rules.context
        context.point_at(key, rules.initial, rules.from_ms)
        self._lives, self._contents = state.lives, state.contents
        self._sessions = rules.sessions(state.pairs)
        context.restore(state.event, state.processing)
        owners = {window for _, window in context.event}
        for window in list(self._lives):
            if window in owners and self._is_collected(window, rules.initial):
                context.remove_event(rules.ends.cleanup_time(window), window)
                self._collect(window, self._state_window(window))

    def run(self, elements: Iterable[tuple[Any, ...]], to_ms: int) -> None:
        """Take the elements of the key, in order, and park what stays when the clock is at `to_ms`. Each is
        (number, timestamp, clock, watermark, windows, value), the value None for a trigger that does not look
        at it.
        """
        rules = self._rules
        self._take(elements)
        rises = bisect_right(rules.tick_ends, to_ms)
        self._advance(rules.watermarks[rises - 1] if rises else rules.initial, to_ms)
        self._park()

    def _is_collected(self, window: Window, watermark: int) -> bool:
        last_instant, cleanup = self._rules.ends[window]
        return cleanup <= watermark or last_instant <= self._rules.collected_mark

    def _state_window(self, window: Window) -> Window | None:
        return window if self._sessions is None else self._sessions.state_window(window)

    def _advance(self, watermark: int, clock: int) -> None:
        """Let the watermark rise, and move the clock, with all timers that are due on the way."""
        rules, context = self._rules, self._context
        if not context.processing and (
            watermark == context.current_watermark or context.earliest > watermark
        ):
            context.current_watermark, context.current_processing_time = watermark, clock
            return
        watermarks, tick_ends = rules.watermarks, rules.tick_ends
        risen = bisect_right(watermarks, context.current_watermark)  # so often in the slice
        rises = bisect_right(watermarks, watermark)
        while True:
            rise = context.next_rise(watermarks, risen, rises) if context.event else rises
            moment = context.next_moment() if context.processing else clock + 1
            if rise < rises and tick_ends[rise] < moment:
                risen = rise + 1
                context.current_watermark, context.current_processing_time = watermarks[rise], tick_ends[rise]
                while (timer := context.poll_event()) is not None:
                    self._on_timer("event", *timer)
            elif moment <= clock:
                risen = max(risen, bisect_left(tick_ends, moment))
                context.current_watermark = watermarks[risen - 1] if risen else rules.initial
                context.current_processing_time = max(moment, context.current_processing_time)
                context.is_calling_back = True
                while (timer := context.poll_processing()) is not None:
                    self._on_timer("processing", *timer)
                context.is_calling_back = False
            else:
                break
        context.current_watermark, context.current_processing_time = watermark, clock

    def _on_timer(self, domain: Domain, time: int, window: Window) -> None:
        state_window = self._state_window(window)
        if state_window is None:
            return  # of a session that has been absorbed or collected
        trigger, context = self._rules.trigger, self._context
        context.window = window
        if domain == "event":
            result = trigger.on_event_time(time, window, context)
        else:
            result = trigger.on_processing_time(time, window, context)
        if result is not CONTINUE:
            last_instant = window.max_timestamp()
            kind = PaneKind.EARLY if time < last_instant else PaneKind.ON_TIME
            kind = PaneKind.LATE if time > last_instant else kind
            tick_end = context.current_processing_time if domain == "event" else NO_TIME
            self._obey(result, window, state_window, kind, (tick_end, NO_TIME))
        if domain == "event" and time == self._rules.ends.cleanup_time(window):
            self._collect(window, state_window)

    def _obey(
        self,
        result: TriggerResult,
        window: Window,
        state_window: Window,
        kind: PaneKind,
        causes: tuple[int, int],
    ) -> None:
        if not isinstance(result, TriggerResult) or (result is FIRE_AND_PURGE and self._rules.accumulates):
            raise LeftToOperator(f"a trigger has answered {result}")  # which the operator refuses
        if result is not PURGE:
            self._fire(window, state_window, kind, causes)
        if result is not FIRE:
            self._contents.pop(state_window, None)

    def _fire(self, window: Window, state_window: Window, kind: PaneKind, causes: tuple[int, int]) -> None:
        """Fire a window that has contents; `causes` are tick end and arrival of the cause, as in Firings."""
        contents = self._contents.get(state_window)
        if contents is None:
            return
        output, life, context = self._output, self._lives[window], self._context
        life.firings += 1
        life.unfired_elements = 0
        life.last_fired_at = context.current_processing_time
        number = self._rules.contents.fire(contents)
        if window is GLOBAL_WINDOW:
            kind = PaneKind.EARLY  # called "count" in the table
        place = len(output.firings)
        facts = (life.firings, kind, life.elements, context.current_watermark, *causes, number)
        output.firings.append((self._number, *_bounds(window), *facts))
        output.clocks.append(context.current_processing_time)
        if self._rules.calls is not None:
            contents_shown = self._rules.contents.contents_shown(number)
            self._rules.calls.call_at_firing(
                place, self._number, window, life.firings, time=self._time, contents=contents_shown
            )

    @property
    def _time(self) -> FiringTime:
        return FiringTime(self._context.current_watermark, self._context.current_processing_time)

    def _collect(self, window: Window, state_window: Window | None) -> None:
        """Collect a window: contents, state of the trigger, timers, history."""
        output = self._output
        self._contents.pop(state_window, None)
        self._context.window = window
        self._rules.trigger.clear(window, self._context)
        if self._rules.calls is not None:
            self._rules.calls.clear(self._number, window, self._time)
        if self._sessions is not None:
            self._sessions.retire_window(window)
        life = self._lives.pop(window, None)
        if life is not None:
            output.windows_cleaned += 1
            output.elements_cleaned += life.elements
            output.elements_never_fired += life.unfired_elements

    def _take(self, elements: Iterable[tuple[Any, ...]]) -> None:
        """Add each element to its windows, which may merge, and ask the trigger about it."""
        rules, context, sessions = self._rules, self._context, self._sessions
        for number, timestamp, clock, watermark, windows, value in elements:
            self._advance(watermark, clock)
            for own_window in windows:
                window, has_merged = own_window, False
                if sessions is not None:
                    sessions.is_touched = False
                    window = sessions.add_window(own_window, self._merge)
                    has_merged = sessions.is_touched
                last_instant, cleanup = rules.ends[window]
                if self._is_collected(window, watermark):
                    self._miss(number, own_window, window)
                    continue
                state_window = self._state_window(window)
                assert state_window is not None
                contents = self._contents.get(state_window)
                self._contents[state_window] = rules.contents.add(contents, number)
                self._count_element(window, clock)
                if rules.arms_once and contents is not None and last_instant > watermark and not has_merged:
                    continue
                context.window = window
                result = rules.trigger.on_element(value, timestamp, window, context)
                if result is not CONTINUE:
                    kind = PaneKind.LATE if last_instant <= watermark else PaneKind.EARLY
                    self._obey(result, window, state_window, kind, (NO_TIME, clock))
                if cleanup != LONG_MAX:
                    context.add_event(cleanup, window)

    def _miss(self, number: int, own_window: Window, window: Window) -> None:
        """An element has come too late for its window, which in a session is part of another one."""
        if self._sessions is None:
            self._output.assignments_missed += 1
        else:
            self._sessions.retire_window(window)
            self._output.late.append((number - self._rules.first_number, *own_window))

    def _count_element(self, window: Window, clock: int) -> None:
        life = self._lives.get(window)
        if life is None:
            self._output.windows_opened += 1
            self._lives[window] = WindowLife(1, 0, 1, None, clock, clock)
            return
        life.elements += 1
        life.unfired_elements += 1
        if life.last_arrival is None or life.last_arrival < clock:
            life.last_arrival = clock
        if life.first_arrival is None:
            life.first_arrival = clock

    def _merge(
        self, result: Window, absorbed_windows: list[Window], target: Window, sources: list[Window]
    ) -> None:
        """A MergeFunction: see `MergingWindows.on_merge`."""
        rules, context = self._rules, self._context
        if rules.ends.cleanup_time(result) <= context.current_watermark:
            raise LeftToOperator(f"windows merge into {result}, which is past")
        self._merge_lives(result, absorbed_windows)
        context.window, context.merged_windows = result, absorbed_windows
        rules.trigger.on_merge(result, context)
        for window in absorbed_windows:
            context.window = window
            rules.trigger.clear(window, context)
            context.remove_event(rules.ends.cleanup_time(window), window)
        contents = [self._contents.pop(source) for source in sources if source in self._contents]
        if contents:
            self._contents[target] = rules.contents.merge(self._contents.get(target), contents)

    def _merge_lives(self, result: Window, absorbed_windows: list[Window]) -> None:
        """Give a session the history of those that it absorbs; the rows of these are withdrawn."""
        lives = [self._lives.pop(window) for window in absorbed_windows]
        if len(lives) == 1 and not lives[0].firings:
            self._lives[result] = lives[0]
            return
        output, time, fired_count = self._output, self._time, 0
        for window, life in zip(absorbed_windows, lives, strict=True):
            fired_count += bool(life.firings)
            if life.firings and self._rules.accumulates:
                facts = (life.firings + 1, PaneKind.WITHDRAWN, 0, time.current_watermark, NO_TIME)
                causes = (time.current_processing_time, NO_CONTENTS)
                output.withdrawals.append((self._number, *window, *facts, *causes))
        output.windows_opened += 1 - (len(lives) - fired_count)
        output.windows_merged += fired_count
        first_arrivals = [life.first_arrival for life in lives if life.first_arrival is not None]
        last_arrivals = [life.last_arrival for life in lives if life.last_arrival is not None]
        self._lives[result] = WindowLife(
            elements=sum(life.elements for life in lives),
            unfired_elements=sum(life.unfired_elements for life in lives),
            first_arrival=min(first_arrivals, default=None),
            last_arrival=max(last_arrivals, default=None),
        )

    def _park(self) -> None:
        output, contents = self._output, self._contents
        pairs = [(window, window) for window in self._lives]
        if self._sessions is not None:
            pairs = self._sessions.pairs()
        if contents.keys() - {state_window for _, state_window in pairs}:
            raise LeftToOperator("Flink loses what a window holds")
        for window, state_window in pairs:
            life = self._lives[window]
            number = NO_CONTENTS
            if state_window in contents:
                number = self._rules.contents.park(contents[state_window])
            moments = (
                NO_TIME if moment is None else moment
                for moment in (life.last_fired_at, life.first_arrival, life.last_arrival)
            )
            facts = (life.elements, life.firings, *moments, number)
            output.windows.append((self._number, *_bounds(window), *facts))
            output.lives.append((self._number, window, life))
            output.state_windows.append(state_window)
        if self._context.event or self._context.processing:
            timers = {"event": self._context.event, "processing": self._context.processing}
            output.timers[self._number] = timers  # type: ignore[assignment]


def _bounds(window: Window) -> tuple[int, int]:
    return (NO_TIME, NO_TIME) if window is GLOBAL_WINDOW else (window.start, window.end)
