"""The results of firings on whole columns, and the error for one that has none.

Which windows fire is the families' business.
"""

from slackwater.jobs.engines.aggregates import Columns, OverflowAtRow
from slackwater.jobs.engines.columnar.families import NONE, Setting
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window


def results_of(
    setting: Setting, accumulators: list[Columns], keys: Longs, starts: Longs, ends: Longs
) -> Columns:
    """One array for each result column, a row a firing.

    Raises:
        FailedFiring: a sum has left the range of its type.
    """
    results = []
    for name, aggregate, columns in zip(
        setting.pipeline.select, setting.aggregates, accumulators, strict=True
    ):
        try:
            results.append(aggregate.results(columns))
        except OverflowAtRow as failure:
            row = failure.row
            window = GLOBAL_WINDOW if starts[row] == NONE else TimeWindow(int(starts[row]), int(ends[row]))
            raise FailedFiring(name, int(keys[row]), window, failure.error) from failure.error
    return results


class FailedFiring(Exception):
    """A firing has no result; the engine knows the key of that number and raises `located`."""

    def __init__(self, result: str, key: int, window: Window, error: Exception) -> None:
        super().__init__(result, key, window, error)
        self.key = key
        self.window = window
        self.error = error

    def located(self, key: object) -> UserCodeError:
        """The error that the operator engine raises for the same firing."""
        return UserCodeError.of(self.error, "firing a window", key, self.window, self.window.max_timestamp())
