"""Queues of timers: priority, dedup, removal, iteration and restoring, on both kinds of queue; then each
kind's own order of ties.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from slackwater.windowing.errors import KeyGroupError
from slackwater.windowing.java import string_hash
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange, key_group_of
from slackwater.windowing.key_types import LONG, STRING
from slackwater.windowing.runtime.heap_priority_queue import HeapPriorityQueue, HeapPriorityQueueSet
from slackwater.windowing.runtime.key_group_partitioned_priority_queue import (
    KeyGroupPartitionedPriorityQueue,
    KeyGroupTimers,
)
from slackwater.windowing.runtime.rocksdb_caching_priority_queue_set import RocksDBCachingPriorityQueueSet
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer, TimerQueue
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase
from slackwater.windowing.state.rocksdb.rows import RowLayout
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer
from slackwater.windowing.windows import TimeWindow

W = TimeWindow
GROUPS = KeyGroupRange(0, 7)
MakeQueue = Callable[[], TimerQueue]


def group_of(key: str) -> int:
    return key_group_of(key, STRING, len(GROUPS))


def heap() -> TimerQueue:
    return HeapPriorityQueueSet(GROUPS, group_of, string_hash)


def timers_in_memory(key_group: int) -> KeyGroupTimers:
    return KeyGroupTimers(STRING.serialize)


def partitioned_queue() -> TimerQueue:
    return KeyGroupPartitionedPriorityQueue(GROUPS, group_of, timers_in_memory)


@contextmanager
def in_rocksdb(
    folder: Path, cache_size: int, key_type: Any = STRING, groups: KeyGroupRange = GROUPS
) -> Iterator[MakeQueue]:
    """As many queues as are asked for, in databases that go afterwards."""
    with ExitStack() as storages:

        def make_queue() -> TimerQueue:
            rows = storages.enter_context(RocksDBDatabase(folder, 8)).column_family("timers")
            index = KeyGroupIndex(key_type, groups, len(groups))
            layout = RowLayout(key_type, index.__getitem__, PlainSerializer("windows"))
            return KeyGroupPartitionedPriorityQueue(
                groups,
                index.__getitem__,
                lambda group: RocksDBCachingPriorityQueueSet(rows, layout, group, cache_size),
            )

        yield make_queue


@pytest.fixture(params=["heap", "key_group_partitioned", "rocksdb", "rocksdb, two cached"])
def make(request: pytest.FixtureRequest, folder: Path) -> Iterator[MakeQueue]:
    match request.param:
        case "heap":
            yield heap
        case "key_group_partitioned":
            yield partitioned_queue
        case name:
            with in_rocksdb(folder, 128 if name == "rocksdb" else 2) as make_queue:
                yield make_queue


def drain(queue: TimerQueue, limit: int = 2**63 - 1) -> list[Timer]:
    polled_timers = []
    while (timer := queue.poll_due(limit)) is not None:
        polled_timers.append(timer)
        assert timer not in queue
    return polled_timers


def random_timers(seed: int, count: int = 300) -> list[Timer]:
    """Distinct timers over many keys, windows and few timestamps, negative ones and both ends of the range
    among them.
    """
    source = random.Random(seed)
    times = [*range(-20, 20), -(2**63), 2**63 - 1]
    drawn = {
        (
            source.choice(times),
            source.choice("abcdefgh") * source.randint(0, 3),
            W(*sorted((source.randint(-9, 9), 10))),
        )
        for _ in range(count)
    }
    return sorted(drawn)


def test_timers_are_polled_in_the_order_of_their_time(make: MakeQueue) -> None:
    queue, timers = make(), random_timers(1)
    random.Random(2).shuffle(timers)
    for timer in timers:
        queue.add(*timer)
        assert queue.head_timestamp() == min(added[0] for added in queue)
    polled_timers = drain(queue)
    assert [timer[0] for timer in polled_timers] == sorted(timer[0] for timer in timers)
    assert set(polled_timers) == set(timers)
    assert len(polled_timers) == len(timers)


def test_the_order_stays_when_removals_and_insertions_mix(make: MakeQueue) -> None:
    queue, timers, source = make(), random_timers(3), random.Random(4)
    present: set[Timer] = set()
    for _ in range(3 * len(timers)):
        timer = source.choice(timers)
        if timer in present:
            queue.remove(*timer)
            present.discard(timer)
        else:
            queue.add(*timer)
            present.add(timer)
        assert len(queue) == len(present)
        assert queue.head_timestamp() == min((timer[0] for timer in present), default=EMPTY_PRIORITY)
    polled_timers = drain(queue)
    assert sorted(polled_timers) == sorted(present)
    assert [timer[0] for timer in polled_timers] == sorted(timer[0] for timer in present)


def test_only_what_is_due_is_polled(make: MakeQueue) -> None:
    queue = make()
    assert queue.poll_due(2**63 - 1) is None
    for time in (3, 1, 2):
        queue.add(time, "a", None)
    assert queue.poll_due(0) is None
    assert [timer[0] for timer in drain(queue, 2)] == [1, 2]
    assert len(queue) == 1
    assert queue.head_timestamp() == 3


def test_an_empty_queue_has_no_head_and_no_timers(make: MakeQueue) -> None:
    queue = make()
    assert (len(queue), list(queue), queue.head_timestamp()) == (0, [], EMPTY_PRIORITY)
    queue.add(1, "a", None)
    assert (len(queue), queue.head_timestamp()) == (1, 1)
    queue.remove(1, "a", None)
    assert (len(queue), list(queue), queue.head_timestamp()) == (0, [], EMPTY_PRIORITY)


def test_a_timer_is_held_once_and_a_removal_of_none_is_silent(make: MakeQueue) -> None:
    queue = make()
    queue.remove(1, "a", None)
    for _ in range(3):
        queue.add(1, "a", W(0, 2))
    for other in ((2, "a", W(0, 2)), (1, "b", W(0, 2)), (1, "a", W(0, 3)), (1, "a", None)):
        queue.add(*other)
    assert len(queue) == 5
    queue.remove(1, "a", W(0, 2))
    queue.remove(1, "a", W(0, 2))
    assert len(queue) == 4
    assert (1, "a", W(0, 2)) not in queue
    assert (1, "a", W(0, 3)) in queue


def test_a_removed_timer_can_come_back(make: MakeQueue) -> None:
    queue = make()
    for _ in range(200):  # more than a queue may keep of what is removed
        queue.add(5, "a", None)
        queue.remove(5, "a", None)
    queue.add(5, "a", None)
    assert drain(queue) == [(5, "a", None)]


def test_iteration_shows_every_timer_and_allows_changes_meanwhile(make: MakeQueue) -> None:
    queue, timers = make(), random_timers(5)
    for timer in timers:
        queue.add(*timer)
    timers_shown = []
    for timer in queue:
        timers_shown.append(timer)
        queue.remove(*timer)
    assert sorted(timers_shown) == timers
    assert len(queue) == 0


def test_iteration_after_a_poll_shows_timers_registered_below_it(make: MakeQueue) -> None:
    queue = make()
    queue.add(9, "a", None)
    assert queue.poll_due(9) == (9, "a", None)
    queue.add(7, "a", None)
    assert list(queue) == [(7, "a", None)]


def test_a_snapshot_holds_each_timer_under_its_key_group_and_restores_all(make: MakeQueue) -> None:
    queue, timers = make(), random_timers(6)
    for timer in timers:
        queue.add(*timer)
    parts = {key_group: queue.snapshot(key_group) for key_group in GROUPS}
    assert all(group_of(timer[1]) == key_group for key_group, part in parts.items() for timer in part)
    assert sorted(timer for part in parts.values() for timer in part) == timers
    restored_queue = make()
    restored_queue.restore([timer for key_group in GROUPS for timer in parts[key_group]])
    assert len(restored_queue) == len(timers)
    assert sorted(drain(restored_queue)) == timers


def test_a_key_group_may_come_in_parts_of_its_keys(make: MakeQueue) -> None:
    timers = random_timers(8)
    restored_queue = make()
    for remainder in (1, 0):
        part = [timer for timer in timers if len(timer[1]) % 2 == remainder]
        restored_queue.restore(sorted(part, key=lambda timer: group_of(timer[1])))
    assert len(restored_queue) == len(timers)
    drained = drain(restored_queue)
    assert sorted(drained) == timers and [timer[0] for timer in drained] == sorted(
        timer[0] for timer in timers
    )


def test_one_kind_of_queue_restores_what_the_other_has_written() -> None:
    for source, target in ((heap(), partitioned_queue()), (partitioned_queue(), heap())):
        for timer in random_timers(7):
            source.add(*timer)
        target.restore([timer for key_group in GROUPS for timer in source.snapshot(key_group)])
        assert sorted(drain(target)) == random_timers(7)


def test_a_queue_refuses_keys_of_other_key_groups() -> None:
    key_groups = KeyGroupRange(0, 3)

    def owned_group_of(key: str) -> int:
        key_group = group_of(key)
        if key_group not in key_groups:
            raise KeyGroupError("of another operator")
        return key_group

    foreign = next(key for key in "abcdefgh" if group_of(key) not in key_groups)
    queues = (
        HeapPriorityQueueSet(key_groups, owned_group_of, string_hash),
        KeyGroupPartitionedPriorityQueue(key_groups, owned_group_of, timers_in_memory),
    )
    for queue in queues:
        with pytest.raises(KeyGroupError):
            queue.add(1, foreign, None)
        assert len(queue) == 0


@pytest.fixture(params=["memory", "rocksdb"])
def one_group(request: pytest.FixtureRequest, folder: Path) -> Iterator[Callable[..., TimerQueue]]:
    """A key type → an empty queue of one key group, in RocksDB's order, in either place."""
    group = KeyGroupRange(0, 0)
    if request.param == "memory":
        yield lambda key_type=STRING: KeyGroupPartitionedPriorityQueue(
            group, lambda key: 0, lambda _: KeyGroupTimers(key_type.serialize)
        )
        return
    with ExitStack() as stack:
        yield lambda key_type=STRING: stack.enter_context(in_rocksdb(folder, 2, key_type, group))()


