"""Sums and bounds of overlapping spans are those of Python's over the same rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.groups import Spans

LONGS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def spans_of_rows(draw):
    values = draw(st.lists(st.integers(-5, 5) | LONGS, min_size=1, max_size=12))
    firsts = draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    beyonds = [draw(st.integers(first + 1, len(values))) for first in firsts]
    return values, Spans(np.array(firsts, np.int64), np.array(beyonds, np.int64))


def wrapped(number):
    return (number + 2**63) % 2**64 - 2**63


@given(spans_of_rows())
def test_spans_are_reduced_as_the_rows_of_each_alone(drawn):
    values, spans = drawn
    column = np.array(values, np.int64)
    parts = [values[first:beyond] for first, beyond in zip(spans.firsts, spans.beyonds, strict=True)]
    assert spans.sum(column).tolist() == [wrapped(sum(part)) for part in parts]
    assert spans.least(column).tolist() == [min(part) for part in parts]
    assert spans.greatest(column).tolist() == [max(part) for part in parts]
    rows, owners = spans.explode()
    assert [column[rows[owners.codes == number]].tolist() for number in range(owners.size)] == parts
    assert (
        spans.where(np.arange(owners.size) % 2 == 0).sum(column).tolist() == spans.sum(column)[::2].tolist()
    )
