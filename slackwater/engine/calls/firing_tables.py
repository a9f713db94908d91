"""The tables of many firings for a vectorized function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.calls.function_calls import pieces_of
from slackwater.engine.replaying.vectorized_calls import BOUNDS, VectorizedCalls, user_column
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.errors import UserCodeError

ELEMENTS_AT_ONCE: Final = 1 << 20

Owner = tuple[Any, Any]  # key, window


@dataclass(frozen=True)
class FiringTables:
    """The calls for the firings of one range; `column_of` has the values of a field by elements' numbers."""

    calls: VectorizedCalls
    column_of: Callable[[str], pa.Array]

    def results(
        self, firings: pa.Table, lists: ElementLists, owner_of: Callable[[int], Owner]
    ) -> list[pa.Array]:
        """The columns of results of all firings; `firings` has their keys and bounds, `lists` their elements,
        `owner_of` says key and window of one.

        Raises:
            UserCodeError: the function has raised, or returned no table of results.
        """
        parts = [[pa.array([], kind) for _, kind in self.calls.results]]
        for first, beyond in pieces_of(lists.lengths, ELEMENTS_AT_ONCE):
            try:
                parts.append(self._call(firings, lists, slice(first, beyond)))
            except Exception as error:
                places = range(first, beyond)
                raise self._failure(error, firings, lists, places, owner_of) from error
        return [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]

    def _failure(
        self,
        error: Exception,
        firings: pa.Table,
        lists: ElementLists,
        places: range,
        owner_of: Callable[[int], Owner],
    ) -> UserCodeError:
        """The error of the first of these firings for which the function raises when it is called for one."""
        for place in places:
            try:
                self._call(firings, lists, slice(place, place + 1))
            except Exception as error_of_firing:  # noqa: BLE001 - whatever the function raises
                key, window = owner_of(place)
                return UserCodeError.of(
                    error_of_firing, "firing a window", key, window, window.max_timestamp()
                )
        return UserCodeError.of(error, f"firing {len(places)} windows at once", None, None, None)

    def _call(self, firings: pa.Table, lists: ElementLists, piece: slice) -> list[pa.Array]:
        columns = firings.slice(piece.start, piece.stop - piece.start)
        names = [*(name for name, _ in self.calls.keys), *BOUNDS]
        elements = self._elements(lists.take(piece))
        return self.calls.call({name: columns.column(name) for name in names}, elements)

    def _elements(self, lists: ElementLists) -> dict[str, Any]:
        numbers = pa.array(lists.explode())
        offsets = pa.array(np.append(0, np.cumsum(lists.lengths)).astype(np.int32))
        return {
            name: pa.ListArray.from_arrays(offsets, user_column(self.column_of(name).take(numbers)))
            for name, _ in self.calls.fields
        }
