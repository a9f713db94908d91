"""Rows of a clustered table are divided so that no value is, and no file is larger than it must be."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.tables.delta.clustering import Clustering

VALUES = st.lists(st.one_of(st.integers(0, 9), st.sampled_from([0, 127, 32767])), max_size=60)
BANDS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=6)


def rows_of(values: list[int], day: int = 0) -> pa.Table:
    return pa.table(
        {
            "group": pa.array(values, pa.int32()),
            "number": pa.array(range(len(values)), pa.int64()),
            "day": pa.array([day] * len(values), pa.int32()),
        }
    )


@settings(max_examples=40)
@given(VALUES, st.integers(2, 12), st.data())
def test_each_row_is_in_one_piece_and_a_value_in_one(
    values: list[int], file_rows: int, data: st.DataObject
) -> None:
    rows_before = data.draw(st.integers(0, file_rows - 1))
    pieces = list(Clustering("group", file_rows).pieces(rows_of(values), rows_before))
    numbers = [number for piece in pieces for number in piece.column("number").to_pylist()]
    assert sorted(numbers) == list(range(len(values)))
    assert all(
        values[number] == group
        for piece in pieces
        for number, group in zip(
            *(piece.column(name).to_pylist() for name in ("number", "group")), strict=True
        )
    )
    bounds = [
        (min(piece), max(piece)) for piece in (piece.column("group").to_pylist() for piece in pieces) if piece
    ]
    assert all(before[1] < after[0] for before, after in pairwise(bounds))
    if rows_before + len(values) < 2 * file_rows:
        assert len(pieces) == 1
    greatest_value = max(np.bincount(values), default=0) if values else 0
    for piece in pieces:
        assert piece.num_rows <= 2 * file_rows + greatest_value


def test_values_of_few_rows_are_divided_evenly() -> None:
    pieces = list(Clustering("group", 10).pieces(rows_of([9, 0, 5, 3, 7] * 8), 0))
    assert [piece.column("group").unique().to_pylist() for piece in pieces] == [[0], [3], [5, 7], [9]]


@settings(max_examples=40)
@given(VALUES.map(lambda values: [value % 10 for value in values]), BANDS)
def test_rows_stay_in_the_narrowest_band_that_has_them(
    values: list[int], files: list[tuple[int, int, int]]
) -> None:
    """Each file: two bounds and its rows; one with fewer than 5 is small."""
    bands = [(min(a, b), max(a, b)) for a, b, _ in files]
    actions = pa.table(
        {
            "partition.day": pa.array([0] * len(files), pa.int32()),
            "min.group": pa.array([least for least, _ in bands], pa.int32()),
            "max.group": pa.array([greatest for _, greatest in bands], pa.int32()),
            "num_records": pa.array([count for _, _, count in files], pa.int64()),
        }
    )
    large_bands = [band for band, (_, _, count) in zip(bands, files, strict=True) if count >= 5]
    numbers = {}
    for number, rows in Clustering("group", 10).bands_of(rows_of(values), "day", actions):
        numbers |= dict.fromkeys(rows.column("number").to_pylist(), number)
    assert sorted(numbers) == list(range(len(values)))
    for place, number in numbers.items():
        around = [band for band in large_bands if band[0] <= values[place] <= band[1]]
        if around:
            assert large_bands[number] in around
            assert large_bands[number][1] - large_bands[number][0] == min(b - a for a, b in around)
        else:
            assert number == -1


def test_bands_are_those_of_the_day() -> None:
    files = pa.table(
        {
            "partition.day": pa.array([0, 1], pa.int32()),
            "min.group": pa.array([0, 5], pa.int32()),
            "max.group": pa.array([4, 9], pa.int32()),
            "num_records": [10, 10],
        }
    )
    rows = pa.concat_tables([rows_of([0, 7], day) for day in (0, 1, 2)])
    bands = {
        number: [tuple(row.values()) for row in some.select(["group", "day"]).to_pylist()]
        for number, some in Clustering("group", 10).bands_of(rows, "day", files)
    }
    assert bands == {0: [(0, 0), (7, 1)], -1: [(7, 0), (0, 1), (0, 2), (7, 2)]}
