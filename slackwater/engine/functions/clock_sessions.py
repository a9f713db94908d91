"""Sessions of processing time with a function of the user's: a piece for each element, with its own gap, and
where the contents of open sessions stand.
"""

import numpy as np
import pyarrow as pa

from slackwater.engine.columnar.clock_windows import CLOCK_SESSIONS
from slackwater.engine.functions.lazy_rows import RowMaker
from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.functions.session_walk import StateWindows, gaps_of
from slackwater.pipelines import Pipeline
from slackwater.windowing import DynamicProcessingTimeSessionWindows
from slackwater.windowing.columnar.arrays.groups import run_starts
from slackwater.windowing.columnar.arrays.orders import positions_of_pairs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceInput
from slackwater.windowing.columnar.window_columns import Elements, OpenWindows, Pieces, columns_of


def is_clock_session(pipeline: Pipeline) -> bool:
    """Whether the windows of a pipeline are sessions of processing time. Classes match exactly, as a subclass
    holds a user's code.
    """
    return type(pipeline.windows) in CLOCK_SESSIONS


class ClockSessions:
    """The sessions of the elements of one range and slice.

    Args:
        pipeline: has sessions of processing time.
        elements: those of the slice.
        rows: makes them, numbered from 0; read where each element has its own gap.

    Raises:
        LeftToOperator: the function of gaps has raised, or Flink may lose what a session holds.
    """

    def __init__(self, pipeline: Pipeline, elements: Elements, rows: RowMaker) -> None:
        self._elements = elements
        self._gaps = gaps_of(pipeline, elements, rows)
        if pipeline.flink_exact and isinstance(pipeline.windows, DynamicProcessingTimeSessionWindows):
            self._require_no_equal_windows()

    @classmethod
    def of(cls, pipeline: Pipeline, elements: Elements, rows: RowMaker) -> "ClockSessions | None":
        """Those of a pipeline; None where its windows are others."""
        return cls(pipeline, elements, rows) if is_clock_session(pipeline) else None

    def slice_input(self, lists: ElementLists) -> SliceInput[ElementLists]:
        """The input of the kernel, a piece for each element; `lists` hold one each."""
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
        """Where the contents of open sessions stand: under the window of the element that began each. A
        session never begins earlier than its first element, so that of a parked session has its start;
        `state_before` are the state windows of `before`, the sessions that were open at the slice's start.
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
        grown to, as Flink then loses what the session holds: the third of one key and clock, the second of
        which had a longer gap than the first.
        """
        keys, _, clocks, _ = self._elements
        moments = pa.table({"key": keys, "clock": clocks, "gap": self._gaps}).group_by(["key", "clock"])
        facts = [("gap", "min"), ("gap", "max"), ("gap", "count")]
        of_moments = moments.aggregate(facts)
        least, greatest, count = (of_moments.column(f"gap_{fact}").to_numpy() for _, fact in facts)
        if bool(((least < greatest) & (count > 2)).any()):
            raise LeftToOperator("Flink may lose what a session holds")
