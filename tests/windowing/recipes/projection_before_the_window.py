"""A window that must keep all its elements keeps only what its function reads: projection before the
window.
"""

from datetime import timedelta
from statistics import median

from slackwater.windowing import ProcessWindowFunction, TumblingEventTimeWindows
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder

DAY = TumblingEventTimeWindows.of(timedelta(days=1))


class MedianOfViews(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield median(view["ms"] for view in elements)


naive = WindowOperatorBuilder(STRING, DAY).process(MedianOfViews())


def project(view):
    return view["ms"]


class Median(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield median(elements)


lean = WindowOperatorBuilder(STRING, DAY).process(Median())  # fed with project(view)
