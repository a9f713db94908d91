"""Rows that are chosen from columns: the same ones, whether they stand side by side or not."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.engines.columnar.families import rows_where, take_each


@given(st.lists(st.booleans(), max_size=12))
def test_chosen_rows_are_taken_in_order_and_copied_only_where_they_are_scattered(chosen: list[bool]) -> None:
    rows = rows_where(np.array(chosen, np.bool_))
    expected = [row for row, is_chosen in enumerate(chosen) if is_chosen]
    assert np.arange(len(chosen))[rows].tolist() == expected
    [[taken]] = take_each([[pa.array(range(len(chosen)), pa.int64())]], rows)
    assert taken.to_pylist() == expected
    at_an_end = expected in (
        list(range(len(expected))),
        list(range(len(chosen) - len(expected), len(chosen))),
    )
    assert isinstance(rows, slice) == at_an_end
