"""The tables for a vectorized function: many firings, with a list of values for each column."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.columnar.arrow_columns import times
from slackwater.engine.functions.calls import pieces_of
from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.replaying.vectorized_calls import VectorizedCalls, user_column
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import Firings, rows_of

ELEMENTS_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class FiringTables:
    """The calls for the firings of one range; `distinct` has the key columns at each key number."""

    calls: VectorizedCalls
    column_of: Callable[[str], pa.Array]
    distinct: pa.Table

    def results(self, firings: Firings, lists: ElementLists) -> list[pa.Array]:
        """The columns of results of all firings. Raises LeftToOperator where the function has raised."""
        parts = [[pa.array([], kind) for _, kind in self.calls.results]]
        for first, beyond in pieces_of(lists.lengths, ELEMENTS_AT_ONCE):
            of_piece = slice(first, beyond)
            of_firings, of_elements = self._columns(rows_of(firings, of_piece), lists.take(of_piece))
            try:
                parts.append(self.calls.call(of_firings, of_elements))
            except Exception as error:  # which firing it was, and its key, the operator engine finds
                raise LeftToOperator(f"the function has raised {type(error).__name__}") from error
        return [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]

    def _columns(self, firings: Firings, lists: ElementLists) -> tuple[dict[str, Any], dict[str, pa.Array]]:
        of_firings = pa.array(firings.keys)
        keys = {name: self.distinct.column(name).take(of_firings) for name, _ in self.calls.keys}
        bounds = {"window_start": times(firings.starts), "window_end": times(firings.ends)}
        numbers = pa.array(lists.explode())
        offsets = pa.array(np.append(0, np.cumsum(lists.lengths)).astype(np.int32))
        return {**keys, **bounds}, {
            name: pa.ListArray.from_arrays(offsets, user_column(self.column_of(name).take(numbers)))
            for name, _ in self.calls.fields
        }
