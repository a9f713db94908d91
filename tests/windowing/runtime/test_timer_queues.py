"""Both timer queues against plain models: each timer once, lowest first, ties as each order mode has them."""

import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.heap_priority_queue import HeapPriorityQueue, HeapPriorityQueueSet
from slackwater.windowing.runtime.key_group_partitioned_priority_queue import (
    KeyGroupPartitionedPriorityQueue,
    KeyGroupTimers,
)
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer, TimerQueue
from slackwater.windowing.windows import TimeWindow

KEYS = ["a", "b", "c", "aa", "key1", "zzz"]
WINDOWS = [None, TimeWindow(0, 10), TimeWindow(-5, 10), TimeWindow(5, 10)]


def heap_queue(groups: int = 7) -> HeapPriorityQueueSet:
    index = KeyGroupIndex(STRING, KeyGroupRange(0, groups - 1), groups)
    return HeapPriorityQueueSet(index.key_groups, index.__getitem__, STRING.hash_code)


def in_memory(key_group: int) -> KeyGroupTimers:
    return KeyGroupTimers(STRING.serialize)


def partitioned_queue(groups: int = 7) -> KeyGroupPartitionedPriorityQueue:
    index = KeyGroupIndex(STRING, KeyGroupRange(0, groups - 1), groups)
    return KeyGroupPartitionedPriorityQueue(index.key_groups, index.__getitem__, in_memory)


def byte_order(timer: Timer) -> bytes:
    """RocksDB's key without the key group: flipped timestamp, key, window."""
    timestamp, key, window = timer
    return (
        struct.pack(">Q", timestamp + 2**63)
        + STRING.serialize(key)
        + (b"" if window is None else struct.pack(">qq", *window))
    )


def drain(queue: TimerQueue) -> list[Timer]:
    timers = []
    while (timer := queue.poll_due(EMPTY_PRIORITY - 1)) is not None:
        timers.append(timer)
    return timers


timers = st.tuples(
    st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    st.sampled_from(KEYS),
    st.sampled_from(WINDOWS),
)
operations = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "remove", "poll"]), timers, st.integers(-3, 3)),
    max_size=60,
)


@pytest.mark.parametrize("make", [heap_queue, partitioned_queue])
@given(script=operations)
def test_a_queue_holds_each_timer_once_and_gives_the_lowest(
    make: Any, script: list[tuple[str, Timer, int]]
) -> None:
    queue, model = make(), set()
    for operation, timer, limit in script:
        if operation == "add":
            queue.add(*timer)
            model.add(timer)
        elif operation == "remove":
            queue.remove(*timer)
            model.discard(timer)
        else:
            polled_timer = queue.poll_due(limit)
            lowest = min((time for time, _, _ in model), default=EMPTY_PRIORITY)
            if lowest > limit:
                assert polled_timer is None
            else:
                assert polled_timer is not None and polled_timer[0] == lowest
                model.remove(polled_timer)
        assert len(queue) == len(model)
        assert set(queue) == model
        assert (timer in queue) == (timer in model)
        assert queue.head_timestamp() == min(
            (timer_of_model[0] for timer_of_model in model), default=EMPTY_PRIORITY
        )
    polled_all = drain(queue)
    assert sorted(polled_all, key=byte_order) == sorted(model, key=byte_order)
    assert [timer[0] for timer in polled_all] == sorted(timer[0] for timer in model)
    assert queue.poll_due(EMPTY_PRIORITY - 1) is None


@given(script=operations)
def test_one_key_group_fires_in_the_order_of_its_bytes(script: list[tuple[str, Timer, int]]) -> None:
    queue, model = partitioned_queue(1), set()
    for operation, timer, limit in script:
        if operation == "add":
            queue.add(*timer)
            model.add(timer)
        elif operation == "remove":
            queue.remove(*timer)
            model.discard(timer)
        elif (polled_timer := queue.poll_due(limit)) is not None:
            assert polled_timer == min(model, key=byte_order)
            model.remove(polled_timer)
    assert queue.snapshot(0) == sorted(model, key=byte_order)
    assert drain(queue) == sorted(model, key=byte_order)


