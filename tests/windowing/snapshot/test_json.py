"""State that has no typed column is JSON: the text is canonical, and what is read back is what was written,
types included.
"""

from __future__ import annotations

import json
import math
import pickle
from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.snapshot import (
    JsonValues,
    PickleRefusedError,
    SnapshotFormatError,
    SnapshotValueError,
)
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow


class Flight(NamedTuple):
    origin: str
    delay: float | None


class Opaque:
    """A class of a user's own."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.inner == self.inner

    __hash__ = None  # type: ignore[assignment]  # values of state need not be hashable


JSON = JsonValues(records=[Flight])
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30)), ZoneInfo("Europe/Paris")])
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.text(st.characters(), max_size=4),
    st.sampled_from(["\ud800", "\udc00\ud800x", "\ud83d\ude00", "😀", "$tuple"]),
    st.binary(max_size=4),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(timezones=ZONES),
    st.datetimes(timezones=ZONES).map(lambda moment: moment.replace(fold=1)),
    st.datetimes(timezones=ZONES, allow_imaginary=False),
    st.timedeltas(),
    st.builds(TimeWindow, st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    st.just(GLOBAL_WINDOW),
)
HASHABLE = st.recursive(
    ATOMS.filter(lambda value: value == value),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.just("$date"), inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
        st.builds(TimestampedValue, inner, st.none() | st.integers()),
        st.builds(Flight, st.text(max_size=3), st.none() | st.floats()),
    ),
    max_leaves=12,
)


def alike(a: Any, b: Any) -> bool:
    """Equal in type and value, the order of dicts included; NaN is itself, and -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return alike(list(a.items()), list(b.items()))
    if isinstance(a, datetime):
        return a == b and a.utcoffset() == b.utcoffset() and a.fold == b.fold
    return bool(a == b)


@settings(max_examples=400)
@given(VALUES)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    text = JSON.dumps(value)
    text.encode()
    assert alike(JSON.loads(text), value)
    assert JSON.dumps(JSON.loads(text)) == text
    json.loads(text, parse_constant=pytest.fail)  # plain JSON, which has no NaN


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-7, "-7"),
        (2**64, "18446744073709551616"),
        (1 << 20_000, '{"$int":"0x1' + "0" * 5000 + '"}'),
        (1.0, "1.0"),
        (1e22, "1e+22"),
        (-0.0, "-0.0"),
        (math.nan, '{"$float":"nan"}'),
        (-math.inf, '{"$float":"-inf"}'),
        ([1, math.inf], '[1,{"$float":"inf"}]'),
        ("ключ", '"ключ"'),
        ("\ud800", '{"$text":"7aCA"}'),
        (b"\0\xff", '{"$bytes":"AP8="}'),
        ([1, [2]], "[1,[2]]"),
        ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
        ({"b": 1, "a": (2,)}, '{"b":1,"a":{"$tuple":[2]}}'),
        ({1: "x", (2,): "y"}, '{"$dict":[[1,"x"],[{"$tuple":[2]},"y"]]}'),
        ({"$date": 1}, '{"$dict":[["$date",1]]}'),
        ({3, 1, 2}, '{"$set":[1,2,3]}'),
        (frozenset({"b", "a"}), '{"$frozenset":["a","b"]}'),
        (Decimal("1.50"), '{"$decimal":"1.50"}'),
        (date(2013, 1, 1), '{"$date":"2013-01-01"}'),
        (time(1, 2, 3), '{"$time":"01:02:03"}'),
        (datetime(2013, 1, 1, tzinfo=UTC), '{"$datetime":"2013-01-01T00:00:00+00:00"}'),
        (
            datetime(2013, 1, 1, tzinfo=ZoneInfo("Europe/Paris")),
            '{"$datetime":["2013-01-01T00:00:00","Europe/Paris",0]}',
        ),
        (timedelta(seconds=-1), '{"$timedelta":-1000000}'),
        (TimeWindow(0, 10), '{"$window":[0,10]}'),
        (GLOBAL_WINDOW, '{"$window":"global"}'),
        (TimestampedValue({"n": 1}, None), '{"$timestamped":[{"n":1},null]}'),
        (Flight("EWR", 1.5), '{"$record":["Flight",{"origin":"EWR","delay":1.5}]}'),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) and value.startswith('{"$') else "",
)
def test_each_type_has_its_documented_text(value: Any, text: str) -> None:
    assert JSON.dumps(value) == text
    assert alike(JSON.loads(text), value)


class Nowhere(tzinfo):
    """A time zone without a name."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)


@pytest.mark.parametrize(
    "value",
    [
        Opaque(1),
        [{"a": Opaque(1)}],
        complex(1),
        datetime(2013, 1, 1, tzinfo=Nowhere()),
        type("Late", (str,), {})("x"),
    ],
)
def test_a_value_without_a_form_is_refused_unless_pickles_are_asked_for(value: Any) -> None:
    with pytest.raises(SnapshotValueError, match="ask for pickles"):
        JSON.dumps(value)


def test_a_pickle_is_read_only_by_those_who_ask_for_it() -> None:
    with_pickles = JsonValues(pickles=True)
    text = with_pickles.dumps([1, Opaque({"a": (1, 2)})])
    assert text.startswith('[1,{"$pickle":"')
    assert with_pickles.loads(text) == [1, Opaque({"a": (1, 2)})]
    with pytest.raises(PickleRefusedError, match="A pickle is code"):
        JSON.loads(text)


def test_a_pickle_says_nothing_of_which_parts_are_one_object() -> None:
    with_pickles, part = JsonValues(pickles=True), [1, 2]
    assert pickle.dumps([part, part]) != pickle.dumps([part, [1, 2]])
    assert with_pickles.dumps(Opaque([part, part])) == with_pickles.dumps(Opaque([part, [1, 2]]))


def test_an_object_that_contains_itself_can_be_pickled() -> None:
    with_pickles, ring = JsonValues(pickles=True), Opaque(None)
    ring.inner = ring
    read = with_pickles.loads(with_pickles.dumps(ring))
    assert read.inner is read


def test_a_named_tuple_must_be_declared() -> None:
    with pytest.raises(SnapshotValueError, match="Flight, which has no JSON form"):
        JsonValues().dumps(Flight("EWR", 1.0))
    with pytest.raises(
        SnapshotFormatError, match="State holds a Flight, but only no named tuple is declared"
    ):
        JsonValues().loads(JSON.dumps(Flight("EWR", 1.0)))


@pytest.mark.parametrize("text", ["{", "[1,]", "", '{"$moon":1}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SnapshotFormatError):
        JSON.loads(text)


def test_a_record_may_have_gained_fields_with_defaults_and_nothing_else() -> None:
    old, longer = namedtuple("Element", ["x"]), namedtuple("Element", ["x", "y"], defaults=(None,))
    text = JsonValues([old]).dumps([old(3)])
    assert JsonValues([longer]).loads(text) == [longer(3, None)]
    for other in (namedtuple("Element", ["x", "y"]), namedtuple("Element", ["y"], defaults=(None,))):
        with pytest.raises(
            SnapshotFormatError, match="State holds a Element of x, but the declared one is of"
        ):
            JsonValues([other]).loads(text)
