"""Rows with equal integers are one group, whatever the integers are."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays import groups as grouping
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    code_values,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
    sum_of_groups,
)

LONG = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), -(2**62), 2**40, 2**62, 2**63 - 1]))


@given(st.lists(st.tuples(LONG, LONG, st.integers(-(2**54), 2**54)), max_size=30))
def test_pairs_are_grouped_by_both_values(rows: list[tuple[int, int, int]]) -> None:
    first, second, values = np.array(rows, np.int64).reshape(-1, 3).T
    groups, ones, others = group_pairs(first, second)
    members: dict[tuple[int, int], list[int]] = {}
    for one, other, value in rows:
        members.setdefault((one, other), []).append(value)
    pairs = list(zip(ones.tolist(), others.tolist(), strict=True))
    assert len(pairs) == groups.size == len(members)
    assert [pairs[code] for code in groups.codes.tolist()] == [(one, other) for one, other, _ in rows]
    for summary, reduce in ((least_of_groups, min), (greatest_of_groups, max), (sum_of_groups, sum)):
        assert summary(values, groups).tolist() == [reduce(members[pair]) for pair in pairs]


@pytest.mark.parametrize("entries", [(0, 0), (0, 100), (100, 100)], ids=["hashed", "sorted", "looked up"])
@given(st.lists(st.integers(-40, 40), max_size=30))
def test_values_get_codes_however_they_are_found(entries: tuple[int, int], values: list[int]) -> None:
    column = np.array(values, np.int64)
    with patch.multiple(grouping, FREE_ENTRIES=0, ENTRIES_PER_ROW=entries[0], SORTED_PER_ROW=entries[1]):
        value_codes, distinct = code_values(column)
    assert sorted(distinct.tolist()) == sorted(set(values))
    values_by_code = dict(zip(value_codes.present.tolist(), distinct.tolist(), strict=True))
    assert values_by_code.keys() == set(value_codes.codes.tolist())
    assert [values_by_code[code] for code in value_codes.codes.tolist()] == values
    if entries[1]:
        assert distinct.tolist() == sorted(set(values))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30),
    st.lists(st.integers(0, 1), max_size=4),
)
def test_several_columns_are_summed_by_the_same_groups_each_for_itself(
    rows: list[tuple[int, int]], differences: list[int]
) -> None:
    codes, values = np.array(rows, np.int64).T
    groups = Groups(codes, 3)
    for more in differences:
        expected = [sum(value + more for code, value in rows if code == group) for group in range(3)]
        assert sum_of_groups(values + more, groups).tolist() == expected


@given(st.lists(st.tuples(LONG, LONG, st.booleans()), max_size=30))
def test_rows_outside_make_one_more_group_and_change_no_other(rows: list[tuple[int, int, bool]]) -> None:
    first, second = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
    is_outside = np.array([row[2] for row in rows], bool)
    groups, ones, others = group_pairs(first, second, np.flatnonzero(is_outside))
    pairs = list(zip(ones.tolist(), others.tolist(), strict=True))
    inside = [(one, other) for one, other, is_out in rows if not is_out]
    assert sorted(pairs) == sorted(set(inside))
    assert groups.size == len(pairs) + any(is_outside)
    assert [code if code == len(pairs) else pairs[code] for code in groups.codes.tolist()] == [
        len(pairs) if is_out else (one, other) for one, other, is_out in rows
    ]
    assert groups.counts.tolist() == [
        *(inside.count(pair) for pair in pairs),
        *([sum(is_outside)] if any(is_outside) else []),
    ]
