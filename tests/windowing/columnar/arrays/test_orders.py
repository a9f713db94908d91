"""Orders of rows are those of Python's sort, and pairs stand where a dictionary has them, whatever the
integers are.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.orders import (
    distinct_values,
    order_of_pairs,
    positions_of_pairs,
    sort_non_negative,
    sort_with_places,
    stable_order,
)

LONG = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), -(2**62), 2**40, 2**62, 2**63 - 1]))
YEAR_9999 = 253_402_300_799_000  # a window's number where one begins every millisecond

Pairs = list[tuple[int, int]]


@given(st.lists(LONG, max_size=30))
def test_equal_values_of_any_size_keep_their_order(values: list[int]) -> None:
    order, ascending = sort_with_places(np.array(values, np.int64))
    assert list(zip(ascending.tolist(), order.tolist(), strict=True)) == sorted(
        (value, place) for place, value in enumerate(values)
    )


@given(st.lists(LONG, max_size=30))
def test_distinct_values_are_those_of_a_set_in_order(values: list[int]) -> None:
    assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))


@pytest.mark.parametrize("unit", [1, 1 << 61])
def test_equal_values_that_are_not_negative_keep_their_order(unit: int) -> None:
    order, values = sort_non_negative(np.array([3, 1, 3, 0, 1], np.int64) * unit)
    assert values.tolist() == [0, unit, unit, 3 * unit, 3 * unit]
    assert order.tolist() == [3, 1, 4, 0, 2]


@given(st.lists(st.tuples(LONG, LONG), max_size=30))
def test_pairs_stand_in_order_equal_ones_as_they_come(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    assert order_of_pairs(first, second).tolist() == sorted(
        range(len(pairs)), key=lambda place: (pairs[place], place)
    )


@given(st.lists(st.sampled_from([0, 1, 5, 65535, 65536, 70001, 2**33]), max_size=30))
def test_numbers_are_sorted_stably_16_bits_at_a_time(numbers: list[int]) -> None:
    codes = np.array(numbers, np.int64)
    assert stable_order(codes, 2**33 + 1).tolist() == np.argsort(codes, kind="stable").tolist()


def positions(pairs: Pairs, among: Pairs) -> list[int]:
    """`positions_of_pairs` of pairs as tuples."""
    columns = [
        tuple(np.array([pair[place] for pair in column_pairs], np.int64) for place in (0, 1))
        for column_pairs in (pairs, among)
    ]
    return positions_of_pairs(columns[0], among=columns[1]).tolist()


def positions_by_dictionary(pairs: Pairs, among: Pairs) -> list[int]:
    places = {pair: place for place, pair in enumerate(among)}
    return [places.get(pair, -1) for pair in pairs]


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), unique=True, max_size=20
    ),
    st.sets(st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), max_size=20),
)
def test_pairs_stand_where_a_dictionary_has_them(among: Pairs, others: set[tuple[int, int]]) -> None:
    pairs = sorted(others | set(among[::2]))
    assert positions(pairs, among) == positions_by_dictionary(pairs, among)


@pytest.mark.parametrize("keys", [1_000, 40_000, 60_000])
def test_one_far_pair_hides_none_of_many_near_ones(keys: int) -> None:
    """Key and window in one number would not fit 64 bits."""
    among = [(key, 1_700_000_000_000) for key in range(keys)] + [(keys - 1, YEAR_9999)]
    pairs = among[:-1]
    assert positions(pairs, among) == positions_by_dictionary(pairs, among)
