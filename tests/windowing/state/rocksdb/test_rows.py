"""Keys of rows: Flink's own bytes of keys are read back, rows say what they were made of, and their order is
that of the timers.
"""

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.conformance.trace import key_from_json
from slackwater.windowing.errors import KeyTypeError, StateSerializationError
from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    KeyType,
    TupleKey,
    key_type,
)
from slackwater.windowing.state.rocksdb.rows import (
    RowLayout,
    end_of,
    key_group_start,
    key_reader,
    timer_timestamp,
)
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow

KEY_GROUPS = Path(__file__).parents[3] / "conformance" / "traces" / "key_groups.jsonl.gz"

longs = st.integers(LONG_MIN, LONG_MAX)
text = st.text(st.characters(exclude_categories=["Cs"]))
# Java's strings and Python's differ in lone surrogates: two of them side by side are one character in Java's
# bytes.
KEYS: list[tuple[KeyType, st.SearchStrategy[Any]]] = [
    (BYTE, st.integers(-128, 127)),
    (SHORT, st.integers(-(2**15), 2**15 - 1)),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (LONG, longs),
    (STRING, text),
    (BOOLEAN, st.booleans()),
    (DOUBLE, st.floats(allow_nan=False)),
    (DATE, st.dates()),
    (TupleKey((STRING, LONG)), st.tuples(text, longs)),
    (
        TupleKey((TupleKey((BOOLEAN, DATE)), STRING, INT)),
        st.tuples(st.tuples(st.booleans(), st.dates()), text, st.integers(0, 9)),
    ),
]
IDS = [kind.name for kind, _ in KEYS]


class NamedWindow(NamedTuple):
    """A window of the user's."""

    name: str
    rank: int

    def serialize(self) -> bytes:
        return self.name.encode()


class PickledWindow:
    """A window of the user's that only pickle knows."""

    def __init__(self, name: str) -> None:
        self.name = name

    def serialize(self) -> bytes:
        return self.name.encode()

    def __eq__(self, other: object) -> bool:
        return type(other) is PickledWindow and self.name == other.name


time_windows = st.builds(TimeWindow, longs, longs)
namespaces = st.one_of(
    st.none(), time_windows, st.just(GLOBAL_WINDOW), st.builds(NamedWindow, text, st.integers(0, 5))
)


def layout(kind: KeyType, pickles: bool = False) -> RowLayout:
    return RowLayout(
        kind, KeyGroupIndex(kind, KeyGroupRange(0, 127), 128).__getitem__, PlainSerializer("windows", pickles)
    )


