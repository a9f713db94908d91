"""State in dictionaries: the five kinds, names shared and refused, merging in both orders, and a journal that
takes everything back.
"""

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderMode,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.errors import StateAccessError, StateMergeError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.state.backend import StateEntry, UndoJournal
from slackwater.windowing.state.handles import bind, mergeable
from slackwater.windowing.state.heap.backend import HeapStateBackend
from tests.contracts.backends import handle


class Collect(AggregateFunction):
    """Changes its accumulator in place, as users' aggregates may."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> Any:
        return tuple(accumulator)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        a += b
        return a


VALUE, LIST, MAP = (
    ValueStateDescriptor("value", default=-1),
    ListStateDescriptor("list"),
    MapStateDescriptor("map"),
)
REDUCING, AGGREGATING = (
    ReducingStateDescriptor("reducing", operator.add),
    AggregatingStateDescriptor("aggregating", Collect()),
)


def group_of(key: Any) -> int:
    return int(key) % 4


def backend(order_mode: OrderMode = OrderMode.HEAP, journal: UndoJournal | None = None) -> HeapStateBackend:
    return HeapStateBackend(group_of, order_mode, journal)


class Keys:
    current_key: Any = 1


def contents(state_backend: HeapStateBackend) -> list[StateEntry]:
    return sorted(state_backend.entries(), key=repr)


def test_value_state_has_a_default_and_clears_on_none() -> None:
    state_backend = backend()
    value = bind(state_backend.state(VALUE), Keys(), None)
    assert value.value() == -1
    value.update(5)
    assert value.value() == 5
    value.update(None)
    assert value.value() == -1
    assert contents(state_backend) == []


def test_list_state_replaces_appends_and_clears_on_an_empty_list() -> None:
    state_backend = backend()
    values = bind(state_backend.state(LIST), Keys(), "w")
    assert values.get() == []
    values.add(1)
    values.add_all([2, 3])
    assert values.get() == [1, 2, 3]
    values.get().clear()
    assert values.get() == [1, 2, 3]
    values.update([4])
    assert values.get() == [4]
    values.update([])
    assert contents(state_backend) == []


def test_map_state_holds_none_and_vanishes_with_its_last_entry() -> None:
    state_backend = backend()
    entries = bind(state_backend.state(MAP), Keys(), "w")
    assert entries.is_empty()
    entries.put("a", None)
    entries.put("b", 2)
    assert (entries.contains("a"), entries.contains("c"), entries.get("b"), entries.get("c")) == (
        True,
        False,
        2,
        None,
    )
    assert (list(entries.keys()), list(entries.values())) == (["a", "b"], [None, 2])
    entries.remove("a")
    entries.remove("c")
    entries.remove("b")
    assert contents(state_backend) == []


def test_reducing_and_aggregating_state_fold_and_clear_on_none() -> None:
    state_backend = backend()
    reducing, aggregating = (
        bind(state_backend.state(descriptor), Keys(), "w") for descriptor in (REDUCING, AGGREGATING)
    )
    for state in (reducing, aggregating):
        assert state.get() is None
        state.add(1)
        state.add(2)
    assert (reducing.get(), aggregating.get()) == (3, (1, 2))
    reducing.add(None)
    aggregating.add(None)
    assert contents(state_backend) == []


def test_a_reduced_none_is_an_entry_that_reads_as_nothing() -> None:
    state_backend = backend()
    state = state_backend.state(ReducingStateDescriptor("r", lambda a, b: (a + b) or None))
    state.add(1, "w", 1)
    state.add(1, "w", -1)
    assert state.get(1, "w") is None
    assert state.contains(1, "w")
    assert len(state) == 1
    state.add(1, "w", 7)
    assert state.get(1, "w") == 7


def test_keys_and_namespaces_are_apart() -> None:
    state = backend().state(REDUCING)
    for key in (1, 2):
        for namespace in ("v", "w", None):
            state.add(key, namespace, 10 * key)
    state.add(1, "v", 1)
    assert [state.get(key, namespace) for key in (1, 2) for namespace in ("v", "w", None)] == [
        11,
        10,
        10,
        20,
        20,
        20,
    ]
    assert len(state) == 6


@pytest.mark.parametrize(
    ("order_mode", "expected"),
    [
        (OrderMode.HEAP, "(t+(a+b))"),
        (OrderMode.ROCKSDB, "((a+b)+t)"),
        (OrderMode.ROCKSDB_HEAP_TIMERS, "((a+b)+t)"),
    ],
)
def test_the_order_mode_decides_which_argument_of_a_merge_comes_first(
    order_mode: OrderMode, expected: str
) -> None:
    state = backend(order_mode).state(ReducingStateDescriptor("r", lambda a, b: f"({a}+{b})"))
    for namespace in "tab":
        state.add(1, namespace, namespace)
    state.merge_namespaces(1, "t", ["a", "x", "b"])
    assert state.get(1, "t") == expected
    assert len(state) == 1


@pytest.mark.parametrize("order_mode", OrderMode)
def test_lists_merge_target_first_and_a_missing_target_is_made(order_mode: OrderMode) -> None:
    state = backend(order_mode).state(LIST)
    for namespace in "atb":
        state.add(1, namespace, namespace)
    state.merge_namespaces(1, "t", ["b", "a"])
    assert state.get(1, "t") == ["t", "b", "a"]
    state.merge_namespaces(1, "new", ["t"])
    assert (state.get(1, "new"), len(state)) == (["t", "b", "a"], 1)
    state.merge_namespaces(1, "empty", ["t", "x"])
    assert not state.contains(1, "empty")


def test_value_and_map_state_do_not_merge() -> None:
    for descriptor in (VALUE, MAP):
        with pytest.raises(StateMergeError, match="cannot merge"):
            mergeable(backend().state(descriptor))


def test_one_name_is_one_state_of_one_kind() -> None:
    state_backend = backend()
    assert state_backend.state(VALUE) is state_backend.state(ValueStateDescriptor("value"))
    with pytest.raises(StateAccessError, match="'value' is value state already and cannot be list state too"):
        state_backend.state(ListStateDescriptor("value"))


def test_restored_state_waits_for_whoever_asks_for_it() -> None:
    entry = StateEntry("count", "reducing", 1, 1, "w", 5)
    state_backend = backend()
    state_backend.restore([entry])
    assert contents(state_backend) == [entry]
    with pytest.raises(StateAccessError, match="reducing state already"):
        state_backend.state(ValueStateDescriptor("count"))
    state = state_backend.state(ReducingStateDescriptor("count", operator.add))
    state.add(1, "w", 2)
    assert contents(state_backend) == [entry._replace(value=7)]


def test_entries_of_a_range_are_those_of_its_keys() -> None:
    state_backend = backend()
    for key in range(8):
        handle(state_backend.state(VALUE), key, None).update(key)
    assert sorted(entry.key for entry in state_backend.entries(KeyGroupRange(1, 2))) == [1, 2, 5, 6]
    assert {entry.key_group for entry in state_backend.entries(KeyGroupRange(1, 2))} == {1, 2}


def change(state_backend: HeapStateBackend, step: tuple[str, int, str, int]) -> None:
    kind, key, namespace, value = step
    match kind:
        case "value":
            handle(state_backend.state(VALUE), key, namespace).update(value or None)
        case "list":
            state_backend.state(LIST).add(key, namespace, value)
        case "relist":
            state_backend.state(LIST).update(key, namespace, [value] * (value % 3))
        case "map":
            handle(state_backend.state(MAP), key, namespace).put(value % 2, value)
        case "unmap":
            handle(state_backend.state(MAP), key, namespace).remove(value % 2)
        case "reduce":
            state_backend.state(REDUCING).add(key, namespace, value)
        case "aggregate":
            state_backend.state(AGGREGATING).add(key, namespace, value)
        case "clear":
            for descriptor in (VALUE, LIST, MAP, REDUCING, AGGREGATING):
                state_backend.state(descriptor).clear(key, namespace)
        case "merge":
            for descriptor in (LIST, REDUCING, AGGREGATING):
                state_backend.state(descriptor).merge_namespaces(
                    key, namespace, [other for other in "vwx" if other != namespace]
                )


kinds = st.sampled_from(["value", "list", "relist", "map", "unmap", "reduce", "aggregate", "clear", "merge"])
steps = st.lists(st.tuples(kinds, st.integers(0, 1), st.sampled_from("vwx"), st.integers(0, 5)), max_size=25)


@given(before=steps, undone=steps, after=steps)
def test_undone_changes_have_never_been(before: list[Any], undone: list[Any], after: list[Any]) -> None:
    journal = UndoJournal()
    state_backend, plain = backend(journal=journal), backend()
    for step in before:
        journal.begin()
        change(state_backend, step)
        journal.commit()
        change(plain, step)
    journal.begin()
    for step in undone:
        change(state_backend, step)
    journal.undo()
    assert contents(state_backend) == contents(plain)
    for step in after:
        change(state_backend, step)
        change(plain, step)
    assert contents(state_backend) == contents(plain)
