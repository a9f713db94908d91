"""The estimate of a state's size is near what the state really takes, for values of every shape."""

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from slackwater.windowing import (
    ListStateDescriptor,
    MapStateDescriptor,
    OrderMode,
    TimeWindow,
    ValueStateDescriptor,
)
from slackwater.windowing.runtime.slice_runner import deep_size, estimated_size
from slackwater.windowing.state.heap.backend import HeapStateBackend
from tests.contracts.backends import handle

WINDOWS = 3000


class Flight(NamedTuple):
    tail: str
    delay: int
    price: float


def flight(number: int) -> Flight:
    return Flight(f"N{number}", number * 1000, number + 0.5)


FILLS: dict[str, Callable[[HeapStateBackend, int], None]] = {
    "values": lambda backend, number: handle(
        backend.state(ValueStateDescriptor("v")), f"k{number}", TimeWindow(number, number + 9)
    ).update((number * 1000, float(number))),
    "lists": lambda backend, number: [
        backend.state(ListStateDescriptor("l")).add(f"k{number}", TimeWindow(0, 9), flight(number + more))
        for more in range(number % 20)
    ],
    "maps": lambda backend, number: [
        handle(backend.state(MapStateDescriptor("m")), f"k{number}", None).put(f"m{more}", flight(number))
        for more in range(number % 9)
    ],
}


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_the_estimate_is_within_a_factor_of_two(fill: Callable[[HeapStateBackend, int], Any]) -> None:
    backend = HeapStateBackend(lambda key: 0, OrderMode.ROCKSDB)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(WINDOWS):
        fill(backend, number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = estimated_size(backend, 0)
    assert size.entries == len(list(backend.entries()))
    assert size.items == sum(len(entry.value) for entry in backend.entries() if entry.kind == "list")
    assert 0.5 < size.bytes / (after - before) < 2


def test_one_large_list_among_small_ones_counts() -> None:
    backend = HeapStateBackend(lambda key: 0, OrderMode.ROCKSDB)
    state = backend.state(ListStateDescriptor("l"))
    for number in range(100):
        state.add(f"k{number}", TimeWindow(0, 9), 10**12)
    for _ in range(100_000):
        state.add("k50", TimeWindow(0, 9), 10**12)
    assert estimated_size(backend, 0).bytes > 100_000 * 30


def test_timers_are_counted() -> None:
    backend = HeapStateBackend(lambda key: 0, OrderMode.ROCKSDB)
    size = estimated_size(backend, 1000)
    assert size.entries == 1000
    assert size.bytes > 100_000


def test_an_empty_collection_is_its_own_size() -> None:
    assert deep_size([]) == [].__sizeof__() + 16
    assert deep_size({}) < deep_size({"a": 1}) < deep_size({"a": "b" * 1000})