def recorded_keys() -> list[tuple[str, Any, str]]:
    """(key type, key, the bytes that Flink's serializer wrote) of the recorded cases."""
    keys = []
    with gzip.open(KEY_GROUPS, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            for step, answer in zip(case["steps"], case["expected"], strict=True):
                if "key" in step:
                    keys.append(
                        (case["config"]["key_type"], key_from_json(step["key"]), answer["serialized"])
                    )
    return keys


def test_the_bytes_that_flink_wrote_are_read_back_as_the_key() -> None:
    keys = recorded_keys()
    assert len({name for name, _, _ in keys}) > 6
    for name, key, written in keys:
        data = bytes.fromhex(written)
        assert key_reader(key_type(name))(b"__" + data + b"\x00rest", 2) == (key, 2 + len(data))


@pytest.mark.parametrize(("kind", "keys"), KEYS, ids=IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_rows_of_state_say_what_they_were_made_of(
    kind: KeyType, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows, key, namespace = layout(kind), data.draw(keys), data.draw(namespaces)
    row = rows.state_row(key, namespace)
    read = rows.read_state_row(row + b"a map key")
    assert (read.key, read.namespace, read.namespace_end) == (key, namespace, len(row))
    assert type(read.namespace) is type(namespace)


@pytest.mark.parametrize(("kind", "keys"), KEYS, ids=IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_no_row_of_state_is_the_beginning_of_another(
    kind: KeyType, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = layout(kind)
    a, b = (rows.state_row(data.draw(keys), data.draw(namespaces)) for _ in range(2))
    assert a == b or not (a.startswith(b) or b.startswith(a))


@pytest.mark.parametrize(("kind", "keys"), KEYS, ids=IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_rows_of_timers_say_what_they_were_made_of(
    kind: KeyType, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows, timer = layout(kind), (data.draw(longs), data.draw(keys), data.draw(namespaces))
    row = rows.timer_row(*timer)
    assert rows.read_timer_row(row) == timer
    assert type(rows.read_timer_row(row)[2]) is type(timer[2])
    assert timer_timestamp(row) == timer[0]


@pytest.mark.parametrize(("kind", "keys"), KEYS, ids=IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_timers_are_ordered_by_key_group_then_time_then_serialized_key_and_window(
    kind: KeyType, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows, index = layout(kind), KeyGroupIndex(kind, KeyGroupRange(0, 127), 128)
    drawn = data.draw(st.lists(st.tuples(st.integers(-2, 2), keys, time_windows), unique=True))

    def flinks_order(timer: tuple[int, Any, TimeWindow]) -> tuple[int, int, bytes]:
        timestamp, key, window = timer
        return index[key], timestamp, kind.serialize(key) + window.serialize()

    assert sorted(drawn, key=lambda timer: rows.timer_row(*timer)) == sorted(drawn, key=flinks_order)


def test_the_layout_of_rows_is_the_documented_one() -> None:
    rows = layout(INT)
    key_group = 86  # of the integer 1 among 128, as Flink has it
    assert rows.state_row(1, TimeWindow(-1, 2)).hex(" ", 1).replace(" ", "") == (
        f"{key_group:04x}0000000101ffffffffffffffff0000000000000002"
    )
    assert rows.state_row(1, None).hex() == "00560000000100"
    assert rows.state_row(1, GLOBAL_WINDOW).hex() == "00560000000102"
    assert (
        rows.timer_row(-2, 1, TimeWindow(3, 4)).hex()
        == "00567ffffffffffffffe0000000100000000000000030000000000000004"
    )
    assert rows.timer_row(5, 1, None).hex() == "0056800000000000000500000001"
    assert rows.timer_row(5, 1, GLOBAL_WINDOW).hex() == "005680000000000000050000000100"


def test_a_key_groups_rows_lie_between_its_start_and_the_next_ones() -> None:
    rows = layout(STRING)
    for row in (
        rows.state_row("a", None),
        rows.timer_row(LONG_MAX, "a", GLOBAL_WINDOW),
        rows.timer_row(LONG_MIN, "a", None),
    ):
        assert key_group_start(81) < row < key_group_start(82)


@pytest.mark.parametrize(
    "write",
    [lambda rows, window: rows.state_row("a", window), lambda rows, window: rows.timer_row(1, "a", window)],
)
def test_windows_of_the_users_need_pickles_unless_they_are_named_tuples(
    write: Callable[[RowLayout, Any], bytes],
) -> None:
    with pytest.raises(StateSerializationError, match=r"'windows'.*PickledWindow"):
        write(layout(STRING), PickledWindow("x"))
    assert write(layout(STRING, pickles=True), PickledWindow("x"))


@pytest.mark.parametrize("name", ["", "x", "y" * 16, "z" * 300])
def test_pickled_windows_come_back_whatever_their_length(name: str) -> None:
    rows = layout(STRING, pickles=True)
    assert rows.read_timer_row(rows.timer_row(1, "a", PickledWindow(name))) == (1, "a", PickledWindow(name))
    assert rows.read_state_row(rows.state_row("a", PickledWindow(name)))[:2] == ("a", PickledWindow(name))


@given(st.binary(min_size=1).filter(lambda prefix: prefix.strip(b"\xff")), st.binary())
def test_the_end_of_a_prefix_is_above_all_that_begins_with_it_and_not_above_more(
    prefix: bytes, suffix: bytes
) -> None:
    assert prefix + suffix < end_of(prefix)
    assert end_of(prefix) <= suffix or suffix.startswith(prefix) or suffix < prefix


def test_a_key_type_of_somebody_else_is_refused() -> None:
    class Odd(KeyType):
        name = "odd"

    with pytest.raises(KeyTypeError, match="'odd' cannot be read back"):
        key_reader(Odd())


def test_dates_outside_the_epoch_come_back() -> None:
    rows = layout(DATE)
    for day in (date.min, date.max, date(1969, 12, 31)):
        assert rows.read_state_row(rows.state_row(day, None)).key == day
