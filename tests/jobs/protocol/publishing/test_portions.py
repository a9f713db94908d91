"""Portions are all key groups, each once, and as even as the log lets them be."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.protocol.publishing.portions import Portion, portions

LAST = (1 << 15) - 1
FILES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, LAST), st.integers(0, LAST)), max_size=5)


def actions(*files: tuple[int | None, int | None, int | None]) -> pa.Table:
    """(rows, least, greatest key group) of each file."""
    names = ("num_records", "min.key_group", "max.key_group")
    return pa.table(
        {name: pa.array([file[place] for file in files], pa.int64()) for place, name in enumerate(names)}
    )


@given(FILES, FILES, st.integers(1, 500))
def test_they_are_all_key_groups_each_once_and_not_more_than_rows_need(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], most: int
) -> None:
    tables = [actions(*((rows, min(a, b), max(a, b)) for rows, a, b in files)) for files in (one, other)]
    found = portions(tables, most)
    assert found[0].least is None and found[-1].greatest is None
    for before, after in pairwise(found):
        assert before.greatest is not None and after.least == before.greatest + 1
        assert before.least is None or before.least <= before.greatest
    total = sum(rows for rows, _, _ in (*one, *other))
    assert len(found) <= total // most + 1


def test_rows_that_are_spread_evenly_are_cut_evenly() -> None:
    assert portions([actions((300, 0, 127))], 100) == [Portion(None, 42), Portion(43, 85), Portion(86, None)]
    assert portions([actions((100, 0, 63)), actions((100, 64, 127))], 100) == [
        Portion(None, 63),
        Portion(64, None),
    ]


def test_a_key_group_is_never_cut() -> None:
    assert portions([actions((1000, 5, 5), (1, 9, 9))], 10) == [Portion(None, 5), Portion(6, None)]


@pytest.mark.parametrize("files", [[], [pa.table({})], [actions((10, 0, 127))], [actions((None, 0, 3))]])
def test_few_rows_are_one_portion(files: list[pa.Table]) -> None:
    assert portions(files, 10) == [Portion()]


def test_files_of_which_nothing_is_known_may_hold_every_key_group() -> None:
    found = portions([actions((100, None, None))], 50)
    assert found == [Portion(None, LAST // 2), Portion(LAST // 2 + 1, None)]
    assert portions([pa.table({"num_records": [100]})], 50) == found
