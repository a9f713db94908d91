"""Snapshots and rows that the codec refuses, and what it says of them."""

from __future__ import annotations

import operator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from slackwater.windowing import (
    TumblingEventTimeWindows,
)
from slackwater.windowing.key_types import INT
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, TimerSnapshot
from slackwater.windowing.snapshot import (
    JsonValues,
    KeyColumns,
    SnapshotCodec,
    SnapshotFormatError,
    SnapshotLayout,
    SnapshotTables,
    SnapshotTimeError,
    SnapshotTimerError,
    SnapshotValueError,
)
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import TimeWindow
from tests.windowing.snapshot.operators_and_rows import (
    GROUP_A,
    MINUTE,
    assert_comes_back,
    builder,
    entries_of,
    snapshot_of,
)

CONFIG = builder(TumblingEventTimeWindows.of(MINUTE)).reduce(operator.add)
CODEC = SnapshotCodec(SnapshotLayout.for_windows(CONFIG))


class OddWindow(NamedTuple):
    """A window of a user's own."""

    number: int

    def max_timestamp(self) -> int:
        return self.number


def with_entry(namespace: Any, value: Any) -> OperatorSnapshot:
    return OperatorSnapshot(
        (StateEntry("window-contents", "reducing", GROUP_A, "a", namespace, value),), (), 0
    )


def test_what_has_no_column_is_refused_with_whose_it_is() -> None:
    with pytest.raises(
        SnapshotValueError, match=r"hold time windows and the global window, got OddWindow\(number=3\)"
    ):
        CODEC.to_tables(with_entry(OddWindow(3), 1))
    with pytest.raises(
        SnapshotValueError, match=r"a builtins.complex.*key 'a', window TimeWindow\(start=0, end=5\)"
    ) as refusal:
        CODEC.to_tables(with_entry(TimeWindow(0, 5), 1j))
    assert refusal.value.state_name == "window-contents"
    with pytest.raises(SnapshotTimeError, match=f"window_end: {2**62} ms has no timestamp") as beyond:
        CODEC.to_tables(with_entry(TimeWindow(0, 2**62), 1))
    assert beyond.value.time == 2**62
    with pytest.raises(SnapshotTimeError, match=f"window_end: {2**70} ms has no timestamp"):
        CODEC.to_tables(with_entry(TimeWindow(0, 2**70), 1))


@pytest.mark.parametrize("time", [2**63 - 2, 2**63, -(2**63)])
def test_a_timer_beyond_all_timestamps_is_refused_with_who_registered_it(time: int) -> None:
    layout = replace(SnapshotLayout.for_process(INT), timer_owner="the function Silences")
    snapshot = OperatorSnapshot((), (TimerSnapshot("user-timers", 3, ((time, 7, None),), ()),), 0)
    text = rf"the function Silences has registered a timer of event time at {time} ms, .*key 7, window None"
    with pytest.raises(SnapshotTimerError, match=text) as error:
        SnapshotCodec(layout).to_tables(snapshot)
    assert (error.value.time, error.value.fault) == (time, "user")
    of_windows = OperatorSnapshot(
        (), (TimerSnapshot("window-timers", 3, (), ((time, "a", TimeWindow(0, 5)),)),), 0
    )
    with pytest.raises(SnapshotTimerError, match=f"the trigger EventTimeTrigger has .* processing .*{time}"):
        CODEC.to_tables(of_windows)


def test_rows_that_are_no_snapshot_are_refused() -> None:
    tables = CODEC.to_tables(snapshot_of(CONFIG, ("a", 1, 0)))
    with pytest.raises(SnapshotFormatError, match="window_state lacks the column contents"):
        CODEC.from_tables(tables._replace(window_state=tables.window_state.drop_columns(["contents"])))
    with pytest.raises(SnapshotFormatError, match="timers has columns of other types"):
        CODEC.from_tables(
            tables._replace(
                timers=tables.timers.set_column(0, "key_group", pa.array(["x"] * tables.timers.num_rows))
            )
        )


def test_more_columns_and_another_order_of_them_do_not_matter() -> None:
    snapshot = snapshot_of(CONFIG, ("a", 1, 0))
    tables = CODEC.to_tables(snapshot)
    reversed_tables = [
        table.select(table.column_names[::-1]).append_column("run_id", pa.array(["r"] * table.num_rows))
        for table in tables
    ]
    assert entries_of(CODEC.from_tables(SnapshotTables(*reversed_tables))) == entries_of(snapshot)


def test_a_column_that_would_stand_there_twice_is_refused() -> None:
    keys = KeyColumns.of([("contents", pa.string())])
    with pytest.raises(SnapshotValueError, match="window_state would have the column contents twice"):
        SnapshotCodec(replace(CODEC.layout, keys=keys))


def test_pickles_need_asking_for_on_both_sides() -> None:
    asking = SnapshotCodec(SnapshotLayout.for_windows(CONFIG, json=JsonValues(pickles=True)))
    tables = asking.to_tables(with_entry(TimeWindow(0, 5), 1j))
    assert entries_of(asking.from_tables(tables)) == entries_of(with_entry(TimeWindow(0, 5), 1j))
    with pytest.raises(Exception, match="A pickle is code"):
        CODEC.from_tables(tables)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("byte", -1),
        ("short", -1),
        ("int", 2**31 - 1),
        ("long", -(2**63)),
        ("string", "ключ"),
        ("bool", False),
        ("double", -0.5),
        ("date", datetime(2013, 1, 1, tzinfo=UTC).date()),
        ("tuple(string,long)", ("a", 1)),
        ("tuple(int)", (1,)),
    ],
)
def test_keys_of_every_type_have_columns(name: str, key: Any) -> None:
    config = builder(TumblingEventTimeWindows.of(MINUTE), name).reduce(operator.add)
    assert_comes_back(SnapshotCodec(SnapshotLayout.for_windows(config)), snapshot_of(config, (key, 1, 0)))
