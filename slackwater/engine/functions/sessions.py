"""Sessions with a function of the user's: the gap of each element, and the windows that hold contents.

Sessions of event time are walked with their trigger (`trigger_walk`), because the order in which they merge
shows in their contents. Sessions of processing time have a kernel, to which each element is a piece.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.columnar.clock_windows import CLOCK_SESSIONS
from slackwater.engine.columnar.families import LateRows
from slackwater.engine.columnar.fixed import Verdict
from slackwater.engine.functions.element_texts import RowMaker
from slackwater.engine.functions.left_over import LeftToOperator, leaving_errors
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import run_starts
from slackwater.windowing.columnar.arrays.orders import positions_of_pairs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceInput
from slackwater.windowing.columnar.window_columns import (
    Elements,
    LateElements,
    OpenWindows,
    Pieces,
    columns_of,
)

_ELEMENTS_AT_ONCE: Final = 1 << 12
_LONGEST_GAP_MS: Final = 1 << 60  # no sum of it, a time of a table and a lateness wraps


class StateWindows(NamedTuple):
    """The bounds of the window under which each open window keeps its contents; int64[n] each."""

    starts: Longs
    ends: Longs


def is_session(pipeline: Pipeline) -> bool:
    """Whether the windows are event-time sessions, by exact class: a subclass holds a user's code."""
    return type(pipeline.windows) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows)


def is_clock_session(pipeline: Pipeline) -> bool:
    """Whether the windows are sessions of processing time, by their exact class."""
    return type(pipeline.windows) in CLOCK_SESSIONS


def gaps_of(pipeline: Pipeline, elements: Elements, rows: RowMaker) -> Longs:
    """The gap of each element; dynamic gaps are computed once per element, in order of arrival. Raises
    LeftToOperator where the gap function has raised, or its gap is no time.
    """
    count, windows = len(elements.keys), pipeline.windows
    if isinstance(windows, EventTimeSessionWindows | ProcessingTimeSessionWindows):
        return np.full(count, windows.gap_ms)
    assert isinstance(windows, DynamicEventTimeSessionWindows | DynamicProcessingTimeSessionWindows)
    gaps: list[int] = []
    with leaving_errors("the gap"):
        for first in range(0, count, _ELEMENTS_AT_ONCE):
            numbers = np.arange(first, min(first + _ELEMENTS_AT_ONCE, count))
            gaps += map(windows.gap_ms_of, rows.rows(numbers))
    if any(type(gap) is not int or not 0 < gap <= _LONGEST_GAP_MS for gap in gaps):
        raise LeftToOperator("a gap that is no time")
    return np.array(gaps, np.int64)


def verdict_of_sessions(late: LateElements, elements: Elements) -> Verdict:
    """The verdict on elements of sessions; the walk itself counts them."""
    positions, starts, ends = late
    late_rows = LateRows(positions, elements.watermarks[positions], np.arange(len(positions)), starts, ends)
    return Verdict(np.arange(len(elements.keys)), late=late_rows, counts={"rows_unassigned": 0})


class ClockSessions:
    """The sessions of processing time of one range and slice. Raises LeftToOperator where the function of
    gaps has raised, or Flink may lose the contents of a session.
    """

    def __init__(self, pipeline: Pipeline, elements: Elements, rows: RowMaker) -> None:
        self._elements = elements
        self._gaps = gaps_of(pipeline, elements, rows)
        if pipeline.flink_exact and isinstance(pipeline.windows, DynamicProcessingTimeSessionWindows):
            self._require_no_equal_windows()

    def slice_input(self, lists: ElementLists) -> SliceInput[ElementLists]:
        """The input of the kernel, a piece for each element; `lists` hold one element each."""
        elements = self._elements
        pieces = Pieces(
            keys=elements.keys,
            firsts=elements.clocks,
            lasts=elements.clocks + self._gaps - 1,
            elements=np.ones(len(self._gaps), np.int64),
            first_arrivals=elements.clocks,
            last_arrivals=elements.clocks,
        )
        return SliceInput(pieces, lists, columns_of(Elements, []), lists.take(slice(0, 0)))

    def state_windows(
        self, windows: OpenWindows, before: OpenWindows, state_before: StateWindows
    ) -> StateWindows:
        """The state window of each open session: the window of its first element. A session never begins
        earlier than its first element, so that of a parked session has its start; `state_before` are the
        state windows of `before`, the sessions that were open at the slice's start.
        """
        keys, _, clocks, _ = self._elements
        order = np.lexsort((clocks, keys))
        first_rows = order[run_starts(keys[order], clocks[order])]
        places = positions_of_pairs(
            (windows.keys, windows.starts),
            among=(
                np.append(before.keys, keys[first_rows]),
                np.append(before.starts, clocks[first_rows]),
            ),
        )
        ends = np.append(state_before.ends, (clocks + self._gaps)[first_rows])
        return StateWindows(starts=windows.starts, ends=ends[places])

    def _require_no_equal_windows(self) -> None:
        """Leave the range to the operator engine where an element may have just the window that a session has
        grown to, as Flink then loses the contents: the third element of one key and clock, where the second
        had a longer gap than the first.
        """
        keys, _, clocks, _ = self._elements
        moments = pa.table({"key": keys, "clock": clocks, "gap": self._gaps}).group_by(["key", "clock"])
        facts = [("gap", "min"), ("gap", "max"), ("gap", "count")]
        gaps_of_moments = moments.aggregate(facts)
        least, greatest, count = (gaps_of_moments.column(f"gap_{fact}").to_numpy() for _, fact in facts)
        if bool(((least < greatest) & (count > 2)).any()):
            raise LeftToOperator("Flink may lose what a session holds")
