"""What operators remember stands in the documented columns, readable, and comes back from them; rows here are
written by hand.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pyarrow as pa

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
)
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.key_groups import key_group_of
from slackwater.windowing.key_types import key_type
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.merging_windows import MERGING_WINDOW_SET
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, TimerSnapshot, take_snapshot
from slackwater.windowing.snapshot import (
    SnapshotCodec,
    SnapshotLayout,
    SnapshotTables,
)
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow
from tests.windowing.snapshot.operators_and_rows import (
    ALL,
    GROUP_A,
    MINUTE,
    Discarding,
    Elements,
    SumAndCount,
    SumAndCountColumns,
    assert_comes_back,
    at,
    builder,
    entries_of,
    rows_of,
    run_of,
    snapshot_of,
)


def test_a_window_with_its_life_is_one_row() -> None:
    config = builder(TumblingEventTimeWindows.of(MINUTE)).allowed_lateness(MINUTE).reduce(operator.add)
    snapshot = run_of(
        config,
        [("a", 2, 1_000, 5_000), ("a", 3, 2_000, 6_000), ("a", 4, 61_000, 61_500)],
        130_000,
        (120_000, 70_000),
    )
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    tables = codec.to_tables(snapshot)
    fired_row = {
        "key_group": GROUP_A,
        "key": "a",
        "window_start": at(0),
        "window_end": at(60_000),
        "elements": 2,
        "firings": 1,
        "last_fired_at": at(120_000),
        "cleanup_time": at(119_999),
        "first_arrival": at(5_000),
        "last_arrival": at(6_000),
        "contents": "5",
    }
    waiting = {
        "key_group": GROUP_A,
        "key": "a",
        "window_start": at(60_000),
        "window_end": at(120_000),
        "elements": 1,
        "firings": 0,
        "next_firing": at(119_999),
        "cleanup_time": at(179_999),
        "first_arrival": at(61_500),
        "last_arrival": at(61_500),
        "contents": "4",
    }
    assert rows_of(tables.window_state) == [fired_row, waiting]
    assert rows_of(tables.keyed_state) == []
    assert [
        (row["time"], row["purpose"], row["service"], row["domain"]) for row in rows_of(tables.timers)
    ] == [
        (at(119_999), "cleanup", "window-timers", "event"),
        (at(119_999), "fire", "window-timers", "event"),
        (at(179_999), "cleanup", "window-timers", "event"),
    ]
    assert_comes_back(codec, snapshot)


def test_a_purged_window_keeps_its_row() -> None:
    config = (
        builder(TumblingEventTimeWindows.of(MINUTE))
        .trigger(PurgingTrigger.of(CountTrigger.of(2)))
        .aggregate(SumAndCount())
    )
    snapshot = run_of(config, [("a", 2, 1_000, 5_000), ("a", 3, 2_000, 6_000)], 10_000)
    codec = SnapshotCodec(SnapshotLayout.for_windows(config, contents=SumAndCountColumns()))
    [row] = rows_of(codec.to_tables(snapshot).window_state)
    assert row["contents"] == "[]"
    assert row["elements"] == 2
    assert row["firings"] == 1
    assert "v__sum" not in row
    assert "next_firing" not in row, "no timer fires a CountTrigger"
    assert [entry.state_name for entry in snapshot.entries] == []
    assert_comes_back(codec, snapshot)


def test_elements_that_no_firing_has_held_are_not_forgotten() -> None:
    config = builder(TumblingEventTimeWindows.of(MINUTE)).trigger(CountTrigger.of(2)).reduce(operator.add)
    snapshot = run_of(config, [("a", value, 1_000, 5_000) for value in range(3)], 10_000)
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    [row] = rows_of(codec.to_tables(snapshot).window_state)
    assert row["trigger_state"] == '{"count":{"reducing":1},"elements-not-fired":{"elements":1}}'
    assert_comes_back(codec, snapshot)


def test_sessions_of_an_order_sensitive_function_keep_their_state_windows() -> None:
    config = builder(EventTimeSessionWindows.with_gap(MINUTE)).process(Elements())
    snapshot = snapshot_of(config, ("a", "x", 50_000), ("a", "y", 0), ("a", "z", 300_000))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    merged_row, lone = rows_of(codec.to_tables(snapshot).window_state)
    assert (merged_row["window_start"], merged_row["window_end"]) == (at(0), at(110_000))
    assert (merged_row["state_window_start"], merged_row["state_window_end"]) == (at(50_000), at(110_000))
    assert merged_row["contents"] == '["x","y"]'
    assert (lone["state_window_start"], lone["state_window_end"]) == (at(300_000), at(360_000))
    assert_comes_back(codec, snapshot)


def test_sessions_come_back_in_the_order_in_which_they_were_persisted() -> None:
    config = builder(EventTimeSessionWindows(gap_ms=10)).process(Elements())
    # Buckets 0, 11 and 0 of a HashMap of 16; windows of one bucket stay as they were inserted.
    elements = [("a", "x", 40), ("a", "y", 0), ("a", "z", 20)]
    persisted_windows = [TimeWindow(start, start + 10) for start in (40, 20, 0)]
    snapshot = snapshot_of(config, *elements, ("b", "x", 20), ("b", "y", 40))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    restored_snapshot = codec.from_tables(codec.to_tables(snapshot))
    for either_snapshot in (snapshot, restored_snapshot):
        sessions = {
            entry.key: entry.value
            for entry in either_snapshot.entries
            if entry.state_name == MERGING_WINDOW_SET.name
        }
        assert sessions["a"] == [(window, window) for window in persisted_windows]
        assert sessions["b"] == [(window, window) for window in (TimeWindow(20, 30), TimeWindow(40, 50))]


def test_sessions_of_a_commutative_aggregate_stand_under_their_own_bounds() -> None:
    config = builder(EventTimeSessionWindows.with_gap(MINUTE)).aggregate(SumAndCount())
    snapshot = snapshot_of(config, ("a", 1, 50_000), ("a", 2, 0))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config, contents=SumAndCountColumns()))
    tables = codec.to_tables(snapshot)
    [row] = rows_of(tables.window_state)
    assert (row["v__sum"], row["v__count"]) == (3, 2)
    assert "state_window_start" not in row
    window = TimeWindow(0, 110_000)
    restored_snapshot = codec.from_tables(tables)
    assert set(map(repr, restored_snapshot.entries)) == {
        repr(StateEntry("window-contents", "aggregating", GROUP_A, "a", window, (3, 2))),
        repr(StateEntry(MERGING_WINDOW_SET.name, "list", GROUP_A, "a", None, [(window, window)])),
    }
    assert list(codec.to_tables(restored_snapshot)) == list(tables)


def test_what_the_trigger_remembers_is_told_from_what_the_function_does() -> None:
    class Firings(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> None:
            context.window_state().get_state(ValueStateDescriptor("firings")).update((1, "one"))
            context.window_state().get_map_state(MapStateDescriptor("seen")).put("b", 1)
            context.window_state().get_map_state(MapStateDescriptor("seen")).put("a", None)
            context.global_state().get_list_state(ListStateDescriptor("all")).add("x")

    config = (
        builder(TumblingEventTimeWindows.of(MINUTE))
        .trigger(ContinuousEventTimeTrigger.of(timedelta(seconds=10)))
        .process(Firings())
    )
    snapshot = snapshot_of(config, ("a", "x", 0), 10_000)
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    tables = codec.to_tables(snapshot)
    [row] = rows_of(tables.window_state)
    assert row["trigger_state"] == '{"fire-time":{"reducing":20000}}'
    assert (
        row["user_state"] == '{"firings":{"value":{"$tuple":[1,"one"]}},"seen":{"map":[["a",null],["b",1]]}}'
    )
    assert rows_of(tables.keyed_state) == [
        {"key_group": GROUP_A, "key": "a", "state_name": "all", "value_json": '{"list":["x"]}'}
    ]
    assert {(row["time"], row["purpose"]) for row in rows_of(tables.timers)} == {
        (at(20_000), "trigger"),
        (at(59_999), "fire+cleanup"),
    }
    assert row["next_firing"] == at(20_000)
    assert_comes_back(codec, snapshot)


def test_state_of_a_window_that_is_gone_stands_under_its_name_and_bounds() -> None:
    class Leaking(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> None:
            context.window_state().get_state(ValueStateDescriptor("firings")).update(1)

    config = builder(TumblingEventTimeWindows.of(MINUTE)).process(Leaking())
    snapshot = run_of(config, [("a", "x", 0, 0)], 100_000, (90_000, 70_000))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    tables = codec.to_tables(snapshot)
    assert tables.window_state.num_rows == 0
    expected = {
        "key_group": GROUP_A,
        "key": "a",
        "state_name": "firings",
        "namespace_start": at(0),
        "namespace_end": at(60_000),
    }
    assert rows_of(tables.keyed_state) == [{**expected, "value_json": '{"value":1}'}]
    assert entries_of(codec.from_tables(tables)) == entries_of(snapshot)


def test_evicted_windows_hold_elements_with_their_timestamps() -> None:
    config = (
        builder(GlobalWindows.create())
        .trigger(CountTrigger.of(2))
        .evictor(CountEvictor.of(3))
        .process(Elements())
    )
    snapshot = snapshot_of(config, ("a", 1, 5), ("a", 2, None), ("a", 3, 7))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    [row] = rows_of(codec.to_tables(snapshot).window_state)
    assert row == {
        "key_group": GROUP_A,
        "key": "a",
        "contents": '[{"$timestamped":[1,5]},{"$timestamped":[2,null]},{"$timestamped":[3,7]}]',
        "trigger_state": '{"count":{"reducing":1}}',
    }
    assert_comes_back(codec, snapshot)


def test_a_timer_for_the_end_of_the_stream_has_no_time() -> None:
    config = builder(GlobalWindows.create()).trigger(EndOfStreamTrigger()).reduce(operator.add)
    snapshot = snapshot_of(config, ("a", 1, 5))
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    tables = codec.to_tables(snapshot)
    [timer] = rows_of(tables.timers)
    assert timer == {
        "key_group": GROUP_A,
        "key": "a",
        "service": "window-timers",
        "domain": "event",
        "purpose": "trigger",
    }
    assert codec.from_tables(tables).timers == (
        TimerSnapshot("window-timers", GROUP_A, ((LONG_MAX, "a", GLOBAL_WINDOW),), ()),
    )


def test_a_window_of_processing_time_is_collected_at_its_last_instant() -> None:
    config = builder(TumblingProcessingTimeWindows.of(MINUTE)).reduce(operator.add)
    snapshot = snapshot_of(config, ("a", 1, 5))
    tables = SnapshotCodec(SnapshotLayout.for_windows(config)).to_tables(snapshot)
    [timer], [row] = rows_of(tables.timers), rows_of(tables.window_state)
    assert (timer["domain"], timer["time"], timer["purpose"]) == ("processing", at(59_999), "fire+cleanup")
    assert (row["next_firing"], row["cleanup_time"]) == (at(59_999), at(59_999))


DECLARED_STATES = (
    ValueStateDescriptor("last", sql_type="timestamp"),
    ListStateDescriptor("delays", sql_type="int"),
    MapStateDescriptor("seats", sql_type="double", key_sql_type="string"),
    ReducingStateDescriptor("total", operator.add, sql_type="decimal(10,2)"),
    ValueStateDescriptor("note"),
)


class Everything(KeyedProcessFunction):
    def process_element(self, value: Any, context: Any) -> None:
        self.runtime.get_state(DECLARED_STATES[0]).update(at(value))
        self.runtime.get_list_state(DECLARED_STATES[1]).update([1, None])
        self.runtime.get_map_state(DECLARED_STATES[2]).put("b", 0.5)
        self.runtime.get_map_state(DECLARED_STATES[2]).put("a", None)
        self.runtime.get_state(DECLARED_STATES[4]).update({"n": (1,)})
        self.runtime.get_map_state(MapStateDescriptor("undeclared")).put(7, "seven")
        context.timer_service.register_event_time_timer(50)
        context.timer_service.register_processing_time_timer(60)

    def open(self, runtime_context: Any) -> None:
        self.runtime = runtime_context


def process_snapshot() -> OperatorSnapshot:
    process = KeyedProcessOperator(
        Everything(), key_type("tuple(string,long)"), Discarding(), HarnessProcessingTimeService()
    )
    process.open()
    process.process_element(("a", 7), 1_000, 0)
    return take_snapshot(process, ALL)


def test_state_of_a_process_function_has_a_column_of_its_type_or_is_json() -> None:
    keys = key_type("tuple(string,long)")
    codec = SnapshotCodec(SnapshotLayout.for_process(keys, states=DECLARED_STATES))
    snapshot = process_snapshot()
    tables = codec.to_tables(snapshot)
    whose = {"key_group": key_group_of(("a", 7), keys, 128), "f0": "a", "f1": 7}
    assert rows_of(tables.keyed_state) == [
        {**whose, "state_name": "delays", "delays__value": [1, None]},
        {**whose, "state_name": "last", "last__value": at(1_000)},
        {**whose, "state_name": "note", "value_json": '{"value":{"n":{"$tuple":[1]}}}'},
        {**whose, "state_name": "seats", "map_key": '"b"', "seats__value": 0.5},
        {**whose, "state_name": "seats", "map_key": '"a"'},
        {**whose, "state_name": "undeclared", "map_key": "7", "value_json": '{"map":"seven"}'},
    ]
    assert rows_of(tables.timers) == [
        {**whose, "service": "user-timers", "domain": "event", "time": at(50), "purpose": "user"},
        {**whose, "service": "user-timers", "domain": "processing", "time": at(60), "purpose": "user"},
    ]
    assert tables.window_state.num_rows == 0
    assert [entry for entry in codec.from_tables(tables).entries if entry.state_name == "seats"] == [
        StateEntry("seats", "map", whose["key_group"], ("a", 7), None, {"b": 0.5, "a": None})
    ]
    assert_comes_back(codec, snapshot)


def test_contents_that_flink_loses_are_kept_all_the_same() -> None:
    """An element whose own window equals a merged session takes its place; what the session held stays
    behind.
    """
    config = builder(EventTimeSessionWindows.with_gap(MINUTE)).aggregate(SumAndCount())
    window = TimeWindow(0, 110_000)
    entries = (
        StateEntry("window-contents", "aggregating", GROUP_A, "a", TimeWindow(50_000, 110_000), (3, 2)),
        StateEntry("window-contents", "aggregating", GROUP_A, "a", window, (9, 1)),
        StateEntry(MERGING_WINDOW_SET.name, "list", GROUP_A, "a", None, [(window, window)]),
    )
    snapshot = OperatorSnapshot(entries, (), 0)
    for contents, text in (
        (None, '{"aggregating":{"$tuple":[3,2]}}'),
        (SumAndCountColumns(), '{"parts":[3,2]}'),
    ):
        codec = SnapshotCodec(SnapshotLayout.for_windows(config, contents=contents))
        [lost_row] = rows_of(codec.to_tables(snapshot).keyed_state)
        assert (lost_row["state_name"], lost_row["namespace_start"], lost_row["value_json"]) == (
            "window-contents",
            at(50_000),
            text,
        )
        assert entries_of(codec.from_tables(codec.to_tables(snapshot))) == entries_of(snapshot)


def test_rows_of_several_operators_are_one_snapshot() -> None:
    config = builder(TumblingEventTimeWindows.of(MINUTE)).reduce(operator.add)
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    both = snapshot_of(config, ("a", 1, 0), ("b", 2, 0))
    tables_of_operators = [
        codec.to_tables(snapshot_of(config, (key, value, 0))) for key, value in (("b", 2), ("a", 1))
    ]
    together = SnapshotTables(*map(pa.concat_tables, zip(*tables_of_operators, strict=True)))
    assert entries_of(codec.from_tables(together)) == entries_of(both)
    assert sorted(codec.from_tables(together).timers, key=repr) == sorted(both.timers, key=repr)


def test_timers_in_a_heaps_order_keep_it() -> None:
    config = builder(TumblingEventTimeWindows.of(MINUTE)).reduce(operator.add)
    window = TimeWindow(0, 60_000)
    timers = (TimerSnapshot("window-timers", 3, ((7, "z", window), (5, "b", window), (7, "a", window)), ()),)
    snapshot = OperatorSnapshot((), timers, 0)
    codec_in_heap_order = SnapshotCodec(SnapshotLayout.for_windows(config, order_mode=OrderMode.HEAP))
    assert codec_in_heap_order.from_tables(codec_in_heap_order.to_tables(snapshot)).timers == timers
    sorted_rows = SnapshotCodec(SnapshotLayout.for_windows(config))
    assert [row["key"] for row in rows_of(sorted_rows.to_tables(snapshot).timers)] == ["a", "b", "z"]
