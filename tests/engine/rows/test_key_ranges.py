"""Ranges of keys: together they hold every place once, they are Flink's as long as there are no more of them
than key groups, and files say which of them they are of.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.rows.key_ranges import KeyRange, range_cuts

PLACES = 2**31  # of a key group


@pytest.mark.parametrize("max_parallelism", [1, 3, 128])
@pytest.mark.parametrize("ranges", [1, 2, 3, 5, 127, 128, 129, 1000])
def test_ranges_hold_every_place_once_and_hardly_differ_where_they_divide_groups(
    ranges: int, max_parallelism: int
) -> None:
    cuts = range_cuts(ranges, max_parallelism).tolist()
    assert (len(cuts), cuts[0], cuts[-1]) == (ranges + 1, 0, max_parallelism * PLACES)
    sizes = [beyond - first for first, beyond in pairwise(cuts)]
    if ranges <= max_parallelism:
        # KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup
        assert [
            number for number, size in enumerate(sizes) for _ in range(size // PLACES) if size % PLACES == 0
        ] == [group * ranges // max_parallelism for group in range(max_parallelism)]
    else:
        assert max(sizes) - min(sizes) <= 1 and min(sizes) > 0


@given(
    st.integers(0, 32767),
    st.integers(1, 60),
    st.integers(0, PLACES),
    st.integers(0, PLACES),
    st.integers(1, 300),
)
def test_parts_hold_every_place_of_a_range_once(
    first_group: int, groups: int, after: int, before: int, count: int
) -> None:
    key_range = KeyRange(first_group * PLACES + after, (first_group + groups + 1) * PLACES - before)
    if key_range.beyond - key_range.first < count:
        return
    parts = key_range.parts(count)
    assert len(parts) == count and all(part.first < part.beyond for part in parts)
    assert [parts[0].first, *(part.beyond for part in parts)] == [
        *(part.first for part in parts),
        key_range.beyond,
    ]
    assert all(key_range.covers(part) and part.overlaps(key_range) for part in parts)
    assert not any(one.overlaps(other) for one, other in pairwise(parts))
    if not key_range.divides_groups and count <= len(key_range.key_groups):
        assert not any(part.divides_groups for part in parts)


def test_a_range_names_the_groups_that_have_keys_in_it() -> None:
    whole, within = KeyRange.from_groups(3, 5), KeyRange(3 * PLACES + 1, 5 * PLACES)
    assert [*whole.key_groups] == [3, 4, 5] and not whole.divides_groups
    assert [*within.key_groups] == [3, 4] and within.divides_groups
    assert whole.covers(within) and not within.covers(whole)


@pytest.mark.parametrize("name", ["range-00007-0{}-1a2b-seal01ef.parquet", "range-1-x{}-y.parquet"])
def test_a_file_of_a_part_of_a_group_names_its_range(name: str) -> None:
    within = KeyRange(3 * PLACES + 1, 5 * PLACES - 77)
    assert KeyRange.in_name(f"run_id=-places-1-2-/{name.format(within.label)}") == within
    assert KeyRange.in_name(f"run_id=-places-1-2-/{name.format(KeyRange.from_groups(3, 5).label)}") is None
