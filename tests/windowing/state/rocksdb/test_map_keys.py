"""Two keys of a map have one identity exactly when a Python dictionary takes them for one key."""

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.state.rocksdb.map_state import identity
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer
from slackwater.windowing.windows import TimeWindow

plain_keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.dates(),
    st.decimals(allow_nan=False),
)


class Point(NamedTuple):
    x: Any
    y: Any


hashable = st.recursive(
    st.one_of(
        plain_keys,
        st.builds(TimeWindow, st.integers(0, 2), st.integers(0, 2)),
        st.integers(0, 3),
        st.floats(0, 3),
        st.binary(),
    ),
    lambda values: st.lists(values, max_size=2).map(tuple) | st.builds(Point, values, values),
    max_leaves=4,
)


@given(hashable, hashable)
def test_values_have_equal_identities_exactly_when_they_are_one_dictionary_key(a: Any, b: Any) -> None:
    serializer = PlainSerializer("s")
    assert (serializer.dumps(identity(a)) == serializer.dumps(identity(b))) is (len({a, b}) == 1)


@pytest.mark.parametrize(
    "keys",
    [
        [1, True, 1.0, Decimal(1), Decimal("1.0")],
        [0, False, 0.0, -0.0, Decimal("-0")],
        [0.5, Decimal("0.5")],
        [math.inf, Decimal("Infinity")],
        [(1, 2), TimeWindow(1, 2), Point(True, 2.0)],
        [datetime(2020, 1, 1, 12, tzinfo=UTC), datetime(2020, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))],
    ],
)
def test_keys_that_are_one_in_a_dictionary_have_one_identity(keys: list[Any]) -> None:
    assert len(set(keys)) == 1
    serializer = PlainSerializer("s")
    assert len({serializer.dumps(identity(value)) for value in keys}) == 1


@pytest.mark.parametrize("value", [[], {}, ([],)])
def test_what_cannot_be_a_dictionary_key_has_no_identity(value: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        identity(value)
