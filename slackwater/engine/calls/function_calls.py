"""The calls of a window function: one for each firing, and one for each window that is collected, in the
order in which the operator meets them. They are made when the windows of a range are decided, with the
elements of many firings made at once; the function's state is at hand.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, overload

import numpy as np

from slackwater.engine.calls.element_texts import RowMaker
from slackwater.engine.calls.garbage import collector_waiting
from slackwater.windowing import MergingWindowAssigner
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.errors import ConfigurationError, StateAccessError, UserCodeError, WindowingError
from slackwater.windowing.runtime.contexts import NamespacedStateStore, RefusingStateStore
from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.runtime.window_operator_config import InternalWindowFunction, WindowOperatorConfig
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import TimeWindow, Window

ELEMENTS_AT_ONCE: Final = 1 << 12  # so many objects fit the processor's cache
BYTES_PER_ELEMENT: Final = 200  # an estimate, of an element as an object


class Call(NamedTuple):
    """A call at a firing, or for a collected window, whose `firing` is None. `clock` is in milliseconds."""

    key: Any
    window: Window
    firing: int | None
    watermark: int
    clock: int


@dataclass
class ResultRows:
    """What the calls of a function have emitted.

    Attributes:
        firings: of each row the number of its firing, counted from 0 in the order of the calls.
        ordinals: the place of each row in its firing.
        owners: (key, window) of each row.
        empty_firings: the numbers of the firings that have emitted nothing.
    """

    results: list[Any] = field(default_factory=list)
    firings: list[int] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    owners: list[tuple[Any, Window]] = field(default_factory=list)
    empty_firings: list[int] = field(default_factory=list)
    side_rows: list[SideRow] = field(default_factory=list)

    @classmethod
    def one_for_each(cls, count: int) -> "ResultRows":
        """One row of each of `count` firings, whose results are columns elsewhere."""
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


class FunctionStores:
    """The stores of a function's state in a back end, for one key after the other. State that the trigger
    declares is out of reach: the trigger has been asked about all elements before the function is called.
    """

    def __init__(self, backend: StateBackend, config: WindowOperatorConfig) -> None:
        self.current_key: Any = None
        self._backend = backend
        self._merges = isinstance(config.assigner, MergingWindowAssigner)
        self._names_of_trigger = {descriptor.name for descriptor in config.trigger.states}

    def window_state(self, window: Window) -> Any:
        return RefusingStateStore() if self._merges else _Store(self, window)

    def global_state(self) -> Any:
        return _Store(self, None)

    def in_namespace(self, descriptor: StateDescriptor, namespace: Window) -> Any:
        if namespace is not None and descriptor.name in self._names_of_trigger:
            raise StateAccessError(
                f"State {descriptor.name!r} of a window is its trigger's; give the function's another name."
            )
        return NamespacedStateStore(self._backend, self, namespace).get_state(descriptor)


class _Store:
    """A KeyedStateStore of one window, or of the key alone (None)."""

    def __init__(self, stores: FunctionStores, namespace: Window) -> None:
        self._stores, self._namespace = stores, namespace

    def get_state(self, descriptor: StateDescriptor) -> Any:
        return self._stores.in_namespace(descriptor, self._namespace)

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


class FiringContext:
    """The WindowContext of the calls, pointed at a firing or a collected window before each."""

    def __init__(self, stores: FunctionStores, side_rows: list[SideRow]) -> None:
        self._stores = stores
        self.window: Window = TimeWindow(0, 1)
        self.current_watermark = 0
        self.current_processing_time = 0
        self._side_rows = side_rows
        self._ordinals: dict[str, int] = {}
        self._firing: int | None = None

    def point_at(self, call: Call) -> None:
        self._stores.current_key, self.window, self._firing = call[:3]
        self.current_watermark, self.current_processing_time = call[3:]
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
                key=self._stores.current_key,
                window=self.window,
                firing=self._firing,
                ordinal=ordinal,
                timestamp=self.window.max_timestamp(),
                value=value,
            )
        )


def call_function(
    function: InternalWindowFunction,
    calls: Iterable[Call],
    elements: Iterator[Sequence[Any]],
    stores: FunctionStores,
) -> ResultRows:
    """Call `function`, which is opened and closed here, for all `calls`; `elements` are those of each firing.

    Raises:
        UserCodeError: the function has raised.
    """
    result_rows = ResultRows()
    context = FiringContext(stores, result_rows.side_rows)
    firing = 0
    with closing(function), collector_waiting():
        function.open(stores.global_state())
        for call in calls:
            context.point_at(call)
            key, window = call.key, call.window
            try:
                if call.firing is None:
                    function.clear(context)
                    continue
                rows = function.process(key, window, context, next(elements)) or ()
                result_rows.add(firing, (key, window), rows)
            except WindowingError as error:
                error.locate(key, window, window.max_timestamp())
                raise
            except Exception as error:
                during = "collecting a window" if call.firing is None else "firing a window"
                raise UserCodeError.of(error, during, key, window, window.max_timestamp()) from error
            firing += 1
    return result_rows


def elements_of(lists: ElementLists, rows: RowMaker, memory_mb: int) -> Iterator[Sequence[Any]]:
    """The elements of each list, made for so many lists at a time as have `ELEMENTS_AT_ONCE` elements. A list
    whose elements don't fit `memory_mb` is a sequence that makes them as they are read.
    """
    lengths = lists.lengths
    most_at_once = (memory_mb << 20) // BYTES_PER_ELEMENT
    for first, beyond in pieces_of(lengths, ELEMENTS_AT_ONCE):
        lists_of_piece = lists.take(slice(first, beyond))
        if lengths[first:beyond].max() > most_at_once:
            for place in range(first, beyond):
                yield ElementsOnDemand(lists.take(slice(place, place + 1)).explode(), rows)
            continue
        objects = rows.rows(lists_of_piece.explode())
        end = 0
        for length in lengths[first:beyond].tolist():
            start, end = end, end + length
            yield objects[start:end]


class ElementsOnDemand(Sequence[Any]):
    """A long list of elements, each made when it is read."""

    def __init__(self, numbers: Longs, rows: RowMaker) -> None:
        self._numbers, self._rows = numbers, rows

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return self._rows.rows(self._numbers[place])
        return self._rows.rows(self._numbers[[place]])[0]

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, len(self._numbers), ELEMENTS_AT_ONCE):
            yield from self._rows.rows(self._numbers[first : first + ELEMENTS_AT_ONCE])


def pieces_of(lengths: Longs, elements_at_once: int) -> Iterator[tuple[int, int]]:
    """(first, beyond) of consecutive lists of these lengths that have about so many elements together."""
    if not len(lengths):
        return iter(())
    quotients = np.cumsum(lengths) // elements_at_once
    starts = np.flatnonzero(np.append(True, quotients[1:] != quotients[:-1])).tolist()
    return pairwise([*starts, len(lengths)])
