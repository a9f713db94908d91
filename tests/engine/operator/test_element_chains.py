"""Chains of additions against plain lists: whatever is added, merged, undone and restored, an accumulator
holds the elements of its list; and lists are combined alike in portions of any size.
"""

import copy
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.aggregates import ArrowAccumulators, arrow_accumulators, bind, combine_elements
from slackwater.engine.operator.element_chains import ElementChains
from slackwater.pipelines import agg
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.element_lists import ElementLists

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "merge", "new"]), st.integers(0), st.integers(0))
)


@given(st.lists(st.integers(1, 3), max_size=3), STEPS, st.data())
def test_an_accumulator_holds_the_elements_of_its_list(
    restored_lengths: list[int], steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    """A step may go on from any accumulator there ever was, as it does after an undo. Restored parts are
    numbers from 1, elements come after them.
    """
    chains = ElementChains()
    lists: dict[int, list[int]] = {chains.create_accumulator(): []}
    restored_count = sum(restored_lengths)
    restored_numbers = iter(range(1, 1 + restored_count))
    accumulators_of_parked = chains.restore(np.array(restored_lengths, np.int64))
    for length, accumulator in zip(restored_lengths, accumulators_of_parked, strict=True):
        lists[accumulator] = list(islice(restored_numbers, length))
    for element, (step, one, other) in enumerate(steps):
        accumulators = list(lists)
        a, b = accumulators[one % len(accumulators)], accumulators[other % len(accumulators)]
        if step == "merge":
            lists[chains.merge(a, b)] = lists[a] + lists[b]
        else:
            start = chains.create_accumulator() if step == "new" else a
            lists[chains.add(element, start)] = [*lists[start], 1 + restored_count + element]
    chosen = data.draw(st.lists(st.sampled_from(list(lists)), max_size=8))
    element_lists = chains.lists(np.array(chosen, np.int64))
    for row, accumulator in enumerate(chosen):
        numbers = element_lists.take(slice(row, row + 1)).explode().tolist()
        assert numbers, "none is empty: 0 stands for no elements"
        assert list(filter(None, numbers)) == lists[accumulator]


def test_elements_that_carry_their_number_are_added_by_it() -> None:
    chains = ElementChains(lambda element: element["number"])
    accumulator = chains.add({"number": 5}, chains.add({"number": 3}, chains.create_accumulator()))
    assert chains.lists(np.array([accumulator])).explode().tolist() == [4, 6]


def test_pieces_of_a_parked_list_are_added_one_after_the_other() -> None:
    chains = ElementChains()
    accumulator = chains.create_accumulator()
    for count in (2, 1):
        for number in chains.numbers_of_parked(count):
            accumulator = chains.add(number, accumulator)
    [element] = chains.tell_numbers(["x"])
    accumulator = chains.add(element, accumulator)
    assert chains.lists(np.array([accumulator])).explode().tolist() == [1, 2, 3, 4]


def test_an_operators_copy_of_its_function_adds_to_the_same_chains() -> None:
    chains = ElementChains()
    assert copy.deepcopy([chains])[0] is chains


def test_a_window_that_fires_at_every_element_shows_prefixes_of_one_chain() -> None:
    chains, accumulator, shown = ElementChains(), 0, []
    for element in range(1000):
        accumulator = chains.add(element, accumulator)
        shown.append(accumulator)
    lists = chains.lists(np.array(shown, np.int64))
    assert len(lists.numbers) <= 1001
    assert set(lists.starts.tolist()) == {int(lists.starts[0])}
    assert lists.lengths.tolist() == list(range(1, 1001))


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=8),
    st.integers(1, 6),
    st.permutations(range(10)),
)
def test_lists_are_combined_in_portions_of_any_size(
    parked_count: int, spans: list[tuple[int, int]], at_once: int, numbers: list[int]
) -> None:
    aggregates: Any = (bind("n", agg.count(), {}), bind("t", agg.sum("x"), {"x": pa.int64()}))
    rows = pa.table({"x": [10**place for place in range(10)]})
    parked = ArrowAccumulators.from_rows(aggregates, rows, np.arange(parked_count))
    starts = np.array([start for start, _ in spans], np.int64)
    ends = np.array([min(start + length, 10) for start, length in spans], np.int64)
    elements = rows.slice(parked_count)
    with patch.object(arrow_accumulators, "NUMBERS_AT_ONCE", at_once):
        combined = combine_elements(
            ElementLists(np.array(numbers, np.int64), starts, ends),
            parked,
            lambda positions: ArrowAccumulators.from_rows(aggregates, elements, positions),
        )
    expected = [numbers[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    counts, totals = combined.results()
    assert counts.to_pylist() == list(map(len, expected))
    assert totals.to_pylist() == [sum(10**number for number in members) for members in expected]


def test_the_first_row_without_a_result_is_named_whichever_aggregate_lacks_it() -> None:
    types = {"x": pa.int64(), "y": pa.int64()}
    aggregates: Any = (bind("a", agg.sum("x"), types), bind("b", agg.sum("y"), types))
    large = 2**63 - 1
    rows = pa.table({"x": [0, 0, 0, large, 1], "y": [0, large, 1, 0, 0]})
    groups = Groups(np.array([0, 1, 1, 2, 2]), 3)
    accumulators = ArrowAccumulators.of(aggregates, (item.partial(rows, groups) for item in aggregates), 3)
    try:
        accumulators.results()
    except arrow_accumulators.OverflowAtRow as failure:
        assert failure.row == 1
    else:
        raise AssertionError("two sums do not fit")
