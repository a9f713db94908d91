"""Lists of rows, each at several moments, are combined as each list is that is combined by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.contents import combine_lists
from slackwater.windowing.columnar.element_lists import ElementLists
from tests.windowing.columnar.kernel_replays import ElementSets

# Of each list how long it is, and after how many of its rows it is looked at.
LISTS = st.lists(
    st.integers(1, 5).flatmap(
        lambda length: st.tuples(
            st.just(length), st.lists(st.integers(1, length), min_size=1, max_size=4, unique=True)
        )
    ),
    max_size=6,
)


@given(LISTS, st.randoms())
def test_each_list_is_the_union_of_its_rows(
    lengths_and_moments: list[tuple[int, list[int]]], random: np.random.Generator
) -> None:
    total = sum(length for length, _ in lengths_and_moments)
    numbers = list(range(total))
    random.shuffle(numbers)
    spans, start = [], 0
    for length, moments in lengths_and_moments:
        spans += [(start, start + moment) for moment in moments]
        start += length
    random.shuffle(spans)
    starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
    lists = ElementLists(np.array(numbers, np.int64), starts, ends)
    rows = ElementSets(tuple(frozenset((100 + row,)) for row in range(total)))
    wanted_sets = [frozenset(100 + number for number in numbers[start:end]) for start, end in spans]
    assert list(combine_lists(lists, rows).sets) == wanted_sets
