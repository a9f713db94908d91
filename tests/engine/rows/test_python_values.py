"""Columns become Python values and columns again without loss; only what is equal becomes the same."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.rows.python_values import ValueBeyondPython, to_arrow, to_python, to_user_values

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False).map(lambda x: x + 0.0),
    pa.decimal128(38, 2): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2))
    ),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=4),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=2),
}


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
@given(st.data())
def test_a_column_survives(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.chunked_array(
        [pa.array(data.draw(st.lists(st.none() | COLUMNS[kind], max_size=5)), kind), pa.array([], kind)]
    )
    assert pa.chunked_array([to_arrow(to_python(column), kind)]).equals(column)


def test_times_and_dates_travel_as_the_integers_that_they_are_stored_as() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert to_python(pa.chunked_array([pa.array([moment, None], pa.timestamp("us", tz="UTC"))])) == [-1, None]
    assert to_python(
        pa.chunked_array([pa.array([2**62], pa.int64()).cast(pa.timestamp("us", tz="UTC"))])
    ) == [2**62]
    assert to_python(pa.chunked_array([pa.array([date(1970, 1, 2)])])) == [1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_no_zero_is_negative_and_nothing_else_changes(kind: pa.DataType) -> None:
    values = to_python(pa.chunked_array([pa.array([-0.0, 0.0, None, math.nan, -math.inf, -0.5], kind)]))
    assert [struct.pack(">d", value) for value in values[:2]] == [bytes(8)] * 2
    assert values[2] is None and math.isnan(values[3]) and values[4:] == [-math.inf, -0.5]


def test_a_nan_is_a_value_and_no_null() -> None:
    assert to_arrow([math.nan, None], pa.float64()).null_count == 1


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")], ids=str
)
@given(st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=5))
def test_functions_get_datetimes_of_utc(kind: pa.DataType, moments: list[datetime | None]) -> None:
    microseconds = [
        None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        for moment in moments
    ]
    column = pa.chunked_array([pa.array(microseconds, pa.int64()).cast(kind)])
    assert to_user_values(column) == moments
    assert all(moment is None or moment.tzinfo is UTC for moment in to_user_values(column))


@pytest.mark.parametrize("seconds", [0, 1, -1, 2**31, -(2**31), 2**32, 1 - 2**32, -(2**32)])
@given(st.lists(st.integers(-2_000_000, 2_000_000), min_size=1, max_size=20))
def test_every_microsecond_is_a_datetime_of_its_own(seconds: int, microseconds: list[int]) -> None:
    places = [seconds * 1_000_000 + place for place in microseconds]
    column = pa.chunked_array([pa.array(places, pa.int64()).cast(pa.timestamp("us", "UTC"))])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert to_user_values(column) == [epoch + timedelta(microseconds=place) for place in places]


@pytest.mark.parametrize("year", [0, 10_000])
def test_a_time_outside_of_pythons_years_is_no_other_time(year: int) -> None:
    days = (year - 1970) * 366
    microseconds = days * 86_400_000_000
    times = pa.chunked_array([pa.array([0, microseconds]).cast(pa.timestamp("us", "UTC"))])
    dates = pa.chunked_array([pa.array([0, days], pa.int32()).cast(pa.date32())])
    for column, text in (
        (times, f"{microseconds} µs since 1970"),
        (dates, f"{days} days since 1970"),
    ):
        with pytest.raises(ValueBeyondPython, match=f"^{text} can't be handed to Python code, .*derive"):
            to_user_values(column)
