"""State of triggers that a walk holds is the state that the back end would have: the same calls in a walk's
context and in that of the window operator, whose state has no holder, read the same and leave the same.
"""

from operator import add
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.engine.functions.walk_context import WalkContext
from slackwater.windowing import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.window_contexts import OperatorTriggerContext
from slackwater.windowing.state.heap.backend import HeapStateBackend
from slackwater.windowing.windows import TimeWindow

WINDOWS = [TimeWindow(0, 10), TimeWindow(10, 20), TimeWindow(0, 20)]


def none_of_even(old: int, new: int) -> int | None:
    """A fold whose result may be None, which Flink stores."""
    return None if (old + new) % 2 == 0 else old + new


VALUE = ValueStateDescriptor("value", default=3)
COUNT = ReducingStateDescriptor("count", add)
ODD = ReducingStateDescriptor("odd", none_of_even)
LIST = ListStateDescriptor("list")
CALLS = {
    VALUE: ("value", "update", "clear"),
    COUNT: ("get", "add", "clear"),
    ODD: ("get", "add", "clear"),
    LIST: ("get", "add", "clear"),
}
READS = ("value", "get", "clear")
NUMBERS = st.sampled_from([None, 1, 2, 3])

descriptors = st.sampled_from(sorted(CALLS, key=lambda descriptor: descriptor.name))
windows = st.sampled_from(WINDOWS[1:])
# A call of a new handle; of one that was kept since an earlier call, by its number; a merge; the next key.
steps = st.one_of(
    st.tuples(st.just("call"), windows, descriptors, st.integers(0, 2), NUMBERS),
    st.tuples(st.just("kept"), st.integers(0, 9), st.integers(0, 2), NUMBERS),
    st.tuples(st.just("merge"), st.sampled_from([COUNT, ODD, LIST])),
    st.tuples(st.just("key"), st.integers(0, 1)),
)


class _Keys:
    current_key: Any = 0


class Asker:
    """Makes the calls of a trigger in one context, and notes what they return."""

    def __init__(self, context: Any, backend: HeapStateBackend) -> None:
        self.context, self.backend = context, backend
        self.answers: list[Any] = []
        self._handles: list[tuple[Any, Any]] = []

    def take(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("call", window, descriptor, number, value):
                self.context.window = window
                handle = self.context.get_partitioned_state(descriptor)
                self._handles.append((descriptor, handle))
                self._ask(descriptor, handle, number, value)
            case ("kept", place, number, value) if self._handles:
                self._ask(*self._handles[place % len(self._handles)], number, value)
            case ("merge", descriptor):
                self.context.window, self.context.merged_windows = WINDOWS[2], WINDOWS[:2]
                self.context.merge_partitioned_state(descriptor)

    def _ask(self, descriptor: Any, handle: Any, number: int, value: int | None) -> None:
        name = CALLS[descriptor][number]
        if name in READS:
            self.answers.append(getattr(handle, name)())
        elif not (descriptor is LIST and value is None):
            getattr(handle, name)(value)


def backend_of() -> HeapStateBackend:
    return HeapStateBackend(lambda key: 0, OrderMode("rocksdb"))


def entries(backend: HeapStateBackend) -> list[Any]:
    return sorted(backend.entries(), key=lambda entry: (entry.state_name, entry.key, entry.namespace))


ADD, CLEAR = 1, 2


@given(st.lists(steps, max_size=40))
@example([("call", WINDOWS[0], COUNT, ADD, 1), ("key", 0), ("call", WINDOWS[0], COUNT, CLEAR, None)])
@example([*[("call", WINDOWS[0], ODD, ADD, 1)] * 2, ("call", WINDOWS[0], ODD, ADD, 5)])
def test_held_state_is_that_of_the_back_end(taken: list[tuple[Any, ...]]) -> None:
    keys, plain, held = _Keys(), backend_of(), backend_of()
    context = WalkContext(held, holds_state=True)
    context.point_at(0, LONG_MIN, LONG_MIN)
    askers = [Asker(OperatorTriggerContext(keys, context, plain), plain), Asker(context, held)]
    for step in taken:
        if step[0] == "key":
            keys.current_key = step[1]
            context.point_at(step[1], LONG_MIN, LONG_MIN)
        for asker in askers:
            asker.take(step)
    context.leave_key()
    assert askers[1].answers == askers[0].answers
    assert entries(held) == entries(plain)


def test_one_name_has_one_kind() -> None:
    context = WalkContext(backend_of(), holds_state=True)
    context.point_at(0, LONG_MIN, LONG_MIN)
    context.window = WINDOWS[0]
    context.get_partitioned_state(COUNT).add(1)
    with pytest.raises(StateAccessError, match="is reducing state already"):
        context.get_partitioned_state(ValueStateDescriptor("count"))
