"""State in RocksDB beyond the contract of every back end: long lists, order of maps, types of values, windows
of the user's, restores.
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

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
from slackwater.windowing.errors import (
    ConfigurationError,
    StateSerializationError,
    StateStorageError,
    UnsupportedCombinationError,
)
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import INT
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.state.backend import StateBackend, StateEntry, UndoJournal
from slackwater.windowing.state.heap.backend import HeapStateBackend
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow
from tests.contracts.backends import handle

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # many small databases would wait for the disk
INDEX = KeyGroupIndex(INT, KeyGroupRange(0, 127), 128)
LIST, MAP = ListStateDescriptor("list"), MapStateDescriptor("map")
VALUE = ValueStateDescriptor("value")


class Tail(AggregateFunction):
    """The accumulator is a list, changed in place: the last three values."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        del accumulator[:-3]
        return accumulator

    def get_result(self, accumulator: list[Any]) -> Any:
        return tuple(accumulator)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [*a, *b]


REDUCING = ReducingStateDescriptor("reducing", operator.add, sql_type="long")
AGGREGATING = AggregatingStateDescriptor("aggregating", Tail())


class NumberedWindow(NamedTuple):
    number: int

    def serialize(self) -> bytes:
        return self.number.to_bytes(8, "big")


class Opaque:
    def __eq__(self, other: object) -> bool:
        return type(other) is Opaque

    def __hash__(self) -> int:
        return 1


@contextmanager
def open_backend(
    journal: UndoJournal | None = None, pickles: bool = False, mode: OrderMode = OrderMode.ROCKSDB
) -> Iterator[StateBackend]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        backend = OperatorStorage(
            state="rocksdb", parent=Path(folder), memory_mb=8, pickles=pickles
        ).make_backend(INDEX, mode, journal)
        try:
            yield backend
        finally:
            backend.close()
        assert list(Path(folder).iterdir()) == []


@pytest.fixture
def backend() -> Iterator[StateBackend]:
    with open_backend() as backend:
        yield backend


def as_set(entries: Iterator[StateEntry]) -> list[str]:
    return sorted(map(repr, entries))


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_a_long_list_keeps_its_order_and_leaves_nothing_when_it_is_cleared(
    backend: StateBackend, size: int
) -> None:
    state = backend.state(LIST)
    for number in range(3000):
        assert state.add(1, None, (number, "x" * (size if number % 500 == 0 else 1))) is (number == 0)
    assert [number for number, _ in state.get(1, None)] == list(range(3000))
    assert len(state) == 1
    state.clear(1, None)
    assert (state.get(1, None), len(state), list(backend.entries())) == (None, 0, [])
    assert list(state.rows.scan(b"", b"\xff")) == []
    assert state.add(1, None, "new") is True
    assert state.get(1, None) == ["new"]