def test_inside_a_key_group_equal_timers_come_by_serialized_key_shorter_strings_first(
    one_group: Callable[..., TimerQueue],
) -> None:
    queue = one_group()
    keys = ["b", "aa", "ab", "", "z", "a", "ba"]
    for key in keys:
        queue.add(5, key, None)
    assert [key for _, key, _ in drain(queue)] == ["", "a", "b", "z", "aa", "ab", "ba"]


def test_inside_a_key_group_negative_numbers_come_after_positive_ones(
    one_group: Callable[..., TimerQueue],
) -> None:
    queue = one_group(LONG)
    for key in (-1, 5, 0, -(2**63), 2**63 - 1):
        queue.add(5, key, None)
    assert [key for _, key, _ in drain(queue)] == [0, 5, 2**63 - 1, -(2**63), -1]


def test_equal_timers_of_one_key_come_by_window_negative_starts_after_positive_ones(
    one_group: Callable[..., TimerQueue],
) -> None:
    queue = one_group()
    for window in (W(-5, 9), W(5, 9), W(0, 9), W(0, 7)):
        queue.add(5, "a", window)
    assert [window for _, _, window in drain(queue)] == [W(0, 7), W(0, 9), W(5, 9), W(-5, 9)]


def test_timestamps_come_as_signed_numbers_before_all_else(one_group: Callable[..., TimerQueue]) -> None:
    queue = one_group()
    for time in (5, -5, 2**63 - 1, 0, -(2**63)):
        queue.add(time, "a", None)
    assert [time for time, _, _ in drain(queue)] == [-(2**63), -5, 0, 5, 2**63 - 1]


