"""The family of windows with a count trigger, and what it shares with continuous triggers. Which elements a
firing holds depends on their order, so elements travel one by one, and the range side aggregates them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slackwater.engine.columnar.accumulators import ArrowAccumulators
from slackwater.engine.columnar.families import (
    A,
    BatchElements,
    Part,
    RangeInput,
    Setting,
    Split,
    elements_in_order,
)
from slackwater.engine.columnar.fixed import ELEMENTS_BEHIND, fixed_windows, judge_elements
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing import CountTrigger, NeverTrigger
from slackwater.windowing.columnar.counted import CountRules, replay_counted
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import NEVER
from slackwater.windowing.columnar.window_columns import Pieces, columns_of
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers.counting import COUNT


@dataclass(frozen=True)
class ElementFamily:
    """Map side and input of both families: each element that some window takes travels to its range."""

    setting: Setting

    def split(self, elements: BatchElements) -> Split:
        windows = fixed_windows(self.setting)
        if windows is not None:
            slices = windows.slices(elements.times)
            return judge_elements(self.setting, windows, elements, slices, np.arange(len(slices)))
        rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT])
        counts = {"rows_accepted": rows.num_rows, "assignments_made": rows.num_rows}
        return Split(parts={ELEMENTS_BEHIND: Part(elements.keys, rows)}, late=None, counts=counts)

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        elements, rows = elements_in_order(self.setting, parts[ELEMENTS_BEHIND])
        element_accumulators = ArrowAccumulators.of_elements(self.setting.aggregates, rows)
        slice_input = SliceInput(
            pieces=columns_of(Pieces, []),
            piece_accumulators=element_accumulators.take(slice(0, 0)),
            elements=elements,
            element_accumulators=element_accumulators,
        )
        return RangeInput(slice_input, np.full(rows.num_rows, -1))


class CountFamily(ElementFamily):
    """Windows with CountTrigger (Flink's countWindow) or NeverTrigger, also inside a purging trigger."""

    trigger_state: StateDescriptor = COUNT

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        rules = CountRules(
            windows=fixed_windows(self.setting),
            max_count=self._max_count(),
            accumulates=not self.setting.purges,
        )
        return replay_counted(slice_input, initial_state, self.setting.window_timeline, rules)

    def _max_count(self) -> int:
        """Elements for each firing; a count below 1 fires at each element, as in Flink."""
        trigger = self.setting.trigger
        if isinstance(trigger, NeverTrigger):
            return NEVER
        assert isinstance(trigger, CountTrigger)
        return max(trigger.max_count, 1)
