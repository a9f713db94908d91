"""Windows of processing time, as the kernels of event time decide them.

The clock of a replay is a function of arrivals: an element comes at the clock c of its arrival, and a timer
for t is due at t + 1 ms, before the elements that arrive then. So to windows of processing time each element
has the timestamp c, and the watermark in force is c - 1:

    clock                 10       11       12
    elements              a  b              c
    timestamps            10 10             12
    the watermark       9 ──────── 10 ───── 11 ──    fires what ends at 12 before c comes

None of their elements is ever late, nor do they know lateness. Only what panes and functions see of a firing,
the watermark and the clock, is put right afterwards (`fired_by_clock`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.columnar.element_windows import CountFamily
from slackwater.engine.columnar.families import (
    A,
    BatchElements,
    Part,
    RangeInput,
    Split,
    read_accumulators,
)
from slackwater.engine.columnar.fixed import FixedFamily
from slackwater.engine.columnar.sessions import (
    ELEMENTS,
    END,
    FIRST,
    LAST,
    PIECES,
    START,
    SessionFamily,
)
from slackwater.windowing import (
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.sessions.chains import SessionRules
from slackwater.windowing.columnar.sessions.kernel import replay_clock_sessions
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_TIME,
    Elements,
    Firings,
    PaneKind,
    Pieces,
    columns_of,
)

CLOCK_GRIDS: Final = (TumblingProcessingTimeWindows, SlidingProcessingTimeWindows)
CLOCK_SESSIONS: Final = (ProcessingTimeSessionWindows,)


@dataclass(frozen=True)
class FixedClockFamily(FixedFamily):
    """Tumbling and sliding windows with ProcessingTimeTrigger, also inside a purging trigger."""

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        slice_result = super().replay(slice_input, initial_state)
        return fired_by_clock(slice_result, self.setting.timeline)


@dataclass(frozen=True)
class CountClockFamily(CountFamily):
    """Tumbling and sliding windows with CountTrigger, also inside a purging trigger."""

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        slice_result = super().replay(slice_input, initial_state)
        return fired_by_clock(slice_result, self.setting.timeline)


def fired_by_clock(slice_result: SliceResult[A], timeline: Timeline) -> SliceResult[A]:
    """The result of a kernel whose watermark was the clock, with each firing's own moment and watermark."""
    return slice_result._replace(
        firings=[_with_moments(firings, timeline) for firings in slice_result.firings]
    )


def _with_moments(firings: Firings, timeline: Timeline) -> Firings:
    by_element = firings.causes != NO_TIME
    watermarks = timeline.at_clock_timer(firings.ends)
    kinds = firings.kinds
    if by_element.any():
        causes = firings.causes[by_element]
        watermarks[by_element] = timeline.at_arrival(causes)
        # As in the operator, an element of the last millisecond counts as late.
        is_last = causes >= firings.ends[by_element] - 1
        kinds = kinds.copy()
        kinds[by_element] = np.where(is_last, PaneKind.LATE, PaneKind.EARLY)
    tick_ends = np.where(by_element, NO_TIME, firings.ends)
    return firings._replace(watermarks=watermarks, tick_ends=tick_ends, kinds=kinds)


@dataclass(frozen=True)
class SessionClockFamily(SessionFamily):
    """Sessions with ProcessingTimeTrigger, purging or not. With dynamic gaps the range makes the pieces."""

    @property
    def rules(self) -> SessionRules:
        """Sessions that only touch do not merge, other than with event time: the gap is 1 ms less."""
        windows = self.setting.pipeline.windows
        assert isinstance(windows, ProcessingTimeSessionWindows)
        return SessionRules(gap_ms=windows.gap_ms - 1, lateness_ms=0, accumulates=not self.setting.purges)

    def split(self, elements: BatchElements) -> Split:
        count = len(elements.keys)
        parts = {PIECES: self._pieces(elements, None)}
        return Split(parts, late=None, counts={"rows_accepted": count, "assignments_made": count})

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        keys, rows = parts[PIECES]
        pieces = Pieces(
            keys=keys,
            firsts=rows.column(START).to_numpy(),
            lasts=rows.column(END).to_numpy(),
            elements=rows.column(ELEMENTS).to_numpy(),
            first_arrivals=rows.column(FIRST).to_numpy(),
            last_arrivals=rows.column(LAST).to_numpy(),
        )
        accumulators = read_accumulators(rows, self.setting)
        no_elements = columns_of(Elements, [])
        slice_input = SliceInput(pieces, accumulators, no_elements, accumulators.take(slice(0, 0)))
        return RangeInput(slice_input, np.zeros(0, np.int64))

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        timeline = self.setting.window_timeline
        slice_result = replay_clock_sessions(slice_input, initial_state, timeline)
        return fired_by_clock(slice_result, self.setting.timeline)
