"""Every recorded case once more with memory and RocksDB swapped, and a check that the player really uses
RocksDB.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from slackwater.conformance import Case, play, play_case, read_cases
from slackwater.conformance.storages import BackEnd, Storages
from slackwater.windowing.errors import StateStorageError
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.heap.backend import HeapStateBackend
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase

TRACES = Path(__file__).parent / "traces"
OPERATOR_TRACES = sorted(
    path for path in TRACES.glob("*.jsonl.gz") if next(read_cases(path)).family in ("window", "timers")
)
"""Families of vectors keep no state."""


@pytest.fixture
def opened_databases(monkeypatch: pytest.MonkeyPatch) -> list[RocksDBDatabase]:
    """The databases that were opened."""
    opened_databases: list[RocksDBDatabase] = []
    open_database = RocksDBDatabase.__init__

    def note(self: RocksDBDatabase, *arguments: object) -> None:
        opened_databases.append(self)
        open_database(self, *arguments)

    monkeypatch.setattr(RocksDBDatabase, "__init__", note)
    return opened_databases


def first_case_on(backend: str) -> Case:
    return next(case for case in read_cases(TRACES / "timers.jsonl.gz") if case.config["backend"] == backend)


@pytest.mark.slow
@pytest.mark.parametrize("path", OPERATOR_TRACES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_recorded_case_passes_with_state_in_the_other_back_end(path: Path) -> None:
    out = io.StringIO()
    failure_count = play([path], out, back_end="swapped").failure_count
    assert failure_count == 0, out.getvalue()
    assert not out.getvalue().startswith("0 passed")


@pytest.mark.parametrize(
    ("backend", "back_end", "is_in_rocksdb"),
    [
        ("rocksdb", "case", True),
        ("rocksdb_heap_timers", "case", True),
        ("hashmap", "case", False),
        ("rocksdb", "heap", False),
        ("rocksdb", "swapped", False),
        ("rocksdb_heap_timers", "swapped", False),
        ("hashmap", "swapped", True),
    ],
)
def test_state_lives_where_the_option_says(
    backend: str, back_end: BackEnd, is_in_rocksdb: bool, opened_databases: list[RocksDBDatabase]
) -> None:
    assert play_case(first_case_on(backend), back_end) is None
    assert bool(opened_databases) is is_in_rocksdb
    assert not any(database.path.exists() for database in opened_databases)


def test_timers_of_a_case_on_rocksdb_live_there_too(opened_databases: list[RocksDBDatabase]) -> None:
    index = KeyGroupIndex(STRING, KeyGroupRange(0, 127), 128)
    with Storages("swapped") as storages:
        storages.open("rocksdb").make_timer_queue("event", index, OrderMode.ROCKSDB)
        assert opened_databases == []
    with Storages("case") as storages:
        storages.open("rocksdb").make_timer_queue("event", index, OrderMode.ROCKSDB)
        with pytest.raises(StateStorageError, match="'timers/event'"):
            opened_databases[0].column_family("timers/event")
        assert type(storages.open("hashmap").make_backend(index, OrderMode.HEAP, None)) is HeapStateBackend
