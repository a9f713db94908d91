"""A window that folds its elements as they come, and still tells which window it was: aggregate with a window
function.
"""

from datetime import timedelta

from slackwater.windowing import AggregateFunction, ProcessWindowFunction, TumblingEventTimeWindows
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder

DAY = TumblingEventTimeWindows.of(timedelta(days=1))


class MeanOfAll(ProcessWindowFunction):
    def process(self, key, context, elements):
        times = [view["ms"] for view in elements]
        yield {"site": key, "day": context.window.start, "mean_ms": sum(times) / len(times)}


naive = WindowOperatorBuilder(STRING, DAY).process(MeanOfAll())


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, view, accumulator):
        return accumulator[0] + 1, accumulator[1] + view["ms"]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        (mean,) = elements  # one: the aggregate's result
        yield {"site": key, "day": context.window.start, "mean_ms": mean}


lean = WindowOperatorBuilder(STRING, DAY).aggregate(Mean(), Describe())
