"""The windows of one range after its slice: what fires, with which elements, and what stays."""

from dataclasses import dataclass

from slackwater.engine.columnar.fixed import Verdict
from slackwater.engine.functions.element_columns import ElementColumns
from slackwater.engine.functions.firing_moments import clocks_of
from slackwater.engine.functions.folds import Folding
from slackwater.engine.functions.sessions import StateWindows
from slackwater.engine.functions.window_contents import WalkedFolds
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceResult
from slackwater.windowing.columnar.window_columns import Firings, OpenWindows


@dataclass
class FiredWindows:
    """The firings of a slice, as a function is called for them.

    Attributes:
        folding: folds the elements; None where the function takes them.
        withdrawals: of the rows of sessions that another has absorbed; None for other windows.
        state_windows: the state windows of open sessions; None for other windows.
        unjudged_count: how many elements the verdict does not count.
        firing_clocks: the clock at each firing; None where tick ends and causes give it.
    """

    slice_result: SliceResult[ElementLists]
    firings: Firings
    lists: ElementLists
    columns: ElementColumns
    verdict: Verdict
    windows_at_start: OpenWindows
    folding: Folding | WalkedFolds | None = None
    withdrawals: Firings | None = None
    state_windows: StateWindows | None = None
    unjudged_count: int = 0
    firing_clocks: Longs | None = None

    @property
    def clocks(self) -> Longs:
        return clocks_of(self.firings) if self.firing_clocks is None else self.firing_clocks
