"""Rows that come piece by piece stand in few files, each once, and the log says of them what it would say of
rows written at once.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.errors import WarehouseNotWritable
from tests.open_files import FEWEST, with_few_open_files

START = datetime(2013, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [("n", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32())]
)
ROWS = st.tuples(
    st.one_of(st.none(), st.integers(-5, 5)),
    st.sampled_from([None, "a", "b", "x" * 40]),
    st.one_of(st.none(), st.integers(0, 99).map(lambda number: START + timedelta(microseconds=number))),
    st.sampled_from([None, date(2013, 1, 1), date(2013, 1, 2), date(1969, 12, 31)]),
)
PIECES = st.lists(st.lists(ROWS, max_size=4), max_size=4)


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def dictionary_table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    """Texts as dictionaries, one a chunk."""
    whole_table = table_of(rows)
    chunks = [table_of([row]).column("name").combine_chunks().dictionary_encode() for row in rows]
    names = pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))
    return whole_table.set_column(1, "name", names)


FORMS = st.sampled_from([table_of, dictionary_table_of])


@settings(max_examples=30)
@given(PIECES, st.booleans(), st.sampled_from([1, 3, 1 << 20]), FORMS)
def test_every_row_stands_once_where_its_partition_is(
    pieces: list[list[tuple[object, ...]]],
    is_partitioned: bool,
    most: int,
    form: Callable[[list[tuple[object, ...]]], pa.Table],
) -> None:
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("day",) if is_partitioned else ())
        with Parts(folder, most) as parts:
            for piece in pieces:
                parts.add(form(piece))
            files = parts.close()
        folder.commit_files(files)
        rows = [row for piece in pieces for row in piece]
        assert sorted(map(repr, folder.read().to_pylist())) == sorted(map(repr, table_of(rows).to_pylist()))
        if most > len(rows):
            assert len(files) == (len({row[3] for row in rows}) if is_partitioned else min(1, len(rows)))


@settings(max_examples=30)
@given(PIECES.filter(any), FORMS)
def test_statistics_are_those_of_the_rows_written_at_once(
    pieces: list[list[tuple[object, ...]]], form: Callable[[list[tuple[object, ...]]], pa.Table]
) -> None:
    with TemporaryDirectory() as root:
        with Parts(Folder(f"{root}/t", SCHEMA)) as parts:
            for piece in pieces:
                parts.add(form(piece))
            [written] = parts.close()
        whole_table = write_file(root, "x.parquet", table_of([row for piece in pieces for row in piece]), {})
        assert json.loads(written.statistics) == json.loads(whole_table.statistics)
        assert written.bytes == (Path(root) / "t" / written.path).stat().st_size


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a folder")
    with Parts(Folder(f"{tmp_path}/taken/t", SCHEMA)) as parts:
        parts.add(table_of([(1, None, None, None)]))
        with pytest.raises(WarehouseNotWritable):
            parts.close()


def test_more_partitions_than_files_may_be_open_are_written(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}/t", SCHEMA, ("day",))
    days = [date(2013, 1, 1) + timedelta(days=number) for number in range(2 * FEWEST)]
    pieces = [table_of([(number, str(number), START, day) for day in days]) for number in range(2)]
    files = with_few_open_files(written_files, folder, pieces)
    folder.commit_files(files)
    assert (
        folder.read().sort_by([("n", "ascending"), ("day", "ascending")]).to_pylist()
        == pa.concat_tables(pieces).to_pylist()
    )


def written_files(folder: Folder, pieces: list[pa.Table]) -> list[WrittenFile]:
    with Parts(folder) as parts:
        for piece in pieces:
            parts.add(piece)
        return parts.close()


def test_a_partition_that_is_written_again_and_again_stays_in_one_file(tmp_path: Path) -> None:
    """However many others there are between its pieces: the file that was not written to for longest is
    closed first.
    """
    folder = Folder(f"{tmp_path}/t", SCHEMA, ("day",))
    always = date(2012, 12, 31)
    pieces = [
        table_of([(1, None, None, always), (2, None, None, date(2013, 1, 1) + timedelta(days=number))])
        for number in range(100)
    ]
    files = written_files(folder, pieces)
    assert [file.rows for file in files if file.partition == {"day": str(always)}] == [100]
    assert len(files) == 101


def test_numbers_in_a_struct_are_stored_as_differences(tmp_path: Path) -> None:
    """Nulls of the struct and in it included, and read by others."""
    kind = pa.struct([("total", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("name", pa.string())])
    values = [
        None
        if number % 11 == 0
        else {
            "total": None if number % 7 == 0 else number * 7919 % 10_007 - 5000,
            "at": START + timedelta(milliseconds=number),
            "name": "ab"[number % 2],
        }
        for number in range(6000)
    ]
    schema = pa.schema([("new", kind), ("old", kind)])
    folder = Folder(f"{tmp_path}/t", schema)
    with Parts(folder) as parts:
        for half in (values[:3000], values[3000:]):
            parts.add(pa.table({"new": pa.array(half, kind), "old": pa.nulls(len(half), kind)}))
        [file] = parts.close()
    path = tmp_path / "t" / file.path
    group = pq.ParquetFile(path).metadata.row_group(0)
    encodings = {group.column(place).path_in_schema: group.column(place).encodings for place in range(6)}
    assert all("DELTA_BINARY_PACKED" in encodings[name] for name in ("new.total", "new.at"))
    assert "DELTA_BINARY_PACKED" not in encodings["new.name"]
    folder.commit_files([file])
    assert folder.files().read(["new", "old"]).to_pylist() == [{"new": one, "old": None} for one in values]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        totals = connection.execute(f"SELECT new.total FROM read_parquet('{path}')").fetchall()
    assert [total for (total,) in totals] == [one and one["total"] for one in values]


@settings(max_examples=30)
@given(PIECES, st.booleans(), st.sampled_from([1, 3, 1 << 20]), FORMS)
def test_a_second_try_writes_the_files_of_the_first_again(
    pieces: list[list[tuple[object, ...]]],
    is_partitioned: bool,
    most: int,
    form: Callable[[list[tuple[object, ...]]], pa.Table],
) -> None:
    """By name, bytes and statistics, and beside them it leaves nothing."""
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("day",) if is_partitioned else ())
        tries, contents = [], []
        for _ in range(2):
            with Parts(folder, most, name="x") as parts:
                for piece in pieces:
                    parts.add(form(piece))
                tries.append(parts.close())
            contents.append(files_below(Path(folder.uri)))
        assert tries[0] == tries[1]
        assert contents[0] == contents[1]
        assert contents[0].keys() == {file.path for file in tries[0]}


def files_below(folder: Path) -> dict[str, bytes]:
    """Path in the folder → the file's bytes; without the log."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "_delta_log" not in path.parts
    }


@pytest.mark.parametrize("comes_to_its_end", [False, True])
def test_a_first_try_that_lives_on_leaves_the_table_as_the_second_has_made_it(
    tmp_path: Path, comes_to_its_end: bool
) -> None:
    """It writes before, between and after what the second writes and commits, and then dies or ends."""
    folder = Folder(f"{tmp_path}/t", SCHEMA)
    pieces = [table_of([(number, "a", START, None)] * 1000) for number in range(4)]
    with Parts(folder, 2000, name="x") as first_try:
        first_try.add(pieces[0])
        with Parts(folder, 2000, name="x") as second_try:
            for piece in pieces:
                second_try.add(piece)
            files = second_try.close()
        folder.commit_files(files)
        for piece in pieces[1:3]:
            first_try.add(piece)
        if comes_to_its_end:
            first_try.add(pieces[3])
            assert first_try.close() == files
    assert len(files) == 2
    assert folder.read().equals(pa.concat_tables(pieces).select(SCHEMA.names))
