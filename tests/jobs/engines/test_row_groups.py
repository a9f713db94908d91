"""A file that is read in pieces gives the rows of the whole file, and single rows with all of their columns."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engines.inputs import InputFile
from jobs.engines.row_groups import SourceFile

SCHEMA = pa.schema([("a", pa.int64()), ("day", pa.string()), ("b", pa.string()), ("new", pa.float64())])


def source_file(folder: Path, rows: int, group: int, known: bool = True) -> tuple[SourceFile, pa.Table]:
    """A file in the partition day=x, written before the column `new` was there, and its rows."""
    stored = pa.table({"a": np.arange(rows), "b": [f"row {number}" for number in range(rows)]})
    pq.write_table(stored, folder / "part.parquet", row_group_size=group)
    file = InputFile("part.parquet", (("day", "x"),), rows if known else None, 1, False)
    whole = pa.table([stored.column("a"), pa.repeat("x", rows), stored.column("b"), pa.nulls(rows, pa.float64())], schema=SCHEMA)
    return SourceFile(str(folder), file, SCHEMA), whole


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("rows", "at_once", "expected"), [(10, 100, [10]), (10, 4, [3, 3, 4]), (10, 6, [6, 4]), (0, 5, [0])])
def test_pieces_are_whole_row_groups_up_to_a_size(tmp_path: Path, rows: int, at_once: int, expected: list[int], known: bool) -> None:
    file, whole = source_file(tmp_path, rows, 3, known)
    pieces = list(file.batches(SCHEMA.names, None, at_once))
    assert [piece.rows.num_rows for piece in pieces] == expected
    assert pa.concat_tables([piece.rows for piece in pieces]).equals(whole)


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 40), st.data())
@settings(max_examples=60)
def test_whole_rows_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, rows: int, group: int, at_once: int, data: st.DataObject
) -> None:
    file, whole = source_file(tmp_path_factory.mktemp("file"), rows, group)
    start = 0
    for piece in file.batches(SCHEMA.names, ("a",), at_once):
        size = piece.rows.num_rows
        chosen = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
        positions = np.array(sorted(chosen), np.int64)
        assert piece.rows.column_names == ["a"]
        assert piece.whole(positions).equals(whole.take(pa.array(positions + start)))
        start += size
    assert start == rows