def test_shorter_keys_come_first_and_negative_windows_last() -> None:
    queue = partitioned_queue(1)
    for key in ("zz", "b", "aaa"):
        for window in (TimeWindow(-5, 10), TimeWindow(5, 10)):
            queue.add(7, key, window)
    assert [(key, window.start) for _, key, window in drain(queue)] == [
        ("b", 5),
        ("b", -5),
        ("zz", 5),
        ("zz", -5),
        ("aaa", 5),
        ("aaa", -5),
    ]


def test_a_timer_added_while_its_time_is_drained_finds_its_place() -> None:
    queue = partitioned_queue(1)
    for key in "ace":
        queue.add(1, key, None)
    assert queue.poll_due(1) == (1, "a", None)
    queue.add(1, "a", None)
    queue.add(1, "d", None)
    queue.remove(1, "e", None)
    queue.add(0, "z", None)
    assert [timer[:2] for timer in drain(queue)] == [(0, "z"), (1, "a"), (1, "c"), (1, "d")]


def test_equal_timers_leave_the_heap_by_its_history() -> None:
    """Worked by hand: appended, sifted by strict comparison; the last element replaces the polled one."""
    queue = heap_queue(1)
    for key in ("a", "b", "c", "d"):
        queue.add(5, key, None)
    assert [key for _, key, _ in drain(queue)] == ["a", "d", "c", "b"]


def test_the_heap_stands_as_flink_lets_it_stand_after_a_removal() -> None:
    class Element:
        def __init__(self, priority: int) -> None:
            self.priority, self.heap_index = priority, 0

    heap: HeapPriorityQueue[Any] = HeapPriorityQueue()
    elements = [Element(priority) for priority in (1, 5, 2, 6, 7, 3)]
    for element in elements:
        heap.add(element)
    heap.remove(elements[3])  # 3, the last, goes to the place of 6 and sifts up past 5
    assert [element.priority for element in heap] == [1, 3, 2, 5, 7]
    elements[0].priority = 9
    heap.adjust(elements[0])
    assert [element.priority for element in heap] == [2, 3, 9, 5, 7]
    assert [element.heap_index for element in heap] == [1, 2, 3, 4, 5]


@given(script=operations, parallelism=st.integers(1, 7))
def test_a_snapshot_restores_into_any_number_of_queues(
    script: list[tuple[str, Timer, int]], parallelism: int
) -> None:
    for make in (heap_queue, partitioned_queue):
        queue = make()
        for _, timer, _ in script:
            queue.add(*timer)
        timers_by_key_group = {group: queue.snapshot(group) for group in range(7)}
        assert sum(map(len, timers_by_key_group.values())) == len(queue)
        restored_timers: list[Timer] = []
        for key_groups in KeyGroupRange.ranges(parallelism, 7):
            index = KeyGroupIndex(STRING, key_groups, 7)
            part: TimerQueue
            if make is heap_queue:
                part = HeapPriorityQueueSet(key_groups, index.__getitem__, STRING.hash_code)
            else:
                part = KeyGroupPartitionedPriorityQueue(key_groups, index.__getitem__, in_memory)
            part.restore([timer for group in key_groups for timer in timers_by_key_group[group]])
            if make is partitioned_queue:
                assert {group: part.snapshot(group) for group in key_groups} == {
                    group: timers_by_key_group[group] for group in key_groups
                }
            restored_timers += drain(part)
        assert sorted(restored_timers, key=byte_order) == sorted(drain(queue), key=byte_order)


def test_many_removed_timers_take_no_memory() -> None:
    timers = KeyGroupTimers(STRING.serialize)
    timers.add(-1, "a", None)  # fires first, so that the others are removed from the middle
    for timestamp in range(10_000):
        timers.add(timestamp, "a", None)
        timers.remove(timestamp, "a", None)
    assert len(pickle.dumps(timers)) < 1_000  # 10,000 timestamps would take 30 kB
    assert timers.poll() == (-1, "a", None)
