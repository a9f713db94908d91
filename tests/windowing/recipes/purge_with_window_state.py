"""A window that fires often and keeps what it has learned instead of what it was told: purge, and per-window
state.
"""

from datetime import timedelta

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    MapStateDescriptor,
    ProcessWindowFunction,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder

DAY = TumblingEventTimeWindows.of(timedelta(days=1))
EVERY_TEN_MINUTES = ContinuousEventTimeTrigger.of(timedelta(minutes=10))


class CountAllVisitors(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield len({view["visitor"] for view in elements})


naive = WindowOperatorBuilder(STRING, DAY).trigger(EVERY_TEN_MINUTES).process(CountAllVisitors())


class CountVisitors(ProcessWindowFunction):
    seen = MapStateDescriptor("visitors")

    def process(self, key, context, elements):  # only what came since the firing before
        visitors = context.window_state().get_map_state(self.seen)
        for view in elements:
            visitors.put(view["visitor"], True)
        yield len(list(visitors.keys()))

    def clear(self, context):  # nobody else removes per-window state
        context.window_state().get_map_state(self.seen).clear()


lean = (
    WindowOperatorBuilder(STRING, DAY).trigger(PurgingTrigger.of(EVERY_TEN_MINUTES)).process(CountVisitors())
)
