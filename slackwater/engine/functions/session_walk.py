"""Sessions whose function sees the order of their elements, on numbers of elements: key by key, element by
element, as Flink's operator takes them.

Contents of merged sessions stand one behind the other, and where they stand is part of the state. So these
sessions are not put together at once, as those of built-in aggregates are: `MergingWindowSet` decides which
merge, and lists of numbers move along.

    sessions    [0 ── 10) 1 4        [20 ── 30) 2
    element 5        [8 ────── 22)
    merged      [0 ─────────────── 30) 1 4 2 5
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.columnar.families import LateRows
from slackwater.engine.columnar.fixed import Verdict
from slackwater.engine.functions.eviction import FiringTime
from slackwater.engine.functions.lazy_rows import RowMaker
from slackwater.engine.functions.left_over import LeftToOperator, leaving_errors
from slackwater.engine.functions.session_contents import SessionContents
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import Counts, SliceResult
from slackwater.windowing.columnar.parking import timers_at_last_instants
from slackwater.windowing.columnar.sessions.chains import SessionRules
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    columns_of,
)
from slackwater.windowing.runtime.merging_window_set import MergingWindowSet
from slackwater.windowing.windows import TimeWindow

ELEMENTS_AT_ONCE: Final = 1 << 12
_LONGEST_GAP_MS: Final = 1 << 60  # no sum of it, a time of a table and a lateness wraps


class StateWindows(NamedTuple):
    """Where the contents of sessions stand, one row for each open window; int64[n] each."""

    starts: Longs
    ends: Longs


class WalkedSessions(NamedTuple):
    """The result of a walk; `contents` are rows of the result's accumulators.

    Attributes:
        slice_result: its one table of firings includes the withdrawals.
        causing_elements: int64[n], the number of the element that caused each firing; NO_TIME where a
            watermark did.
        state_windows: of the windows that are open at the slice's end.
    """

    slice_result: SliceResult[ElementLists]
    causing_elements: Longs
    state_windows: StateWindows


@dataclass(slots=True)
class _Life:
    """The history of a session; fields as the columns of OpenWindows."""

    elements: int = 0
    firings: int = 0
    last_fired_at: int = NO_TIME
    first_arrival: int = NO_TIME
    last_arrival: int = NO_TIME


@dataclass
class _KeySessions:
    """The sessions of one key.

    Attributes:
        windows: those in flight.
        lives: the history of each.
        contents: of each by its state window; none of a purged one.
        waiting: the sessions that have yet to fire at their last instant.
    """

    windows: MergingWindowSet
    lives: dict[TimeWindow, _Life] = field(default_factory=dict)
    contents: dict[TimeWindow, Any] = field(default_factory=dict)
    waiting: set[TimeWindow] = field(default_factory=set)


def is_session(pipeline: Pipeline) -> bool:
    """Whether the windows of a pipeline are sessions of event time, of one gap or of the gap of each element.
    Classes match exactly, as a subclass holds a user's code.
    """
    return type(pipeline.windows) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows)


def gaps_of(pipeline: Pipeline, elements: Elements, rows: RowMaker) -> Longs:
    """The gap of each element of the slice, also of sessions of processing time; the function of dynamic gaps
    is called once for each, in order of arrival.
    """
    count = len(elements.keys)
    if isinstance(pipeline.windows, EventTimeSessionWindows | ProcessingTimeSessionWindows):
        return np.full(count, pipeline.windows.gap_ms)
    assert isinstance(pipeline.windows, DynamicEventTimeSessionWindows | DynamicProcessingTimeSessionWindows)
    gaps: list[int] = []
    gap_ms_of = pipeline.windows.gap_ms_of
    with leaving_errors("the gap"):
        for first in range(0, count, ELEMENTS_AT_ONCE):
            numbers = np.arange(first, min(first + ELEMENTS_AT_ONCE, count))
            gaps += map(gap_ms_of, rows.rows(numbers))
    if any(type(gap) is not int or not 0 < gap <= _LONGEST_GAP_MS for gap in gaps):
        raise LeftToOperator("a gap that is no time")
    return np.array(gaps, np.int64)


def verdict_of_walk(late: LateElements, elements: Elements) -> Verdict:
    """The verdict on elements of sessions, by which they are counted elsewhere."""
    positions, starts, ends = late
    late_rows = LateRows(positions, elements.watermarks[positions], np.arange(len(positions)), starts, ends)
    return Verdict(np.arange(len(elements.keys)), late=late_rows, counts={"rows_unassigned": 0})


class SessionWalk:
    """The walk over the sessions of one range and slice.

    Args:
        pipeline: has sessions that fire at their last instant.
        timeline: of the slice.
        gaps: int64[n], the gap of each element.
        contents: what sessions hold.
    """

    def __init__(
        self, pipeline: Pipeline, timeline: Timeline, gaps: Longs, contents: SessionContents
    ) -> None:
        assert isinstance(pipeline.windows, MergingWindowAssigner)
        self._assigner = pipeline.windows
        self._is_flink_exact = pipeline.flink_exact
        self._rules = SessionRules(
            gap_ms=0,  # each element has its own
            lateness_ms=pipeline.allowed_lateness_ms,
            accumulates=not pipeline.effective_trigger.purges,
            collected_mark=timeline.collected_mark,
        )
        self._timeline = timeline
        self._gaps = gaps
        self._contents = contents
        self._watermarks: list[int] = timeline.watermarks.tolist()
        self._tick_ends: list[int] = timeline.tick_ends.tolist()
        self._firings: list[tuple[int, ...]] = []
        self._causing_elements: list[int] = []
        self._late: list[tuple[int, int, int]] = []
        self._opened_count = self._merged_count = self._cleaned_count = self._elements_cleaned = 0

    def walk(
        self, elements: Elements, windows: OpenWindows, state_windows: StateWindows, lists: ElementLists
    ) -> WalkedSessions:
        """Walk the elements, whose numbers follow those of the parked ones in `lists`, and the windows that
        are open at the slice's start, each with its list. Called once.
        """
        first_number = len(lists.numbers)
        order = np.argsort(elements.keys, kind="stable")
        columns = (*(column[order].tolist() for column in elements), self._gaps[order].tolist())
        with leaving_errors("a fold or a merge"):
            sessions = self._restored_sessions(windows, state_windows, lists)
            for place, (key, time, clock, watermark, gap) in zip(
                order.tolist(), zip(*columns, strict=True), strict=True
            ):
                of_key = sessions.get(key)
                if of_key is None:
                    of_key = sessions[key] = self._sessions_of_key()
                self._pass_until(key, of_key, watermark)
                window = TimeWindow(time, time + gap)
                if not self._take(
                    key, of_key, window, number=place + first_number, clock=clock, watermark=watermark
                ):
                    self._late.append((place, *window))
            for key, of_key in sessions.items():
                self._pass_until(key, of_key, self._timeline.final)
            return self._result(sessions)

    def _restored_sessions(
        self, windows: OpenWindows, state_windows: StateWindows, lists: ElementLists
    ) -> dict[int, _KeySessions]:
        """The open sessions by key. Those that an allowed lateness which has become shorter would have
        collected are collected at once.
        """
        pairs: dict[int, list[tuple[TimeWindow, TimeWindow]]] = {}
        rows = list(zip(*(column.tolist() for column in windows[:-1]), strict=True))
        bounds = list(zip(*(column.tolist() for column in state_windows), strict=True))
        for (key, start, end, *_), state_window in zip(rows, bounds, strict=True):
            pairs.setdefault(key, []).append((TimeWindow(start, end), TimeWindow(*state_window)))
        sessions = {key: self._sessions_of_key(of_key) for key, of_key in pairs.items()}
        for (key, start, end, *facts), state_window, numbers in zip(
            rows, bounds, lists.arrays(), strict=True
        ):
            of_key, window = sessions[key], TimeWindow(start, end)
            of_key.lives[window] = _Life(*facts)
            if len(numbers):
                of_key.contents[TimeWindow(*state_window)] = self._contents.restored_contents(
                    numbers.tolist()
                )
            if end - 1 > self._timeline.initial:
                of_key.waiting.add(window)
            if self._rules.is_late(end - 1, self._timeline.initial):
                self._collect(of_key, window)
        return sessions

    def _sessions_of_key(self, pairs: Sequence[tuple[TimeWindow, TimeWindow]] = ()) -> _KeySessions:
        return _KeySessions(MergingWindowSet(self._assigner, pairs, self._is_flink_exact))

    def _pass_until(self, key: int, sessions: _KeySessions, watermark: int) -> None:
        """Fire and collect the sessions of a key that a watermark has reached."""
        for window in [window for window in sessions.lives if window.end - 1 <= watermark]:
            last_instant = window.end - 1
            if window in sessions.waiting:
                sessions.waiting.remove(window)
                rise = bisect_left(self._watermarks, last_instant)
                moments = (self._watermarks[rise], self._tick_ends[rise], NO_TIME)
                self._fire(key, sessions, window, PaneKind.ON_TIME, moments, causing_element=NO_TIME)
            if self._rules.is_late(last_instant, watermark):
                self._collect(sessions, window)

    def _collect(self, sessions: _KeySessions, window: TimeWindow) -> None:
        state_window = sessions.windows.state_window(window)
        sessions.contents.pop(state_window, None)  # type: ignore[arg-type]
        sessions.windows.retire_window(window)
        sessions.waiting.discard(window)
        self._cleaned_count += 1
        self._elements_cleaned += sessions.lives.pop(window).elements

    def _take(
        self,
        key: int,
        sessions: _KeySessions,
        window: TimeWindow,
        *,
        number: int,
        clock: int,
        watermark: int,
    ) -> bool:
        """Add an element to its session; False if it is late."""

        def merge(
            result: TimeWindow,
            absorbed_windows: list[TimeWindow],
            target: TimeWindow,
            sources: list[TimeWindow],
        ) -> None:
            if result.end - 1 + self._rules.lateness_ms <= watermark:
                raise ValueError(f"windows merge into {result}, which is past")
            sessions.lives[result] = self._merged_life(key, sessions, absorbed_windows, watermark, clock)
            sessions.waiting.difference_update(absorbed_windows)
            if result.end - 1 > watermark:
                sessions.waiting.add(result)
            contents = [sessions.contents.pop(source) for source in sources if source in sessions.contents]
            if contents:
                sessions.contents[target] = self._contents.merge(sessions.contents.get(target), contents)

        actual = sessions.windows.add_window(window, merge)
        last_instant = actual.end - 1
        if self._rules.is_late(last_instant, watermark):
            sessions.windows.retire_window(actual)
            return False
        state_window = sessions.windows.state_window(actual)
        assert state_window is not None
        sessions.contents[state_window] = self._contents.add(sessions.contents.get(state_window), number)
        life = sessions.lives.get(actual)
        if life is None:
            life = sessions.lives[actual] = _Life()
            self._opened_count += 1
        life.elements += 1
        life.last_arrival = max(clock, life.last_arrival)
        if life.first_arrival == NO_TIME:
            life.first_arrival = clock
        if last_instant <= watermark:
            self._fire(
                key, sessions, actual, PaneKind.LATE, (watermark, NO_TIME, clock), causing_element=number
            )
        else:
            sessions.waiting.add(actual)
        return True

    def _merged_life(
        self,
        key: int,
        sessions: _KeySessions,
        absorbed_windows: list[TimeWindow],
        watermark: int,
        clock: int,
    ) -> _Life:
        """The history of a session that absorbs others; the rows of those that have fired are withdrawn."""
        lives = [sessions.lives.pop(window) for window in absorbed_windows]
        if len(lives) == 1 and not lives[0].firings:
            return lives[0]
        fired_count = 0
        for window, life in zip(absorbed_windows, lives, strict=True):
            fired_count += bool(life.firings)
            if life.firings and self._rules.accumulates:
                facts = (life.firings + 1, PaneKind.WITHDRAWN, 0, watermark, NO_TIME, clock, NO_CONTENTS)
                self._firings.append((key, *window, *facts))
                self._causing_elements.append(NO_TIME)
        self._opened_count += 1 - (len(lives) - fired_count)
        self._merged_count += fired_count
        arrivals = [life.first_arrival for life in lives if life.first_arrival != NO_TIME]
        return _Life(
            elements=sum(life.elements for life in lives),
            first_arrival=min(arrivals, default=NO_TIME),
            last_arrival=max((life.last_arrival for life in lives), default=NO_TIME),
        )

    def _fire(
        self,
        key: int,
        sessions: _KeySessions,
        window: TimeWindow,
        kind: PaneKind,
        moments: tuple[int, int, int],
        *,
        causing_element: int,
    ) -> None:
        """Fire a session that has contents. `moments`: watermark, tick end and cause, as in Firings."""
        state_window = sessions.windows.state_window(window)
        assert state_window is not None
        contents = sessions.contents.get(state_window)
        if contents is None:
            return
        life = sessions.lives[window]
        life.firings += 1
        watermark, tick_end, cause = moments
        life.last_fired_at = tick_end if cause == NO_TIME else cause
        number, contents_left = self._contents.fire(
            contents, window, FiringTime(watermark, life.last_fired_at)
        )
        self._firings.append((key, *window, life.firings, kind, life.elements, *moments, number))
        self._causing_elements.append(causing_element)
        if contents_left is not None and self._rules.accumulates:
            sessions.contents[state_window] = contents_left
        else:
            del sessions.contents[state_window]

    def _result(self, sessions: dict[int, _KeySessions]) -> WalkedSessions:
        rows, bounds = [], []
        if any(
            of_key.contents.keys() - {pair[1] for pair in of_key.windows.pairs()}
            for of_key in sessions.values()
        ):
            raise LeftToOperator("Flink loses what a session holds")
        for key in sorted(sessions):
            of_key = sessions[key]
            for window, state_window in of_key.windows.pairs():
                life = of_key.lives[window]
                contents = NO_CONTENTS
                if state_window in of_key.contents:
                    contents = self._contents.park(of_key.contents[state_window])
                facts = (life.elements, life.firings, life.last_fired_at)
                arrivals = (life.first_arrival, life.last_arrival)
                rows.append((key, *window, *facts, *arrivals, contents))
                bounds.append(tuple(state_window))
        windows = columns_of(OpenWindows, rows)
        starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
        late = np.array(sorted(self._late), np.int64).reshape(-1, 3).T
        next_firings, timers = timers_at_last_instants(windows, self._rules.lateness_ms, self._timeline)
        slice_result = SliceResult(
            firings=[columns_of(Firings, self._firings)],
            windows=windows,
            triggers=None,
            next_firings=next_firings,
            timers=timers,
            accumulators=self._contents.lists(),
            late=LateElements(*late),
            counts=Counts(
                windows_opened=self._opened_count,
                windows_cleaned=self._cleaned_count,
                windows_merged=self._merged_count,
                elements_cleaned=self._elements_cleaned,
            ),
        )
        return WalkedSessions(
            slice_result,
            causing_elements=np.array(self._causing_elements, np.int64),
            state_windows=StateWindows(starts, ends),
        )
