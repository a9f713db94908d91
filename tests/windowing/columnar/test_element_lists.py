"""Lists of elements as accumulators give the lists that appending to Python's lists gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.groups import Groups, Spans
from slackwater.windowing.columnar.element_lists import ElementLists
from tests.properties.search import searched

LENGTHS = st.lists(st.integers(0, 4), max_size=6)


def lists_of(column):
    numbers = column.numbers.tolist()
    return [
        numbers[start:end] for start, end in zip(column.starts.tolist(), column.ends.tolist(), strict=True)
    ]


def column_of(lengths, first=0):
    column = ElementLists.from_lengths(np.array(lengths, np.int64), first)
    lists, number = [], first
    for length in lengths:
        lists.append(list(range(number, number + length)))
        number += length
    assert lists_of(column) == lists
    return column, lists


@given(LENGTHS, LENGTHS, st.data())
@searched(60, long=600)
def test_rows_are_taken_joined_and_combined_like_lists(lengths, more_lengths, data):
    one, lists = column_of(lengths)
    other, more_lists = column_of(more_lengths, first=sum(lengths))
    both, all_lists = one.join([other, one]), lists + more_lists + lists
    assert lists_of(both) == all_lists
    rows = data.draw(st.permutations(range(len(lists) + len(more_lists))), label="rows")
    chosen = [all_lists[row] for row in rows]
    column = both.take(np.array(rows, np.int64))
    assert lists_of(column) == chosen
    assert column.explode().tolist() == [number for of_row in chosen for number in of_row]
    assert column.distinct_numbers().tolist() == sorted({n for of_row in chosen for n in of_row})
    codes = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)), label="groups")
    combined = column.combine(Groups(np.array(codes, np.int64), 3))
    assert lists_of(combined) == [
        sorted(n for code, of_row in zip(codes, chosen, strict=True) if code == group for n in of_row)
        for group in range(3)
    ]


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=4))
@searched(40, long=400)
def test_running_totals_are_prefixes_of_one_list(runs):
    column, lists = column_of([length for run in runs for length in run])
    ends = np.cumsum([len(run) for run in runs], dtype=np.int64)
    starts = np.append(0, ends)[: len(runs)].astype(np.int64)
    totals = lists_of(column.running(starts))
    rows = iter(lists)
    expected = []
    for run in runs:
        total = []
        for _ in run:
            total = total + next(rows)
            expected.append(total)
    assert totals == expected


def test_spans_that_overlap_hold_the_lists_of_their_rows():
    column, _ = column_of([1, 2, 0, 1])
    spans = Spans(np.array([0, 1, 1]), np.array([2, 3, 4]))
    assert lists_of(column.combine_spans(spans)) == [[0, 1, 2], [1, 2], [1, 2, 3]]
