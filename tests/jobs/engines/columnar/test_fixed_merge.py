"""Where windows of late elements stand among open ones (`columnar.fixed_merge`), against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.engines.columnar.fixed_merge import positions_among

YEAR_9999 = 253_402_300_799_000  # a window's number where one begins every millisecond

Pairs = list[tuple[int, int]]


def positions(of: Pairs, asked: Pairs) -> list[int]:
    columns = (
        np.array([pair[place] for pair in pairs], np.int64) for pairs in (of, asked) for place in (0, 1)
    )
    return positions_among(*columns).tolist()


def by_dictionary(of: Pairs, asked: Pairs) -> list[int]:
    places = {pair: place for place, pair in enumerate(of)}
    return [places.get(pair, -1) for pair in asked]


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), unique=True, max_size=20
    ),
    st.sets(st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), max_size=20),
)
def test_windows_stand_where_a_dictionary_has_them(of: Pairs, others: set[tuple[int, int]]) -> None:
    asked = sorted(others | set(of[::2]))
    assert positions(of, asked) == by_dictionary(of, asked)


@pytest.mark.parametrize("keys", [1_000, 40_000, 60_000])
def test_one_window_of_the_year_9999_hides_none_of_many_keys(keys: int) -> None:
    """Key and window in one number would not fit 64 bits."""
    of = [(key, 1_700_000_000_000) for key in range(keys)] + [(keys - 1, YEAR_9999)]
    asked = of[:-1]
    assert positions(of, asked) == by_dictionary(of, asked)
