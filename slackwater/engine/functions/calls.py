"""The calls of a window function, firing by firing, in the operator's order for each key: a watermark fires
windows by their ends, late elements fire theirs as they come. A function that keeps state is called while the
windows of a key are walked, other functions afterwards.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from slackwater.engine.functions.element_texts import RowMaker
from slackwater.engine.functions.left_over import AsksForState, LeftToOperator, leaving_errors, left_for
from slackwater.engine.operator.garbage import collector_waiting
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import NO_TIME, Firings, rows_of
from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.runtime.contexts import NamespacedStateStore, RefusingStateStore
from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.runtime.window_operator_config import InternalWindowFunction
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window

ELEMENTS_AT_ONCE: Final = 1 << 12  # so many objects fit the processor's cache


class FiringTime(NamedTuple):
    """The watermark and the clock at one firing."""

    current_watermark: int
    current_processing_time: int


def windows_of(firings: Firings) -> Iterator[Window]:
    """The window of each firing."""
    for start, end in zip(firings.starts.tolist(), firings.ends.tolist(), strict=True):
        yield GLOBAL_WINDOW if start == NO_TIME else TimeWindow(start, end)


def clocks_of(firings: Firings) -> Longs:
    """The clock at each firing."""
    clocks: Longs = np.where(firings.causes == NO_TIME, firings.tick_ends, firings.causes)
    return clocks


@dataclass
class ResultRows:
    """What the calls of a function have emitted.

    Attributes:
        firings: the place of each row's firing in the order of the calls.
        ordinals: the place of each row in its firing.
        owners: (key, window) of each row.
        empty_firings: the places of the firings that have emitted nothing.
    """

    results: list[Any] = field(default_factory=list)
    firings: list[int] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    owners: list[tuple[Any, Window]] = field(default_factory=list)
    empty_firings: list[int] = field(default_factory=list)
    side_rows: list[SideRow] = field(default_factory=list)

    @classmethod
    def one_for_each(cls, firings: Firings) -> "ResultRows":
        """One row of each firing, whose results are columns elsewhere."""
        count = len(firings.keys)
        return cls(firings=list(range(count)), ordinals=[0] * count)

    def add(self, firing: int, owner: tuple[Any, Window], results: Iterable[Any]) -> None:
        """Take over the rows of one firing; a generator runs meanwhile."""
        before = len(self.results)
        self.results.extend(results)
        count = len(self.results) - before
        if not count:
            self.empty_firings.append(firing)
            return
        self.firings += [firing] * count
        self.ordinals += range(count)
        self.owners += [owner] * count


class NoState:
    """The stores of a function without state: asking raises AsksForState, which `was_asked` remembers."""

    was_asked = False

    def window_state(self, window: Window) -> "NoState":
        return self

    def global_state(self) -> "NoState":
        return self

    def __getattr__(self, name: str) -> NoReturn:
        self.was_asked = True
        raise AsksForState(f"the function asks for {name}")


class BackendStores:
    """The stores of a function's state in a back end."""

    def __init__(self, backend: StateBackend, merges: bool) -> None:
        self.current_key: Any = None
        self._backend, self._merges = backend, merges

    def window_state(self, window: Window) -> Any:
        if self._merges:
            return RefusingStateStore()
        return NamespacedStateStore(self._backend, self, window)

    def global_state(self) -> NamespacedStateStore:
        return NamespacedStateStore(self._backend, self)


class FiringContext:
    """The WindowContext of the calls, pointed at a firing or a collected window before each call."""

    def __init__(self, stores: NoState | BackendStores, side_rows: list[SideRow]) -> None:
        self._stores = stores
        self.window: Window = TimeWindow(0, 1)
        self.current_watermark = 0
        self.current_processing_time = 0
        self._side_rows = side_rows
        self._ordinals: dict[str, int] = {}
        self._key: Any = None
        self._firing: int | None = None

    def point_at(self, key: Any, window: Window, firing: int | None, watermark: int, clock: int) -> None:
        """The next call is of this firing; None: of the window's end."""
        self.window, self.current_watermark, self.current_processing_time = window, watermark, clock
        self._key, self._firing = key, firing
        if self._ordinals:
            self._ordinals = {}

    def window_state(self) -> Any:
        return self._stores.window_state(self.window)

    def global_state(self) -> Any:
        return self._stores.global_state()

    def output(self, tag: str, value: Any) -> None:
        if tag is None:
            raise ConfigurationError("A side output needs a tag, got None.")
        ordinal = self._ordinals.get(tag, 0)
        self._ordinals[tag] = ordinal + 1
        self._side_rows.append(
            SideRow(
                tag=tag,
                key=self._key,
                window=self.window,
                firing=self._firing,
                ordinal=ordinal,
                timestamp=self.window.max_timestamp(),
                value=value,
            )
        )


