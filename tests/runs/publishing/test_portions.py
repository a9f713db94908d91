"""Portions are all key groups, each once, and as even as the log lets them be; a key group that has too many
rows is divided by its keys.
"""

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from slackwater.engine.rows.key_ranges import KeyRange, range_cuts
from slackwater.runs.publishing.portions import Portion, portions
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.windowing.columnar.arrays.key_hashes import PLACE_BITS, key_groups, key_places

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


@pytest.mark.slow
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


def stored_files(rows_by_path: dict[str, pa.Table]) -> StoredFiles:
    """Files of rows with key groups, as a log lists them."""
    groups_by_path = {path: rows.column("key_group") for path, rows in rows_by_path.items() if rows.num_rows}
    bounds = [pc.min_max(groups).as_py() for groups in groups_by_path.values()]
    files_in_log = actions(
        *(
            (len(groups), bound["min"], bound["max"])
            for groups, bound in zip(groups_by_path.values(), bounds, strict=True)
        )
    ).append_column("path", pa.array(list(groups_by_path), pa.string()))
    return StoredFiles(files_in_log, "nowhere", LocalFileSystem(), pa.schema([]))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.text(max_size=3)), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 9),
)
def test_every_row_of_a_portion_lies_in_a_file_that_is_chosen(
    keys: list[tuple[int, str]], group_count: int, ranges: int, most: int
) -> None:
    columns = [pa.array([key[place] for key in keys], kind) for place, (_, kind) in enumerate(KEYS)]
    rows = pa.table({"a": columns[0], "b": columns[1], "key_group": key_groups(columns, group_count)})
    places, cuts = key_places(columns, group_count), range_cuts(ranges, group_count)
    files = {
        f"range-{number:05d}-0{KeyRange(*bounds).label}-x.parquet": rows.filter(
            pa.array((places >= bounds[0]) & (places < bounds[1]))
        )
        for number, bounds in enumerate(pairwise(cuts.tolist()))
    }
    files_in_log = stored_files(files)
    for portion in portions([files_in_log.actions], most, KEYS):
        chosen_paths = portion.files_among(files_in_log).paths
        count = sum(files[path].filter(portion.where).num_rows for path in chosen_paths)
        assert count == rows.filter(portion.where).num_rows


@pytest.mark.parametrize("group_count", [1, 3])
def test_of_the_files_of_a_divided_key_group_a_portion_chooses_those_with_its_hashes(
    group_count: int,
) -> None:
    rows = pa.table({"key_group": pa.array([group_count - 1] * 100)})
    cuts = [((group_count - 1) << PLACE_BITS) + (eighth << PLACE_BITS - 3) for eighth in range(9)]
    labels = [KeyRange(*bounds).label for bounds in pairwise(cuts)]
    names = [f"range-00000-{number}{label}-x.parquet" for number, label in enumerate(labels)]
    files_in_log = stored_files(dict.fromkeys([*names, "range-00000-0-x.parquet"], rows))
    divided = portions([actions((900, group_count - 1, group_count - 1))], 225, KEYS)
    assert [portion.files_among(files_in_log).paths[:-1] for portion in divided] == [
        names[2 * number : 2 * number + 2] for number in range(4)
    ]
    assert {portion.files_among(files_in_log).paths[-1] for portion in divided} == {"range-00000-0-x.parquet"}


@pytest.mark.parametrize("files", [[], [pa.table({})], [actions((10, 0, 127))], [actions((None, 0, 3))]])
def test_few_rows_are_one_portion(files: list[pa.Table]) -> None:
    assert portions(files, 10) == [Portion()]


def test_files_of_which_nothing_is_known_may_hold_every_key_group() -> None:
    ranges = portions([actions((100, None, None))], 50)
    assert ranges == [Portion(None, LAST // 2), Portion(LAST // 2 + 1, None)]
    assert portions([pa.table({"num_records": [100]})], 50) == ranges
