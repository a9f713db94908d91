"""Bytes of values: what goes in comes out with its type, the layout is the documented one, and what has no
bytes is refused by name.
"""

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.errors import StateSerializationError
from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.state.rocksdb.serializers import (
    PlainSerializer,
    ordered_long,
    read_ordered_long,
)
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow

longs = st.integers(LONG_MIN, LONG_MAX)
zones = st.one_of(
    st.none(),
    st.just(UTC),
    st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds))),
    st.sampled_from(["Europe/Berlin", "America/New_York"]).map(ZoneInfo),
)
times = st.datetimes(allow_imaginary=True, timezones=zones).flatmap(
    lambda moment: st.sampled_from([moment, moment.replace(fold=1 - moment.fold)])
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),  # lone surrogates among them
    st.binary(),
    st.dates(),
    times,
    st.decimals(allow_nan=False),
    st.builds(TimeWindow, longs, longs),
    st.just(GLOBAL_WINDOW),
)
keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.dates(),
    st.decimals(allow_nan=False),
)
plain_values = st.recursive(
    atoms,
    lambda values: st.one_of(
        st.lists(values),
        st.lists(values).map(tuple),
        st.dictionaries(keys, values),
        st.builds(TimestampedValue, values, st.none() | longs),
    ),
    max_leaves=20,
)


class Point(NamedTuple):
    x: Any
    y: Any


class Opaque:
    """No plain value, and picklable."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return type(other) is Opaque and self.content == other.content


def exact_form(value: Any) -> Any:
    """What equality does not see: types all the way down, the sign of zero, the order of dictionaries, fold
    and zone.
    """
    match value:
        case float():
            return float, math.copysign(1, value), value
        case datetime():
            zone = value.tzinfo
            return (
                datetime,
                value.replace(tzinfo=None),
                value.fold,
                type(zone),
                None if zone is None else str(zone),
            )
        case dict():
            return dict, [(exact_form(key), exact_form(item)) for key, item in value.items()]
        case list() | tuple():
            return type(value), [exact_form(item) for item in value]
    return type(value), value


@settings(max_examples=60)
@given(st.lists(plain_values, max_size=4))
def test_plain_values_come_back_with_their_types_one_after_the_other(values: list[Any]) -> None:
    serializer = PlainSerializer("s")
    written = [serializer.dumps(value) for value in values]
    assert [exact_form(serializer.loads(data)) for data in written] == [exact_form(value) for value in values]
    assert exact_form(serializer.read_all(b"".join(written))) == exact_form(values)


@pytest.mark.parametrize("length", [0, 1, 254, 255, 256, 70_000])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: "a" * n,
        lambda n: b"a" * n,
        lambda n: [None] * n,
        lambda n: (None,) * n,
        dict.fromkeys,
        lambda n: 1 << 8 * n,
    ],
)
def test_lengths_beyond_one_byte_are_kept(make: Callable[[int], Any], length: int) -> None:
    value = make(range(length)) if make == dict.fromkeys else make(length)
    serializer = PlainSerializer("s")
    assert serializer.read(serializer.dumps(value) + b"rest") == (value, len(serializer.dumps(value)))


def test_not_a_number_comes_back() -> None:
    serializer = PlainSerializer("s")
    assert math.isnan(serializer.loads(serializer.dumps(math.nan)))
    assert serializer.loads(serializer.dumps(Decimal("sNaN"))).is_snan()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "00"),
        (False, "01"),
        (True, "02"),
        (0, "0301 00"),
        (-1, "0301 ff"),
        (127, "0301 7f"),
        (128, "0302 0080"),
        (-32768, "0303 ff8000"),
        (1.0, "05 3ff0000000000000"),
        ("é", "0602 c3a9"),
        (b"\x00\xff", "0702 00ff"),
        ((1, None), "0802 030101 00"),
        ([], "0900"),
        ({"a": True}, "0a01 060161 02"),
        (date(1970, 1, 1), "0b 000af93b"),
        (datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC), "0c 00000000000f4240 00 0301 00"),
        (Decimal("1.50"), "0d 0604 312e3530"),
        (TimeWindow(-1, 2), "0e ffffffffffffffff 0000000000000002"),
        (GLOBAL_WINDOW, "0f"),
        (Point(1, None), "10 0000 0802 030101 00"),
    ],
)
def test_the_layout_is_the_documented_one(value: Any, written: str) -> None:
    assert PlainSerializer("s").dumps(value) == bytes.fromhex(written)


def test_each_type_of_named_tuple_has_a_number_of_its_own() -> None:
    serializer = PlainSerializer("s")
    values = [Point(1, 2), TimestampedValue("a", None), Point(TimestampedValue(1, 5), [Point(0, 0)])]
    read = serializer.read_all(b"".join(map(serializer.dumps, values)))
    assert exact_form(read) == exact_form(values)


class Shouting(tzinfo):
    """A zone that only pickle knows."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (Opaque(1), "Opaque"),
        ([1, {"a": (Opaque(1),)}], "Opaque"),
        (Fraction(1, 3), "Fraction"),
        ({1, 2}, "set"),
        (bytearray(b"a"), "bytearray"),
        (datetime(2020, 1, 1, tzinfo=Shouting()), "datetime"),
        (type("Text", (str,), {})("a"), "Text"),
        (type("Number", (int,), {})(1), "Number"),
    ],
)
def test_what_has_no_bytes_is_refused_with_the_state_and_the_type(value: Any, type_name: str) -> None:
    with pytest.raises(
        StateSerializationError, match=rf"State 'totals' was given a [\w.]*{type_name},"
    ) as caught:
        PlainSerializer("totals").dumps(value)
    assert (caught.value.state_name, caught.value.type_name, caught.value.fault) == (
        "totals",
        type_name,
        "user",
    )


def test_pickles_are_written_only_when_asked_for() -> None:
    serializer = PlainSerializer("s", pickles=True)
    values = [Opaque(1), [1, {"a": (Opaque([2]),)}], {1, 2}, 5]
    assert serializer.read_all(b"".join(map(serializer.dumps, values))) == values


@given(longs, longs)
def test_ordered_longs_are_in_the_order_of_the_numbers(a: int, b: int) -> None:
    assert (ordered_long(a) < ordered_long(b)) is (a < b)
    assert read_ordered_long(b"prefix" + ordered_long(a), 6) == a


def test_an_ordered_long_is_big_endian_with_the_sign_bit_flipped() -> None:
    assert ordered_long(0).hex() == "8000000000000000"
    assert ordered_long(LONG_MIN).hex() == "0000000000000000"
    assert ordered_long(-1) == struct.pack(">Q", 2**63 - 1)