class FunctionCalls:
    """The calls of a function that keeps state, for firings and collected windows. The function is opened
    here and closed by the caller; `elements_of` makes what it is handed of what a firing shows.
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


def in_order_of_calls(firings: Firings, lists: ElementLists) -> tuple[Firings, ElementLists]:
    """The firings in the order of their calls, and the elements of each. Where an element is the cause of a
    firing, the firing's list ends with it.
    """
    lists_of_firings = lists.take(firings.contents)
    by_element = firings.causes != NO_TIME
    newest = firings.ends.copy()
    newest[by_element] = lists_of_firings.numbers[lists_of_firings.ends[by_element] - 1]
    # Of the windows that one element fires, the last is fired first.
    order = np.lexsort(
        (
            firings.firings,
            firings.keys,
            np.where(by_element, -firings.starts, 0),
            newest,
            by_element,
            firings.watermarks,
        )
    )
    return rows_of(firings, order), lists_of_firings.take(order)


def call_function(
    function: InternalWindowFunction,
    firings: Firings,
    contents: Iterator[Any],
    *,
    keys: Sequence[Any],
    clocks: Longs,
) -> ResultRows:
    """Call `function`, which is not yet opened, once for each firing; its contents are None where a fold has
    no result. Raises LeftToOperator where it has raised, AsksForState where it asks for state.
    """
    result_rows, state = ResultRows(), NoState()
    context = FiringContext(state, result_rows.side_rows)
    columns = (firings.keys, firings.firings, firings.watermarks, clocks)
    calls = zip(*(column.tolist() for column in columns), windows_of(firings), contents, strict=True)
    with closing(function), collector_waiting():
        with leaving_errors("the function"):
            function.open(state)
        for place, (number, firing, watermark, clock, window, window_contents) in enumerate(calls):
            key = keys[number]
            context.point_at(key, window, firing, watermark, clock)
            rows: Iterable[Any] = ()
            try:
                if window_contents is not None:
                    rows = function.process(key, window, context, window_contents) or ()
                result_rows.add(place, (key, window), rows)
            except LeftToOperator:
                raise
            except Exception as error:
                raise left_for(error, "the function") from error
    if state.was_asked:
        raise AsksForState("the function asks for state")
    return result_rows


def elements_of(lists: ElementLists, rows: RowMaker) -> Iterator[list[Any]]:
    """The elements of each list, made for so many lists at a time as have `ELEMENTS_AT_ONCE` elements."""
    lengths = lists.lengths
    for first, beyond in pieces_of(lengths, ELEMENTS_AT_ONCE):
        lists_of_piece = lists.take(slice(first, beyond))
        objects = rows.rows(lists_of_piece.explode())
        end = 0
        for length in lengths[first:beyond].tolist():
            start, end = end, end + length
            yield objects[start:end]


def rows_one_by_one(rows: RowMaker, numbers: Longs) -> Iterator[Any]:
    """The elements of these numbers, `ELEMENTS_AT_ONCE` made at a time."""
    firsts = range(0, len(numbers), ELEMENTS_AT_ONCE)
    return chain.from_iterable(rows.rows(numbers[first : first + ELEMENTS_AT_ONCE]) for first in firsts)


def pieces_of(lengths: Longs, elements_at_once: int) -> Iterator[tuple[int, int]]:
    """(first, beyond) of consecutive lists of these lengths that have about so many elements together."""
    if not len(lengths):
        return iter(())
    quotients = np.cumsum(lengths) // elements_at_once
    starts = np.flatnonzero(np.append(True, quotients[1:] != quotients[:-1])).tolist()
    return pairwise([*starts, len(lengths)])
