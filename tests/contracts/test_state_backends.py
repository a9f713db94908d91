"""Five kinds of state on every back end: what is there, what is cleared, what merging leaves, and what
undoing gives back.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
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
from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange, key_group_of
from slackwater.windowing.key_types import STRING
from slackwater.windowing.state.backend import StateBackend, UndoJournal
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow
from tests.contracts.backends import STORAGE_KINDS, VARIANTS, StorageKind, Variant, handle

ALL = KeyGroupRange(0, 127)
W, V = TimeWindow(0, 10), TimeWindow(10, 20)


class Listing(AggregateFunction):
    """An accumulator that is changed in place: the list of what was added."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        return tuple(accumulator)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        a.extend(b)
        return a


VALUE = ValueStateDescriptor("value")
LIST = ListStateDescriptor("list")
MAP = MapStateDescriptor("map")
REDUCING = ReducingStateDescriptor("reducing", lambda a, b: f"({a}{b})")
AGGREGATING = AggregatingStateDescriptor("aggregating", Listing())
ALL_KINDS = [VALUE, LIST, MAP, REDUCING, AGGREGATING]


@pytest.fixture(params=VARIANTS, ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Every variant, the slow ones too."""
    return request.param


@contextmanager
def opened_backend(
    kind: StorageKind, order_mode: OrderMode, folder: Path, journal: UndoJournal | None = None
) -> Iterator[StateBackend]:
    with kind.open(folder) as storage:
        backend = storage.make_backend(KeyGroupIndex(STRING, ALL, 128), order_mode, journal)
        yield backend
        backend.close()


@pytest.fixture
def backend(variant: Variant, folder: Path) -> Iterator[StateBackend]:
    with opened_backend(variant.kind, variant.order_mode, folder) as backend:
        yield backend


def put(state: Any, key: str, namespace: Any, value: str = "1") -> None:
    """Write something into state of any kind."""
    match state.kind:
        case "value":
            handle(state, key, namespace).update(value)
        case "map":
            handle(state, key, namespace).put(value, value)
        case _:
            state.add(key, namespace, value)


def contents(backend: StateBackend) -> dict[tuple[str, str, Any], Any]:
    """(state, key, namespace) → value, as a snapshot holds it; a map with the order of its entries."""
    entries = list(backend.entries())
    assert all(entry.key_group == key_group_of(entry.key, STRING, 128) for entry in entries)
    read = {
        (entry.state_name, entry.key, entry.namespace): list(entry.value.items())
        if entry.kind == "map"
        else entry.value
        for entry in entries
    }
    assert len(read) == len(entries) == sum(len(state) for state in backend.states())
    return pickle.loads(pickle.dumps(read))


@pytest.mark.parametrize("descriptor", ALL_KINDS, ids=lambda descriptor: descriptor.kind)
def test_state_is_by_key_and_namespace_and_counts_its_entries(
    backend: StateBackend, descriptor: StateDescriptor
) -> None:
    state = backend.state(descriptor)
    assert (len(state), state.contains("a", W)) == (0, False)
    for number, (key, namespace) in enumerate(
        [("a", W), ("a", V), ("b", W), ("a", None), ("a", GLOBAL_WINDOW), ("", W)]
    ):
        put(state, key, namespace, str(number))
        assert len(state) == number + 1
    state.clear("a", W)
    state.clear("a", W)
    state.clear("never", W)
    assert len(state) == 5
    assert not state.contains("a", W)
    assert all(
        state.contains(key, namespace)
        for key, namespace in [("a", V), ("b", W), ("a", None), ("a", GLOBAL_WINDOW), ("", W)]
    )


@pytest.mark.parametrize("descriptor", ALL_KINDS, ids=lambda descriptor: descriptor.kind)
def test_one_name_is_one_state_of_one_kind(backend: StateBackend, descriptor: StateDescriptor) -> None:
    state = backend.state(descriptor)
    assert backend.state(descriptor) is state
    assert state.kind == descriptor.kind
    assert [state_.descriptor.name for state_ in backend.states()] == [descriptor.name]
    other = VALUE if descriptor is not VALUE else LIST
    with pytest.raises(
        StateAccessError,
        match=f"'{descriptor.name}' is {descriptor.kind} state already and cannot be {other.kind} state",
    ):
        backend.state(type(other)(descriptor.name))


def test_a_descriptor_of_no_kind_is_refused(backend: StateBackend) -> None:
    with pytest.raises(StateAccessError, match="none of the five kinds"):
        backend.state(StateDescriptor("x"))


def test_value_state_has_a_default_and_none_clears(backend: StateBackend) -> None:
    state = backend.state(ValueStateDescriptor("value", default=7))
    value = handle(state, "a", W)
    assert value.value() == 7
    assert len(state) == 0
    value.update(0)
    assert value.value() == 0
    value.update(None)
    assert (value.value(), len(state)) == (7, 0)


def test_list_state_appends_and_an_empty_list_clears(backend: StateBackend) -> None:
    state = backend.state(LIST)
    assert state.get("a", W) is None
    state.add("a", W, 1)
    state.add("a", W, None)
    assert state.get("a", W) == [1, None]
    state.update("a", W, [3, 4])
    state.add("a", W, 5)
    assert state.get("a", W) == [3, 4, 5]
    state.update("a", W, [])
    assert (state.get("a", W), len(state)) == (None, 0)


def test_map_state_keeps_the_order_of_insertion_and_an_empty_map_is_no_entry(backend: StateBackend) -> None:
    state = backend.state(MAP)
    entries = handle(state, "a", W)
    assert (entries.get("x"), entries.contains("x")) == (None, False)
    for map_key in ("x", "y", "z"):
        entries.put(map_key, 1)
    entries.put("y", None)
    handle(state, "a", V).put("x", 9)
    assert list(entries.items()) == [("x", 1), ("y", None), ("z", 1)]
    assert (entries.get("y"), entries.contains("y")) == (None, True)
    assert len(state) == 2, "one entry a map, not one a key of the map"
    entries.remove("x")
    entries.remove("never")
    assert list(entries.items()) == [("y", None), ("z", 1)]
    entries.remove("y")
    entries.remove("z")
    assert (list(entries.items()), len(state)) == ([], 1)


def test_reducing_state_keeps_the_first_value_and_folds_old_with_new(backend: StateBackend) -> None:
    state = backend.state(REDUCING)
    assert state.get("a", W) is None
    for value, expected in (("1", "1"), ("2", "(12)"), ("3", "((12)3)")):
        state.add("a", W, value)
        assert state.get("a", W) == expected
    state.add("a", W, None)
    assert (state.get("a", W), len(state)) == (None, 0)


def test_a_fold_to_none_is_an_entry_that_reads_as_none(backend: StateBackend) -> None:
    state = backend.state(ReducingStateDescriptor("reducing", lambda a, b: a + b or None))
    state.add("a", W, 1)
    state.add("a", W, -1)
    assert (state.get("a", W), state.contains("a", W), len(state)) == (None, True, 1)
    state.add("a", W, 5)
    assert state.get("a", W) == 5


def test_aggregating_state_reads_as_the_result_of_its_accumulator(backend: StateBackend) -> None:
    state = backend.state(AGGREGATING)
    assert state.get("a", W) is None
    for value in (1, 2):
        state.add("a", W, value)
    state.add("a", V, 9)
    assert (state.get("a", W), state.get("a", V)) == ((1, 2), (9,))
    state.add("a", W, None)
    assert (state.get("a", W), len(state)) == (None, 1)


WINDOWS = [TimeWindow(start, start + 10) for start in (0, 20, 40, 60)]


def test_merging_reducing_state_folds_the_sources_and_then_the_target_by_order_mode(
    backend: StateBackend, order_mode: OrderMode
) -> None:
    state = backend.state(REDUCING)
    target, *sources = WINDOWS
    for window, value in zip(WINDOWS, "t12_", strict=True):
        if value != "_":
            state.add("a", window, value)
    state.merge_namespaces("a", target, sources)
    assert state.get("a", target) == ("(t(12))" if order_mode is OrderMode.HEAP else "((12)t)")
    assert contents(backend).keys() == {("reducing", "a", target)}


def test_merging_into_an_empty_target_moves_the_sources(backend: StateBackend) -> None:
    for descriptor, expected in ((REDUCING, "(12)"), (LIST, ["1", "2"]), (AGGREGATING, ("1", "2"))):
        state = backend.state(descriptor)
        for window, value in zip(WINDOWS[1:3], "12", strict=True):
            state.add("a", window, value)
        state.merge_namespaces("a", WINDOWS[0], WINDOWS[1:])
        assert state.get("a", WINDOWS[0]) == expected
        assert len(state) == 1


def test_merging_without_any_source_changes_nothing(backend: StateBackend) -> None:
    for descriptor in (REDUCING, LIST, AGGREGATING):
        state = backend.state(descriptor)
        state.merge_namespaces("a", WINDOWS[0], WINDOWS[1:])
        assert len(state) == 0
        state.add("a", WINDOWS[0], "t")
        before = contents(backend)
        state.merge_namespaces("a", WINDOWS[0], [])
        state.merge_namespaces("a", WINDOWS[0], WINDOWS[1:])
        assert contents(backend) == before


def test_merging_list_state_puts_the_target_first_in_every_order_mode(backend: StateBackend) -> None:
    state = backend.state(LIST)
    for window, values in zip(WINDOWS, ([1, 2], [3], [], [4, 5]), strict=True):
        for value in values:
            state.add("a", window, value)
    state.merge_namespaces("a", WINDOWS[1], [WINDOWS[3], WINDOWS[0], WINDOWS[2]])
    assert contents(backend) == {("list", "a", WINDOWS[1]): [3, 4, 5, 1, 2]}


def test_merging_touches_one_key_alone(backend: StateBackend) -> None:
    state = backend.state(LIST)
    for key in ("a", "b"):
        state.add(key, W, 1)
        state.add(key, V, 2)
    state.merge_namespaces("a", W, [V])
    assert contents(backend) == {("list", "a", W): [1, 2], ("list", "b", W): [1], ("list", "b", V): [2]}


def test_merging_accumulators_takes_each_element_once(backend: StateBackend, order_mode: OrderMode) -> None:
    state = backend.state(AGGREGATING)
    for window, value in zip(WINDOWS, "t123", strict=True):
        state.add("a", window, value)
    state.merge_namespaces("a", WINDOWS[0], WINDOWS[1:])
    assert state.get("a", WINDOWS[0]) == tuple("t123" if order_mode is OrderMode.HEAP else "123t")
    assert len(state) == 1


def fill(backend: StateBackend) -> None:
    for descriptor in ALL_KINDS:
        state = backend.state(descriptor)
        for key in ("a", "b", "key1", "flink"):
            for namespace in (W, None):
                put(state, key, namespace, f"{key}{namespace}")
    backend.state(ReducingStateDescriptor("null", lambda a, b: None)).add("a", W, 1)
    backend.state(ReducingStateDescriptor("null", lambda a, b: None)).add("a", W, 1)


@pytest.mark.parametrize("asks_first", [False, True], ids=["asked for later", "asked for before"])
def test_every_entry_survives_a_restore_into_each_back_end(
    backend: StateBackend, order_mode: OrderMode, folder: Path, asks_first: bool
) -> None:
    fill(backend)
    before, entries = contents(backend), pickle.dumps(list(backend.entries()))
    for kind in STORAGE_KINDS:
        with opened_backend(kind, order_mode, folder) as restored_backend:
            if asks_first:
                for descriptor in ALL_KINDS:
                    restored_backend.state(descriptor)
            restored_backend.restore(pickle.loads(entries))
            assert contents(restored_backend) == before
            for descriptor in ALL_KINDS:
                assert restored_backend.state(descriptor).kind == descriptor.kind
            assert contents(restored_backend) == before
            restored_backend.state(LIST).add("a", W, "more")
            assert restored_backend.state(LIST).get("a", W) == [f"a{W}", "more"]


def test_restored_state_of_another_kind_is_refused_when_it_is_asked_for(backend: StateBackend) -> None:
    fill(backend)
    entries = [
        entry._replace(state_name="other") for entry in backend.entries() if entry.state_name == "list"
    ]
    backend.restore(entries)
    with pytest.raises(StateAccessError, match="'other' is list state already"):
        backend.state(ValueStateDescriptor("other"))


def test_entries_can_be_asked_for_by_key_group(backend: StateBackend) -> None:
    fill(backend)
    halves = [list(backend.entries(key_groups)) for key_groups in KeyGroupRange.ranges(2, 128)]
    assert all(halves)
    assert [len({*map(repr, half)}) for half in halves] == [len(half) for half in halves]
    assert sorted(map(repr, halves[0] + halves[1])) == sorted(map(repr, backend.entries()))
    for half, key_groups in zip(halves, KeyGroupRange.ranges(2, 128), strict=True):
        assert {entry.key_group in key_groups for entry in half} == {True}


KEYS, NAMESPACES = st.sampled_from(["a", "b"]), st.sampled_from([W, V, None])
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "clear", "merge", "remove_entry", "update", "change in place"]),
        st.sampled_from(ALL_KINDS),
        KEYS,
        NAMESPACES,
        st.sampled_from(["x", "y"]),
    ),
    max_size=12,
)


def change(
    backend: StateBackend, kind: str, descriptor: StateDescriptor, key: str, namespace: Any, value: str
) -> None:
    """One change as functions and triggers make them; what is read is changed in place before it is written
    back.
    """
    state = backend.state(descriptor)
    match kind, descriptor.kind:
        case "add", _:
            put(state, key, namespace, value)
        case "clear", _:
            state.clear(key, namespace)
        case "merge", "list" | "reducing" | "aggregating":
            state.merge_namespaces(key, namespace, [other for other in (W, V, None) if other != namespace])
        case "remove_entry", "map":
            handle(state, key, namespace).remove(value)
        case "update", "list":
            state.update(key, namespace, [value, value])
        case "change in place", "value":
            read = handle(state, key, namespace).value()
            read = read if isinstance(read, list) else []
            read.append(value)
            handle(state, key, namespace).update(read)
        case "change in place", "map":
            read = handle(state, key, namespace).get("list") or []
            read.append(value)
            handle(state, key, namespace).put("list", read)


def test_undoing_gives_back_what_was_there_before(variant: Variant, folder: Path) -> None:
    @settings(max_examples=5 if variant.kind.is_slow else 60)
    @given(first=CHANGES, second=CHANGES)
    def search(first: Any, second: Any) -> None:
        journal = UndoJournal()
        with (
            opened_backend(variant.kind, variant.order_mode, folder, journal) as undoing,
            opened_backend(variant.kind, variant.order_mode, folder) as plain,
        ):
            journal.begin()
            for arguments in first:
                change(undoing, *arguments)
            journal.commit()
            before = contents(undoing)
            journal.begin()
            for arguments in second:
                change(undoing, *arguments)
            journal.undo()
            assert contents(undoing) == before
            for arguments in second:
                change(undoing, *arguments)
            for arguments in [*first, *second]:
                change(plain, *arguments)
            assert contents(undoing) == contents(plain), "a journal must not change what happens"

    search()


def test_values_read_from_different_places_are_independent(backend: StateBackend) -> None:
    state = backend.state(ReducingStateDescriptor("sum", operator.add))
    state.add("a", W, [1])
    state.add("b", W, [1])
    state.add("a", W, [2])
    assert (state.get("a", W), state.get("b", W)) == ([1, 2], [1])
