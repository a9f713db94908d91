"""Firings that wait for their function: while the operator decides windows, a firing emits the number of its
contents. When it is over, the function is called for all of them, in the operator's order.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from slackwater.engine.calls.function_calls import Call, ResultRows
from slackwater.windowing import ProcessAllWindowFunction, ProcessWindowFunction
from slackwater.windowing.functions import Results, WindowContext
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.window_log import LoggedPane
from slackwater.windowing.runtime.window_operator_config import InternalWindowFunction
from slackwater.windowing.windows import GLOBAL_WINDOW, Window


class FiringRecord(InternalWindowFunction):
    """Stands for a pipeline's function in the operator of one range. `runner` is set before it starts."""

    def __init__(self, function: object) -> None:
        self.runner: KeyGroupRunner
        self._sees_collections = overrides_clear(function)
        self._collections: list[tuple[int, Call]] = []  # (how many panes came before, call)

    def __deepcopy__(self, memo: object) -> "FiringRecord":
        return self

    def process(self, key: Any, window: Window, context: WindowContext, contents: Any) -> Results:
        return (contents,)

    def clear(self, context: WindowContext) -> None:
        if self._sees_collections:
            times = context.current_watermark, context.current_processing_time
            call = Call(self.runner.current_key, context.window, None, *times)
            self._collections.append((len(self.runner.panes), call))

    def calls(self) -> Iterator[Call]:
        """All calls, in the operator's order."""
        collections = iter(self._collections)
        collection = next(collections, None)
        for count, pane in enumerate(self.runner.panes):
            while collection is not None and collection[0] <= count:
                yield collection[1]
                collection = next(collections, None)
            if not pane.is_withdrawal:
                yield Call(pane.key, pane.window, pane.firing, pane.watermark, pane.clock)
        while collection is not None:
            yield collection[1]
            collection = next(collections, None)


def overrides_clear(function: object) -> bool:
    """Whether a window function is told of each window that is collected."""
    return any(
        isinstance(function, base) and type(function).clear is not base.clear
        for base in (ProcessWindowFunction, ProcessAllWindowFunction)
    )


def panes_of_rows(
    panes: Sequence[LoggedPane], result_rows: ResultRows, *, accumulates: bool
) -> list[LoggedPane]:
    """A pane for each emitted row; where firings accumulate, an empty one withdraws the rows before it."""
    counts = iter(np.bincount(np.array(result_rows.firings, np.int64), minlength=len(panes)).tolist())
    results = iter(result_rows.results)
    panes_with_rows: list[LoggedPane] = []
    for pane in panes:
        count = 1 if pane.is_withdrawal else next(counts)
        if pane.is_withdrawal:
            panes_with_rows.append(pane)
        elif not count and accumulates and pane.firing > 1 and pane.window != GLOBAL_WINDOW:
            panes_with_rows.append(pane.withdrawal())
        else:
            panes_with_rows += [
                pane._replace(ordinal=ordinal, result=next(results)) for ordinal in range(count)
            ]
    return panes_with_rows
