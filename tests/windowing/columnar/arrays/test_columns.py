"""Rows that are chosen from columns: the same ones, whether they stand side by side or not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.columns import rows_where


@given(st.lists(st.booleans(), max_size=12))
def test_chosen_rows_are_a_slice_where_they_stand_at_an_end(chosen: list[bool]) -> None:
    rows = rows_where(np.array(chosen, np.bool_))
    expected = [row for row, is_chosen in enumerate(chosen) if is_chosen]
    assert np.arange(len(chosen))[rows].tolist() == expected
    ends = (list(range(len(expected))), list(range(len(chosen) - len(expected), len(chosen))))
    assert isinstance(rows, slice) == (expected in ends)