def test_adding_to_a_long_list_writes_a_few_kilobytes_at_most(
    backend: StateBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = backend.state(LIST)
    state.update(1, None, list(range(100_000)))
    written: list[int] = []
    put_row = state.rows.put
    monkeypatch.setattr(
        state.rows,
        "put",
        lambda row, value_bytes: (written.append(len(value_bytes)), put_row(row, value_bytes)),
    )
    for number in range(100_000, 104_000):
        state.add(1, None, number)
    assert state.get(1, None) == list(range(104_000))
    assert (
        max(sorted(written)[:-1]) <= 4096
    )  # the longest moves the first hundred thousand out of the way, once


def test_a_long_list_merges_and_is_replaced_whole(backend: StateBackend) -> None:
    state = backend.state(LIST)
    a, b, c = TimeWindow(0, 1), TimeWindow(1, 2), TimeWindow(2, 3)
    for window, start in ((a, 0), (b, 5000), (c, 10_000)):
        for number in range(start, start + 5000):
            state.add(1, window, number)
    state.merge_namespaces(1, b, [c, a])
    assert state.get(1, b) == [*range(5000, 10_000), *range(10_000, 15_000), *range(5000)]
    assert (state.get(1, a), state.get(1, c), len(state)) == (None, None, 1)
    state.update(1, b, [7])
    assert state.get(1, b) == [7]
    assert len(list(state.rows.scan(b"", b"\xff"))) == 1


def test_a_map_iterates_as_a_dictionary_also_after_a_restore_and_an_undo() -> None:
    journal = UndoJournal()
    model: dict[Any, Any] = {}
    with open_backend(journal) as source, open_backend() as target:
        state = source.state(MAP)
        for map_key in ("b", 3, True, "a", None, 1.0, (1, 2), TimeWindow(1, 2), 2.5, "b"):
            state.put_entry(1, None, map_key, repr(map_key))
            model[map_key] = repr(map_key)
        state.remove_entry(1, None, 3)
        del model[3]
        journal.begin()
        for map_key in ("a", None, "b"):
            state.remove_entry(1, None, map_key)
            state.put_entry(1, None, map_key, "changed")
        journal.undo()
        assert repr(dict(state.items(1, None))) == repr(model)
        target.restore(source.entries())
        restored_state = target.state(MAP)
        restored_state.put_entry(1, None, "last", 0)
        restored_state.put_entry(1, None, 1, "again")
        model["last"], model[1] = 0, "again"
        assert repr(dict(restored_state.items(1, None))) == repr(model)
        assert restored_state.get_entry(1, None, (1.0, 2)) == repr(TimeWindow(1, 2))
        with pytest.raises(TypeError, match="unhashable"):
            restored_state.put_entry(1, None, [], 1)


values = st.integers(-5, 5)
steps = st.tuples(
    st.sampled_from(["list", "map", "value", "reducing", "aggregating"]),
    st.sampled_from(["add", "remove", "clear", "merge", "replace"]),
    st.integers(0, 2),
    st.sampled_from([None, TimeWindow(0, 1), TimeWindow(-1, 1), GLOBAL_WINDOW]),
    values,
)


def apply(backend: StateBackend, step: tuple[str, str, int, Any, int]) -> Any:
    kind, verb, key, namespace, value = step
    state = backend.state(
        {"list": LIST, "map": MAP, "value": VALUE, "reducing": REDUCING, "aggregating": AGGREGATING}[kind]
    )
    match verb, kind:
        case "clear", _:
            state.clear(key, namespace)
            return state.contains(key, namespace)
        case "merge", "list" | "reducing" | "aggregating":
            return state.merge_namespaces(
                key,
                namespace,
                [other for other in (GLOBAL_WINDOW, None, TimeWindow(0, 1)) if other != namespace],
            )
        case _, "map":
            return (
                handle(state, key, namespace).remove(value)
                if verb == "remove"
                else handle(state, key, namespace).put(value, (value, key))
            )
        case _, "value":
            return handle(state, key, namespace).update(value or None)
        case "replace", "list":
            return state.update(key, namespace, list(range(value)))
        case _:
            return state.add(key, namespace, None if verb == "remove" and kind != "list" else value)


@settings(max_examples=40)
@given(st.lists(steps, max_size=40), st.sampled_from(OrderMode), st.data())
def test_both_back_ends_hold_the_same_after_any_steps_undos_restores_and_rescales(
    script: list[tuple[str, str, int, Any, int]], mode: OrderMode, data: st.DataObject
) -> None:
    journal, heap_journal = UndoJournal(), UndoJournal()
    with (
        open_backend(journal, mode=mode) as rocksdb,
        open_backend(mode=mode) as low,
        open_backend(mode=mode) as high,
    ):
        heap = HeapStateBackend(INDEX.__getitem__, mode, heap_journal)
        undone = data.draw(st.integers(0, len(script)))
        for number, step in enumerate(script):
            if number == undone:
                journal.begin()
                heap_journal.begin()
            assert apply(rocksdb, step) == apply(heap, step)
        journal.undo()
        heap_journal.undo()
        assert as_set(rocksdb.entries()) == as_set(heap.entries())
        assert {state.descriptor.name: len(state) for state in rocksdb.states()} == {
            state.descriptor.name: len(state) for state in heap.states()
        }
        cut = data.draw(st.integers(0, 126))
        low.restore(rocksdb.entries(KeyGroupRange(0, cut)))
        high.restore(rocksdb.entries(KeyGroupRange(cut + 1, 127)))
        assert sorted(as_set(low.entries()) + as_set(high.entries())) == as_set(heap.entries())


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP, AGGREGATING])
def test_a_value_without_bytes_is_refused_with_its_state_and_type(
    backend: StateBackend, descriptor: Any
) -> None:
    state = backend.state(descriptor)
    write: dict[str, Callable[[], Any]] = {
        "value": lambda: state.update(1, None, Opaque()),
        "list": lambda: state.add(1, None, Opaque()),
        "map": lambda: state.put_entry(1, None, 1, Opaque()),
        "aggregating": lambda: state.add(1, None, Opaque()),
    }
    with pytest.raises(StateSerializationError, match=f"State '{descriptor.name}' was given a .*Opaque"):
        write[descriptor.kind]()
    with pytest.raises(StateSerializationError, match=r"State 'map \(its keys\)' was given a .*Opaque"):
        backend.state(MAP).put_entry(1, None, Opaque(), 1)
    assert list(backend.entries()) == []