def test_the_order_inside_a_key_group_does_not_depend_on_history(
    one_group: Callable[..., TimerQueue],
) -> None:
    timers = [(5, key, W(start, 9)) for key in ("a", "b", "cc") for start in (-3, 0, 3)]
    orders = set()
    for seed in range(5):
        queue, source = one_group(), random.Random(seed)
        for timer in source.sample(timers, len(timers)):
            queue.add(*timer)
        for timer in source.sample(timers, 4):
            queue.remove(*timer)
            queue.add(*timer)
        orders.add(tuple(drain(queue)))
    assert len(orders) == 1


class Element:
    """Something with a priority."""

    def __init__(self, name: str, priority: int) -> None:
        self.name, self.priority, self.heap_index = name, priority, 0


def test_ties_of_the_binary_heap_follow_its_array() -> None:
    # By hand: a, b, c, d, e of one priority stand in the array as they came; a poll moves the last one to the
    # root.
    queue: HeapPriorityQueue[Element] = HeapPriorityQueue()
    for name in "abcde":
        queue.add(Element(name, 1))
    assert [element.name for element in queue] == ["a", "b", "c", "d", "e"]
    polled_timers = []
    while (element := queue.poll()) is not None:
        polled_timers.append(element.name)
    assert polled_timers == ["a", "e", "d", "c", "b"]


def test_a_changed_priority_is_sifted_up_or_down() -> None:
    queue: HeapPriorityQueue[Element] = HeapPriorityQueue()
    elements = {name: Element(name, priority) for priority, name in enumerate("abcdefg")}
    for element in elements.values():
        queue.add(element)
    elements["f"].priority = -1
    queue.adjust(elements["f"])
    elements["a"].priority = 99
    queue.adjust(elements["a"])
    polled_timers = []
    while (head := queue.poll()) is not None:
        polled_timers.append(head.name)
    assert polled_timers == ["f", "b", "c", "d", "e", "g", "a"]


def test_the_legacy_snapshot_of_a_heap_holds_the_same_timers() -> None:
    queue = heap()
    for timer in random_timers(8):
        queue.add(*timer)
    for key_group in GROUPS:
        assert sorted(queue.legacy_snapshot(key_group)) == sorted(queue.snapshot(key_group))
