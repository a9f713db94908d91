"""Timers in RocksDB beyond the contract of every queue: the cache shows in no result, deleted rows are not
passed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import INT
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.key_group_partitioned_priority_queue import KeyGroupPartitionedPriorityQueue
from slackwater.windowing.runtime.operator_storage import IN_MEMORY
from slackwater.windowing.runtime.rocksdb_caching_priority_queue_set import RocksDBCachingPriorityQueueSet
from slackwater.windowing.runtime.timer_queue import Timer
from slackwater.windowing.state.rocksdb.database import ColumnFamily, RocksDBDatabase
from slackwater.windowing.state.rocksdb.rows import RowLayout, timer_timestamp
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow


class RowsInMemory:
    """Sorted rows without RocksDB, which note where they were asked to begin and how many live rows they
    handed out.
    """

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.begun: list[bytes] = []
        self.handed_out = 0

    def get(self, key: bytes) -> bytes | None:
        return b"" if self._has(key) else None

    def put(self, key: bytes, value: bytes) -> None:
        if not self._has(key):
            bisect.insort(self.keys, key)

    def delete(self, key: bytes) -> None:
        if self._has(key):
            self.keys.remove(key)

    def first(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return list(self._between(start, end, limit))

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._between(start, end, len(self.keys)))

    def _between(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self.begun.append(start)
        rows = [(key, b"") for key in self.keys if start <= key < end][:limit]
        self.handed_out += len(rows)
        return rows

    def _has(self, key: bytes) -> bool:
        position = bisect.bisect_left(self.keys, key)
        return position < len(self.keys) and self.keys[position] == key


def queue_on(
    rows: RowsInMemory | ColumnFamily, groups: int = 1, cache_size: int = 128
) -> KeyGroupPartitionedPriorityQueue:
    index = KeyGroupIndex(INT, KeyGroupRange(0, groups - 1), groups)
    layout = RowLayout(INT, index.__getitem__, PlainSerializer("windows"))
    return KeyGroupPartitionedPriorityQueue(
        index.key_groups,
        index.__getitem__,
        lambda group: RocksDBCachingPriorityQueueSet(rows, layout, group, cache_size),
    )


def drain(queue: Any, limit: int = 2**62) -> list[Timer]:
    timers = []
    while (timer := queue.poll_due(limit)) is not None:
        timers.append(timer)
    return timers


timers = st.tuples(
    st.integers(-3, 3),
    st.integers(-2, 2),
    st.sampled_from([None, TimeWindow(-1, 1), TimeWindow(0, 1), GLOBAL_WINDOW]),
)
steps = st.one_of(
    st.tuples(st.sampled_from(["add", "add", "remove"]), timers),
    st.tuples(st.just("poll"), st.integers(-3, 3)),
    st.just(("restore", 0)),
)


@settings(max_examples=200)
@given(st.lists(steps, max_size=80), st.integers(1, 4), st.sampled_from([1, 3]))
def test_no_size_of_the_cache_shows_in_any_result(
    script: list[tuple[str, Any]], cache_size: int, groups: int
) -> None:
    index = KeyGroupIndex(INT, KeyGroupRange(0, groups - 1), groups)
    rows = RowsInMemory()
    cached_queue, reference = (
        queue_on(rows, groups, cache_size),
        IN_MEMORY.make_timer_queue("timers", index, OrderMode.ROCKSDB),
    )
    for verb, argument in script:
        match verb:
            case "add":
                cached_queue.add(*argument)
                reference.add(*argument)
            case "remove":
                cached_queue.remove(*argument)
                reference.remove(*argument)
            case "poll":
                assert cached_queue.poll_due(argument) == reference.poll_due(argument)
            case "restore":
                timers = [timer for group in range(groups) for timer in cached_queue.snapshot(group)]
                assert timers == [timer for group in range(groups) for timer in reference.snapshot(group)]
                cached_queue = queue_on(RowsInMemory(), groups, cache_size)
                reference = IN_MEMORY.make_timer_queue("timers", index, OrderMode.ROCKSDB)
                cached_queue.restore(timers)
                reference.restore(timers)
        assert cached_queue.head_timestamp() == reference.head_timestamp()
        assert (list(cached_queue), len(cached_queue)) == (list(reference), len(reference))
    assert drain(cached_queue) == drain(reference)
    assert len(cached_queue) == 0


def test_every_change_is_written_through() -> None:
    rows = RowsInMemory()
    queue = queue_on(rows)
    for timestamp in (3, 1, 2):
        queue.add(timestamp, 0, None)
    assert [timer_timestamp(row) for row in rows.keys] == [1, 2, 3]
    queue.remove(2, 0, None)
    queue.poll_due(5)
    assert [timer_timestamp(row) for row in rows.keys] == [3]


def test_what_fits_into_the_cache_is_never_read_from_the_store() -> None:
    rows = RowsInMemory()
    queue = queue_on(rows, cache_size=128)
    for timestamp in range(128):
        queue.add(timestamp, 0, None)
    assert (len(queue), len(drain(queue)), rows.begun) == (128, 128, [])


def test_refilling_begins_above_the_last_timer_polled_and_reads_each_row_about_once() -> None:
    rows = RowsInMemory()
    queue = queue_on(rows, cache_size=10)
    for timestamp in range(1000):
        queue.add(timestamp, 0, None)
    assert [timestamp for timestamp, _, _ in drain(queue)] == list(range(1000))
    assert len(rows.begun) == 99  # the first ten were in the cache already; the last read finds the rest
    assert [timer_timestamp(start) for start in rows.begun] == list(range(9, 990, 10))
    assert all(start.endswith(b"\x00") for start in rows.begun)
    assert rows.handed_out == 990 + 98  # a row more each time, to see whether there are any


def test_a_timer_below_the_cached_ones_is_next_although_it_lies_below_the_seek_hint() -> None:
    queue = queue_on(RowsInMemory(), cache_size=2)
    for timestamp in (10, 20, 30, 40):
        queue.add(timestamp, 0, None)
    assert drain(queue, 20) == [(10, 0, None), (20, 0, None)]
    queue.add(5, 0, None)
    assert drain(queue) == [(5, 0, None), (30, 0, None), (40, 0, None)]


@pytest.mark.parametrize("cache_size", [1, 128])
def test_timers_in_rocksdb_fire_across_key_groups_as_those_in_memory(tmp_path: Path, cache_size: int) -> None:
    index = KeyGroupIndex(INT, KeyGroupRange(0, 15), 16)
    with RocksDBDatabase(tmp_path, 8) as database:
        queue, reference = (
            queue_on(database.column_family("timers"), 16, cache_size),
            IN_MEMORY.make_timer_queue("timers", index, OrderMode.ROCKSDB),
        )
        for number in range(2000):
            timer = (number * 7919 % 50, number * 104729 % 300, TimeWindow(number % 3, 9))
            for each in (queue, reference):
                each.add(*timer)
                if number % 4 == 0:
                    each.remove(
                        (number - 8) * 7919 % 50, (number - 8) * 104729 % 300, TimeWindow((number - 8) % 3, 9)
                    )
            if number % 5 == 0:
                assert queue.poll_due(25) == reference.poll_due(25)
        assert (list(queue), len(queue)) == (list(reference), len(reference))
        assert drain(queue) == drain(reference)
