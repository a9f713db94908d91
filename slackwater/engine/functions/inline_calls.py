"""The calls of a function that keeps state, made while the windows of a key are walked: state of a key and a
window lives as long as Flink's, and the function is told when a window is collected.
"""

from collections.abc import Callable, Sequence
from typing import Any

from slackwater.engine.functions.calls import FiringContext, ResultRows
from slackwater.engine.functions.eviction import FiringTime
from slackwater.windowing.runtime.keyed_state_store import NamespacedStateStore, RefusingStateStore
from slackwater.windowing.runtime.window_functions import InternalWindowFunction
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.windows import Window


class BackendStores:
    """The stores of a function's state in a back end (`StateStores`)."""

    def __init__(self, backend: StateBackend, merges: bool) -> None:
        self.current_key: Any = None
        self._backend, self._merges = backend, merges

    def window_state(self, window: Window) -> Any:
        if self._merges:
            return RefusingStateStore()
        return NamespacedStateStore(self._backend, self, window)

    def global_state(self) -> NamespacedStateStore:
        return NamespacedStateStore(self._backend, self)


class FunctionCalls:
    """The calls of a function, one for each firing and one for each window that is collected.

    Args:
        function: opened here; the caller closes it.
        stores: of its state.
        elements_of: makes what the function is handed of what a firing shows.

    Attributes:
        result_rows: what it has emitted.
    """

    def __init__(
        self,
        function: InternalWindowFunction,
        stores: BackendStores,
        keys: Sequence[Any],
        elements_of: Callable[[Any], Any],
    ) -> None:
        self.result_rows = ResultRows()
        self._function, self._stores, self._keys, self._elements_of = function, stores, keys, elements_of
        self._context = FiringContext(stores, self.result_rows.side_rows)
        function.open(stores.global_state())

    def call_at_firing(
        self, place: int, key: int, window: Window, firing: int, *, time: FiringTime, contents: Any
    ) -> None:
        """Call the function for a firing; not where a fold has no result."""
        self._point_at(key, window, firing, time)
        owner = self._keys[key]
        rows: Any = ()
        if contents is not None:
            rows = self._function.process(owner, window, self._context, self._elements_of(contents)) or ()
        self.result_rows.add(place, (owner, window), rows)

    def clear(self, key: int, window: Window, time: FiringTime) -> None:
        self._point_at(key, window, None, time)
        self._function.clear(self._context)

    def _point_at(self, key: int, window: Window, firing: int | None, time: FiringTime) -> None:
        owner = self._stores.current_key = self._keys[key]
        self._context.point_at(owner, window, firing, *time)
