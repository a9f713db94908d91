"""Portions are all key groups, each once, and as even as the log lets them be; a key group that has too many
rows is divided by its keys.
"""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.protocol.publishing.portions import Portion, portions
from slackwater.windowing.columnar.arrays.key_hashes import key_groups

LAST = (1 << 15) - 1
KEYS = (("a", pa.int32()), ("b", pa.string()))
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
    ranges = portions(tables, most)
    assert ranges[0].least is None and ranges[-1].greatest is None
    for before, after in pairwise(ranges):
        assert before.greatest is not None and after.least == before.greatest + 1
        assert before.least is None or before.least <= before.greatest
    total = sum(rows for rows, _, _ in (*one, *other))
    assert len(ranges) <= total // most + 1


def test_rows_that_are_spread_evenly_are_cut_evenly() -> None:
    assert portions([actions((300, 0, 127))], 100) == [Portion(None, 42), Portion(43, 85), Portion(86, None)]
    assert portions([actions((100, 0, 63)), actions((100, 64, 127))], 100) == [
        Portion(None, 63),
        Portion(64, None),
    ]


def test_a_key_group_is_cut_by_the_hashes_of_its_keys_alone() -> None:
    files = [actions((1000, 5, 5), (1, 9, 9))]
    assert portions(files, 10) == [Portion(None, 5), Portion(6, None)]
    divided = portions(files, 300, KEYS)
    assert [portion[:2] for portion in divided] == [(None, 5)] * 4 + [(6, None)]
    hashes = [portion.hashes for portion in divided if portion.hashes is not None]
    assert [bounds for _, *bounds in hashes] == [[part << 29, (part + 1) << 29] for part in range(4)]
    # A group that is not too large, before one that is.
    divided = portions([actions((9, 3, 3), (50, 4, 4))], 10, KEYS)
    assert [portion[:2] for portion in divided] == [(None, 3)] + [(4, None)] * 5


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.text(max_size=3)), max_size=30), st.integers(1, 7)
)
def test_every_row_lies_in_one_portion_and_so_do_rows_of_its_key(
    keys: list[tuple[int, str]], most: int
) -> None:
    columns = [pa.array([key[place] for key in keys], kind) for place, (_, kind) in enumerate(KEYS)]
    groups = key_groups(columns, 2)
    once = pa.table({"a": columns[0], "b": columns[1], "key_group": groups})
    rows = pa.concat_tables([once, once])
    ranges = portions(
        [actions((int((groups == 0).sum()) * 2, 0, 0), (int((groups == 1).sum()) * 2, 1, 1))], most, KEYS
    )
    parts = [rows.filter(portion.where) for portion in ranges]
    in_all = pa.concat_tables([rows.slice(0, 0), *parts])
    order = [("key_group", "ascending"), ("a", "ascending"), ("b", "ascending")]
    assert in_all.sort_by(order).equals(rows.sort_by(order))
    owners = [{(row["a"], row["b"]) for row in part.to_pylist()} for part in parts]
    assert sum(map(len, owners)) == len(set(keys))


@pytest.mark.parametrize("files", [[], [pa.table({})], [actions((10, 0, 127))], [actions((None, 0, 3))]])
def test_few_rows_are_one_portion(files: list[pa.Table]) -> None:
    assert portions(files, 10) == [Portion()]


def test_files_of_which_nothing_is_known_may_hold_every_key_group() -> None:
    ranges = portions([actions((100, None, None))], 50)
    assert ranges == [Portion(None, LAST // 2), Portion(LAST // 2 + 1, None)]
    assert portions([pa.table({"num_records": [100]})], 50) == ranges
