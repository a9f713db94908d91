"""Windows that must see their elements one by one, in order of arrival, in the columnar engine: those of
count triggers and of continuous ones, also inside a purging trigger.

What a firing holds depends on when elements came, so they travel as they are and are aggregated where all of
a window have come together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slackwater.jobs.engines.columnar.accumulators import AccumulatorColumns
from slackwater.jobs.engines.columnar.families import (
    BatchElements,
    Part,
    RangeInput,
    Setting,
    Split,
    elements_in_order,
)
from slackwater.jobs.engines.columnar.fixed import BEHIND, fixed_windows, judge
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing import ContinuousEventTimeTrigger, CountTrigger, NeverTrigger
from slackwater.windowing.columnar.continuous import ONLY_AT_THE_END, ContinuousRules, replay_continuous
from slackwater.windowing.columnar.counted import CountRules, replay_counted
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import NEVER
from slackwater.windowing.columnar.window_columns import Pieces, columns_of
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers.continuous import FIRE_TIME
from slackwater.windowing.triggers.counting import COUNT


@dataclass(frozen=True)
class _ElementFamily:
    """What both families share: every element that a window takes travels; the global window takes all."""

    setting: Setting

    def split(self, elements: BatchElements) -> Split:
        windows = fixed_windows(self.setting)
        if windows is not None:
            slices = windows.slices(elements.events)
            return judge(self.setting, windows, elements, slices, np.arange(len(slices)))
        rows = elements.rows.select([*self.setting.read, ARRIVAL, EVENT])
        counts = {"rows_accepted": rows.num_rows, "assignments_made": rows.num_rows}
        return Split(parts={BEHIND: Part(elements.keys, rows)}, late=None, counts=counts)

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        elements, rows = elements_in_order(self.setting, parts[BEHIND])
        element_accumulators = AccumulatorColumns.of_elements(self.setting.aggregates, rows)
        slice_input = SliceInput(
            pieces=columns_of(Pieces, []),
            piece_accumulators=element_accumulators.take(slice(0, 0)),
            elements=elements,
            element_accumulators=element_accumulators,
        )
        return RangeInput(slice_input, np.full(rows.num_rows, -1))


class CountFamily(_ElementFamily):
    """Exact for the count trigger (countWindow of Flink) and for the one that never fires, purging or not."""

    trigger_state: StateDescriptor = COUNT

    def replay(
        self, slice_input: SliceInput[AccumulatorColumns], initial_state: WindowState[AccumulatorColumns]
    ) -> SliceResult[AccumulatorColumns]:
        rules = CountRules(
            windows=fixed_windows(self.setting),
            max_count=self._max_count(),
            accumulates=not self.setting.purges,
        )
        return replay_counted(slice_input, initial_state, self.setting.timeline, rules)

    def _max_count(self) -> int:
        """Elements a firing; as in Flink, each element fires when none is asked for."""
        trigger = self.setting.trigger
        if isinstance(trigger, NeverTrigger):
            return NEVER
        assert isinstance(trigger, CountTrigger)
        return max(trigger.max_count, 1)


class ContinuousFamily(_ElementFamily):
    """Exact for the continuous trigger of event time, purging or not, and in the global window for those that
    fire at its end.
    """

    trigger_state: StateDescriptor = FIRE_TIME

    def replay(
        self, slice_input: SliceInput[AccumulatorColumns], initial_state: WindowState[AccumulatorColumns]
    ) -> SliceResult[AccumulatorColumns]:
        trigger = self.setting.trigger
        interval_ms = ONLY_AT_THE_END
        if isinstance(trigger, ContinuousEventTimeTrigger):
            interval_ms = trigger.interval_ms
        rules = ContinuousRules(
            windows=fixed_windows(self.setting),
            interval_ms=interval_ms,
            accumulates=not self.setting.purges,
        )
        return replay_continuous(slice_input, initial_state, self.setting.timeline, rules)
