"""A file that is read in pieces gives the rows of the whole file, and single rows with all of their
columns.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.files import InputFile
from slackwater.engine.source.row_groups import Arrivals, SourceFile
from slackwater.tables.errors import DamagedFile

SCHEMA = pa.schema([("a", pa.int64()), ("day", pa.string()), ("b", pa.string()), ("new", pa.float64())])


def source_file(
    folder: Path, rows: int, group: int, has_statistics: bool = True
) -> tuple[SourceFile, pa.Table]:
    """A file in the partition day=x, written before the column `new` was there, and its rows."""
    stored = pa.table({"a": np.arange(rows), "b": [f"row {number}" for number in range(rows)]})
    pq.write_table(stored, folder / "part.parquet", row_group_size=group)
    file = InputFile("part.parquet", (("day", "x"),), rows if has_statistics else None, 1, False)
    all_rows = pa.table(
        [stored.column("a"), pa.repeat("x", rows), stored.column("b"), pa.nulls(rows, pa.float64())],
        schema=SCHEMA,
    )
    return SourceFile(str(folder), file, SCHEMA), all_rows


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize(
    ("rows", "at_once", "expected"), [(10, 100, [10]), (10, 4, [3, 3, 4]), (10, 6, [6, 4]), (0, 5, [])]
)
def test_pieces_are_whole_row_groups_up_to_a_size(
    tmp_path: Path, rows: int, at_once: int, expected: list[int], has_statistics: bool
) -> None:
    file, all_rows = source_file(tmp_path, rows, 3, has_statistics)
    pieces = list(file.batches(SCHEMA.names, None, (), at_once))
    assert [piece.rows.num_rows for piece in pieces] == expected
    assert pa.concat_tables([all_rows.slice(0, 0), *(piece.rows for piece in pieces)]).equals(all_rows)


NOON = 1_357_041_600_000_000


def file_of(folder: Path, stored: pa.Table, schema: pa.Schema, **options: Any) -> SourceFile:
    """A file of two row groups of three rows each."""
    pq.write_table(stored, folder / "part.parquet", row_group_size=3, **options)
    return SourceFile(str(folder), InputFile("part.parquet", (("day", "x"),), 6, 1, False), schema)


def test_a_column_of_which_only_nulls_matter_is_read_where_the_file_may_hold_some(tmp_path: Path) -> None:
    stored = pa.table({"a": [1, 2, 3, 4, 5, 6], "b": ["u", "v", "w", None, "y", "z"]})
    names, null_checked = SCHEMA.names, ("a", "b", "day", "new")
    pieces = list(file_of(tmp_path, stored, SCHEMA).batches(names, None, null_checked, 3))
    assert [piece.rows.column_names for piece in pieces] == [["day", "new"], ["day", "b", "new"]]
    assert [[piece.is_complete(name) for name in names] for piece in pieces] == [
        [True, True, True, False],
        [True, True, False, False],
    ]
    assert pieces[1].full_rows(np.array([0, 2])).to_pylist() == [
        {"a": 4, "day": "x", "b": None, "new": None},
        {"a": 6, "day": "x", "b": "z", "new": None},
    ]
    [untold] = file_of(tmp_path, stored, SCHEMA, write_statistics=False).batches(names, None, null_checked)
    assert untold.rows.column_names == names
    assert [untold.is_complete(name) for name in names] == [True, True, False, False]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("statistics", [True, False])
def test_times_lie_between_bounds_in_the_unit_in_which_they_are_read(
    tmp_path: Path, unit: str, statistics: bool
) -> None:
    moments = pa.array([NOON + 1000 * number for number in (4, -7, 5, 0, 9, 2)]).cast(
        pa.timestamp("us", tz="UTC")
    )
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    stored = pa.table({"t": moments.cast(pa.timestamp(unit, tz="UTC"))})
    file = file_of(tmp_path, stored, schema, write_statistics=statistics, version="2.6")
    assert [piece.bounds("t") for piece in file.batches(["t"], None, (), 3)] == [
        (NOON - 7000, NOON + 5000),
        (NOON, NOON + 9000),
    ]
    assert next(file.batches(["t"], None)).bounds("t") == (NOON - 7000, NOON + 9000)


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 40), st.data())
@settings(max_examples=60)
def test_whole_rows_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, rows: int, group: int, at_once: int, data: st.DataObject
) -> None:
    file, all_rows = source_file(tmp_path_factory.mktemp("file"), rows, group)
    start = 0
    for piece in file.batches(SCHEMA.names, ("a",), (), at_once):
        size = piece.rows.num_rows
        chosen = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
        positions = np.array(sorted(chosen), np.int64)
        assert piece.rows.column_names == ["a"]
        assert piece.full_rows(positions).equals(all_rows.take(pa.array(positions + start)))
        start += size
    assert start == rows


@given(
    st.lists(st.integers(0, 20) | st.none(), min_size=1, max_size=20),
    st.integers(1, 4),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.sets(st.integers(0, 20), max_size=1),
    st.booleans(),
    st.integers(1, 4),
)
@settings(max_examples=60)
def test_shares_hold_every_wanted_arrival_once(
    tmp_path_factory: pytest.TempPathFactory,
    seconds: list[int | None],
    group: int,
    bounds: tuple[int, int],
    also: set[int],
    earlier: bool,
    count: int,
) -> None:
    folder, schema = (
        tmp_path_factory.mktemp("file"),
        pa.schema([("t", pa.timestamp("us", tz="UTC")), ("row", pa.int64())]),
    )
    values = [None if second is None else second * 1_000_000 + 500 for second in seconds]
    pq.write_table(
        pa.table([pa.array(values).cast(schema.field("t").type), range(len(values))], schema),
        folder / "f",
        row_group_size=group,
    )
    low, high = sorted(bounds)
    arrivals = Arrivals("t", low * 1000, high * 1000, tuple(second * 1000 for second in also))
    file = InputFile("f", (), len(values), 1, earlier)
    read = [
        row
        for share in file.shares(count)
        for piece in SourceFile(str(folder), share, schema).batches(["row"], None, (), 2, arrivals)
        for row in piece.rows.column("row").to_pylist()
    ]
    expected_rows = {
        row
        for row, second in enumerate(seconds)
        if (earlier if second is None else (second < high and (earlier or second >= low)) or second in also)
    }
    assert expected_rows <= set(read)
    assert read == sorted(set(read))


def test_row_groups_of_other_slices_are_not_read(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    file = file_of(
        tmp_path,
        pa.table([pa.array(range(0, 6_000_000, 1_000_000)).cast(schema.field("t").type)], schema),
        schema,
    )
    for bounds, rows in (((0, 3000), 3), ((2000, 4000), 6), ((3000, 9000), 3), ((6000, 9000), 0)):
        assert (
            sum(piece.rows.num_rows for piece in file.batches(["t"], None, arrivals=Arrivals("t", *bounds)))
            == rows
        )


def test_another_file_under_the_name_of_one_is_named_by_its_rows(tmp_path: Path) -> None:
    """Its rows lack the columns of the table, and would all be read as nulls."""
    source, _ = source_file(tmp_path, 10, 5)
    pq.write_table(pa.table({"y": [1, 2, 3]}), tmp_path / "part.parquet")
    with pytest.raises(DamagedFile, match=r"part.parquet is damaged: it has 3 rows, and .* says 10"):
        list(source.batches(SCHEMA.names, None))
