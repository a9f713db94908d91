"""A long list is parked in pieces, which follow from the list alone; they come back as the list that it was,
in whichever order their rows are read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slackwater.windowing import ListStateDescriptor, ProcessWindowFunction, TumblingEventTimeWindows
from slackwater.windowing.key_groups import key_group_of
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.snapshot import (
    PieceOrder,
    SnapshotCodec,
    SnapshotFormatError,
    SnapshotLayout,
    SnapshotTables,
)
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import TimeWindow
from tests.windowing.snapshot.operators_and_rows import MINUTE, builder

CONFIG = builder(TumblingEventTimeWindows.of(MINUTE)).process(ProcessWindowFunction())
CONTENTS = CONFIG.contents.name
WINDOW = TimeWindow(0, 60_000)
TYPED = ListStateDescriptor("typed", sql_type="long")


def entry(name: str, key: str, namespace: TimeWindow | None, values: Sequence[Any]) -> StateEntry:
    return StateEntry(name, "list", key_group_of(key, STRING, 128), key, namespace, values)


def snapshot_of(*entries: StateEntry) -> OperatorSnapshot:
    windows = tuple(
        OpenWindow(item.key_group, item.key, item.namespace, WindowLife(elements=len(item.value)))
        for item in entries
        if item.state_name == CONTENTS
    )
    return OperatorSnapshot(entries, (), 0, windows)


def codec() -> SnapshotCodec:
    return SnapshotCodec(SnapshotLayout.for_windows(CONFIG, states=[TYPED]))


def lists_of(snapshots: Sequence[OperatorSnapshot]) -> dict[Any, list[Any]]:
    lists: dict[Any, list[Any]] = {}
    for snapshot in snapshots:
        for item in snapshot.entries:
            lists.setdefault((item.state_name, item.key, item.namespace), []).extend(item.value)
    return lists


class Lazy(Sequence[Any]):
    """A list that can only be gone through."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("the list is not read element by element")


NUMBERS = list(range(400_000))
TEXTS = [f"{number:0300}" for number in range(9_000)]
LISTS = (
    entry(CONTENTS, "a", WINDOW, NUMBERS),
    entry(CONTENTS, "b", WINDOW, [1, 2, 3]),
    entry("seen", "a", WINDOW, TEXTS),
    entry("seen", "a", None, TEXTS[:5000]),
    entry("typed", "a", None, NUMBERS[:200_000]),
)


def test_pieces_are_a_megabyte_of_text_each_and_nothing_is_lost() -> None:
    tables = codec().to_tables(snapshot_of(*LISTS))
    pieces = tables.keyed_state.filter(pc.is_valid(tables.keyed_state["map_key"]))
    texts = [len(text) for text in pieces["value_json"].to_pylist() if text is not None]
    assert 0.4e6 < max(texts) < 2e6 and len(texts) > 5
    assert {row["key"] for row in tables.window_state.to_pylist() if row["contents"]} == {"b"}
    restored = lists_of([codec().from_tables(tables)])
    assert restored == {(item.state_name, item.key, item.namespace): list(item.value) for item in LISTS}


def test_a_list_that_is_kept_elsewhere_gives_the_same_rows() -> None:
    lazy = [item._replace(value=Lazy(list(item.value))) for item in LISTS if len(item.value) > 1024]
    short = [item for item in LISTS if len(item.value) <= 1024]
    assert codec().to_tables(snapshot_of(*short, *lazy)).keyed_state.sort_by(ORDER) == codec().to_tables(
        snapshot_of(*LISTS)
    ).keyed_state.sort_by(ORDER)


ORDER = [(name, "ascending") for name in ("state_name", "namespace_start", "key", "map_key")]


def test_rows_in_any_order_and_in_any_parts_are_the_same_lists() -> None:
    rows = codec().to_tables(snapshot_of(*LISTS)).keyed_state
    order = list(range(rows.num_rows))
    random.Random(7).shuffle(order)
    shuffled, pieces = rows.take(pa.array(order)), PieceOrder()
    snapshots = [
        codec().from_tables(codec().no_rows()._replace(keyed_state=shuffled.slice(at, 1)), pieces=pieces)
        for at in range(shuffled.num_rows)
    ]
    pieces.require_complete()
    assert lists_of(snapshots) == {
        (item.state_name, item.key, item.namespace): list(item.value) for item in LISTS[:1] + LISTS[2:]
    }


def test_a_missing_piece_is_noticed() -> None:
    tables = codec().to_tables(snapshot_of(*LISTS))
    kept = [row["map_key"] != "0" for row in tables.keyed_state.to_pylist()]
    tables = tables._replace(keyed_state=tables.keyed_state.filter(pa.array(kept)))
    with pytest.raises(SnapshotFormatError, match="lacks piece 0 of its list, but has piece 1"):
        codec().from_tables(tables)


def test_a_list_of_at_most_1024_elements_is_one_value() -> None:
    short = snapshot_of(*(item._replace(value=list(item.value)[:1024]) for item in LISTS))
    tables = SnapshotTables(*codec().to_tables(short))
    assert tables.keyed_state["map_key"].null_count == tables.keyed_state.num_rows == 2
    assert all(row["contents"] for row in tables.window_state.to_pylist())