def test_pickles_are_kept_only_when_asked_for() -> None:
    with open_backend(pickles=True) as backend:
        backend.state(VALUE).update(1, None, [Opaque()])
        assert backend.state(VALUE).value(1, None) == [Opaque()]


def test_windows_of_the_users_are_kept_as_named_tuples(backend: StateBackend) -> None:
    state = backend.state(VALUE)
    for number in (1, 2):
        state.update(1, NumberedWindow(number), number)
    assert state.value(1, NumberedWindow(2)) == 2
    assert [entry.namespace for entry in backend.entries()] == [NumberedWindow(1), NumberedWindow(2)]


def test_restored_state_keeps_its_values_when_its_declared_type_is_known_later(backend: StateBackend) -> None:
    backend.restore(
        [
            StateEntry("reducing", "reducing", INDEX[1], 1, None, 2**70),
            StateEntry("reducing", "reducing", INDEX[2], 2, None, 1),
        ]
    )
    state = backend.state(REDUCING)
    state.add(1, None, 1)
    state.add(2, None, 1)
    assert (state.get(1, None), state.get(2, None)) == (2**70 + 1, 2)


def test_entries_may_be_left_half_read_and_read_while_state_changes(backend: StateBackend) -> None:
    state = backend.state(VALUE)
    for key in range(10_000):
        state.update(key, None, key)
    entries = backend.entries()
    for entry in islice(entries, 1_000):
        state.clear(entry.key, None)
        state.update(entry.key, TimeWindow(0, 1), -1)
    keys = [entry.key for entry in entries if entry.namespace is None]
    assert len(set(keys)) == len(keys)
    assert len(state) == 10_000


def test_one_storage_is_of_one_operator(tmp_path: Path) -> None:
    with OperatorStorage(state="rocksdb", parent=tmp_path, memory_mb=8) as storage:
        first = storage.make_backend(INDEX, OrderMode.ROCKSDB, None)
        first.state(VALUE)
        with pytest.raises(StateStorageError, match="for each operator"):
            storage.make_backend(INDEX, OrderMode.ROCKSDB, None).state(VALUE)


@pytest.mark.parametrize("places", [{"state": "rocksdb"}, {"timers": "rocksdb"}])
def test_rocksdb_needs_a_folder(places: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="name one as `parent`"):
        OperatorStorage(**places)


@pytest.mark.parametrize("mode", [OrderMode.HEAP, OrderMode.ROCKSDB_HEAP_TIMERS])
def test_timers_in_the_order_of_a_heap_live_in_memory_alone(tmp_path: Path, mode: OrderMode) -> None:
    with OperatorStorage(timers="rocksdb", parent=tmp_path, memory_mb=8) as storage:
        with pytest.raises(UnsupportedCombinationError, match=mode.value):
            storage.make_timer_queue("timers", INDEX, mode)
        assert len(storage.make_timer_queue("timers", INDEX, OrderMode.ROCKSDB)) == 0
