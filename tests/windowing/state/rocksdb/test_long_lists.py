"""Lists in RocksDB are the lists that a model of Python lists has, however long they are and whichever way
they have grown; a long one is read in chunks, as it was when it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.key_types import STRING
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.descriptors import ListStateDescriptor
from slackwater.windowing.state.rocksdb import list_state
from slackwater.windowing.state.rocksdb.backend import RocksDBStateBackend
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase
from slackwater.windowing.state.rocksdb.list_state import StoredList
from slackwater.windowing.windows import TimeWindow

LIST = ListStateDescriptor("list")
KEYS, WINDOWS = ("a", "b"), (TimeWindow(0, 5), TimeWindow(5, 10), TimeWindow(10, 15))


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("databases")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few elements fill a chunk, and a list of two full chunks is long."""
    monkeypatch.setattr(list_state, "CHUNK_BYTES", 40)
    monkeypatch.setattr(list_state, "LONG_LIST_CHUNKS", 2)
    monkeypatch.setattr(list_state, "CHUNKS_BETWEEN_FLUSHES", 3)


@pytest.fixture
def states(parent: Path, small_chunks: None) -> Iterator[Any]:
    backend = backend_in(parent)
    yield backend.state(LIST)
    backend.close()


def backend_in(parent: Path) -> RocksDBStateBackend:
    return RocksDBStateBackend(
        RocksDBDatabase(parent, memory_mb=8), STRING, lambda key: ord(key), OrderMode.ROCKSDB
    )


VALUES = st.one_of(st.integers(), st.text(max_size=60), st.none(), st.tuples(st.integers(), st.floats()))
OWNERS = st.tuples(st.sampled_from(KEYS), st.sampled_from(WINDOWS))
CHANGES = st.one_of(
    st.tuples(st.just("add"), OWNERS, VALUES),
    st.tuples(st.just("add_all"), OWNERS, st.lists(VALUES, min_size=1, max_size=30)),
    st.tuples(st.just("update"), OWNERS, st.lists(VALUES, max_size=20)),
    st.tuples(st.just("clear"), OWNERS, st.none()),
    st.tuples(st.just("merge"), OWNERS, st.lists(st.sampled_from(WINDOWS), unique=True, max_size=2)),
)


@pytest.mark.slow
@given(changes=st.lists(CHANGES, max_size=25))
@settings(deadline=None)
def test_a_list_is_what_a_python_list_would_be(parent: Path, changes: list[tuple[str, Any, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_state, "CHUNK_BYTES", 40)
        patch.setattr(list_state, "LONG_LIST_CHUNKS", 2)
        backend, model = backend_in(parent), dict[Any, list[Any]]()
        state = backend.state(LIST)
        for change, (key, window), argument in changes:
            if change == "add":
                state.add(key, window, argument)
                model.setdefault((key, window), []).append(argument)
            elif change == "add_all":
                state.add_all(key, window, argument)
                model.setdefault((key, window), []).extend(argument)
            elif change == "update":
                state.update(key, window, argument)
                model.pop((key, window), None)
                model |= {(key, window): list(argument)} if argument else {}
            elif change == "clear":
                state.clear(key, window)
                model.pop((key, window), None)
            else:
                sources = [source for source in argument if source != window]
                state.merge_namespaces(key, window, sources)
                merged = [value for source in sources for value in model.pop((key, source), [])]
                if merged:
                    model.setdefault((key, window), []).extend(merged)
        for key in KEYS:
            for window in WINDOWS:
                stored, wanted = state.get(key, window), model.get((key, window))
                assert (stored is None) == (wanted is None) == (not state.contains(key, window))
                assert repr(list(stored or ())) == repr(wanted or [])
                assert len(stored or ()) == len(wanted or ())
        entries = {(entry.key, entry.namespace): repr(list(entry.value)) for entry in backend.entries()}
        assert entries == {owner: repr(values) for owner, values in model.items()}
        rows = sum(1 for _ in state.rows.scan(b"", b"\xff" * 8))
        assert bool(rows) == bool(model), "a list that is gone leaves no chunk"
        backend.close()


def test_a_long_list_is_a_sequence_that_is_read_again_each_time(states: Any) -> None:
    values = [(number, f"n{number}") for number in range(500)]
    states.add_all("a", WINDOWS[0], values)
    stored = states.get("a", WINDOWS[0])
    assert isinstance(stored, StoredList) and len(stored) == 500 and stored == values
    assert list(stored) == list(stored) == values
    assert (stored[0], stored[-1], stored[250]) == (values[0], values[-1], values[250])
    for piece in (slice(3, 9), slice(-4, None), slice(None, None, 50), slice(9, 2, -3), slice(700, 800)):
        assert stored[piece] == values[piece]
    for position in (500, -501):
        with pytest.raises(IndexError):
            stored[position]
    assert stored != values[:-1] and stored != [*values[:-1], None] and stored != tuple(values)
    assert "500 elements" in repr(stored)


def test_a_long_list_is_as_it_was_when_it_was_asked_for(states: Any) -> None:
    values = list(range(100))
    states.add_all("a", None, values)
    stored = states.get("a", None)
    elements = iter(stored)
    assert next(elements) == 0
    for more in range(100, 200):
        states.add("a", None, more)
    assert [0, *elements] == list(stored) == values
    assert list(states.get("a", None)) == list(range(200))


@pytest.mark.parametrize("change", ["clear", "update"])
def test_a_long_list_whose_state_is_gone_is_not_read_as_something_else(states: Any, change: str) -> None:
    states.add_all("a", None, list(range(100)))
    stored = states.get("a", None)
    if change == "clear":
        states.clear("a", None)
    else:
        states.update("a", None, list(range(1000, 1200)))
    with pytest.raises(StateAccessError, match="'list': a list was read that has been cleared or replaced"):
        list(stored)


def test_pieces_that_are_restored_are_one_list(parent: Path, small_chunks: None) -> None:
    first, second = backend_in(parent), backend_in(parent)
    first.state(LIST).add_all("a", None, list(range(50)))
    [entry] = first.entries()
    second.restore([entry, entry._replace(value=list(range(50, 120)))])
    assert list(second.state(LIST).get("a", None)) == list(range(120))
    first.close()
    second.close()
