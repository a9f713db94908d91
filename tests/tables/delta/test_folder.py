"""A folder is a plain Delta table: made once, read with pruning, changed only from the version that the
writer saw.
"""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Transaction

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.errors import CommitConflict, NotADeltaTable, WarehouseNotWritable

SCHEMA = pa.schema([("n", pa.int64()), ("day", pa.date32())])
MONDAY, TUESDAY = date(2013, 1, 7), date(2013, 1, 8)


def rows(*values: tuple[int, date | None]) -> pa.Table:
    return pa.Table.from_pylist([{"n": n, "day": day} for n, day in values], schema=SCHEMA)


def values(folder: Folder) -> list[tuple[int, date | None]]:
    return sorted((row["n"], row["day"]) for row in folder.read().to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(f"{tmp_path}/warehouse/p/runs", SCHEMA, ("day",))


def test_a_table_that_is_not_there_is_read_as_empty_and_is_not_made(folder: Folder) -> None:
    assert folder.find() is None
    assert folder.read().schema == SCHEMA
    assert folder.read(["day"]).schema.names == ["day"]
    with pytest.raises(NotADeltaTable, match="no Delta table"):
        folder.open()
    assert not Path(folder.uri).exists()


def test_ensuring_twice_makes_one_table(folder: Folder) -> None:
    assert folder.ensure().version() == folder.ensure().version() == 0
    assert folder.open().partition_columns == ("day",)
    assert folder.name == "runs"


def test_a_plain_table_has_no_features_that_a_reader_might_lack(folder: Folder) -> None:
    folder.append(rows((1, MONDAY)))
    protocol = folder.open().as_delta_rs().protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert not protocol.reader_features and not protocol.writer_features


def test_an_append_from_a_stale_handle_is_refused_and_changes_nothing(folder: Folder) -> None:
    stale = folder.ensure()
    folder.append(rows((1, MONDAY)), expected_table=folder.open())
    with pytest.raises(CommitConflict):
        folder.append(rows((2, MONDAY)), expected_table=stale)
    assert values(folder) == [(1, MONDAY)]


def test_an_append_without_expectation_goes_after_whatever_came_before(folder: Folder) -> None:
    for n in range(3):
        folder.append(rows((n, MONDAY)))
    assert values(folder) == [(n, MONDAY) for n in range(3)]


@pytest.mark.parametrize("empty", [False, True])
def test_a_commit_carries_its_application_transaction(folder: Folder, empty: bool) -> None:
    folder.append(
        rows() if empty else rows((1, MONDAY)),
        expected_table=folder.ensure(),
        transaction=Transaction("slackwater", 7),
    )
    assert folder.open().transaction_version("slackwater") == 7
    files = [] if empty else [file_of(folder, 2)]
    folder.commit_files(files, folder.files(), folder.open(), Transaction("slackwater", 8))
    assert folder.open().transaction_version("slackwater") == 8
    assert values(folder) == ([] if empty else [(2, MONDAY)])


def test_columns_are_stored_in_the_declared_order_and_types(folder: Folder) -> None:
    folder.append(pa.table({"day": pa.array([MONDAY]), "n": pa.array([1], pa.int8())}))
    assert folder.read().schema.equals(SCHEMA)


def test_a_filter_reads_the_files_that_can_hold_it(folder: Folder) -> None:
    folder.append(rows((1, MONDAY)))
    folder.append(rows((2, TUESDAY)))
    [deleted_path] = [path for path in folder.open().as_delta_rs().file_uris() if str(MONDAY) in path]
    Path(deleted_path).unlink()
    assert folder.read(["n"], pc.field("day") == TUESDAY).to_pylist() == [{"n": 2}]
    assert folder.read(["n"], pc.field("n") > 1).to_pylist() == [{"n": 2}]


def file_of(folder: Folder, n: int) -> WrittenFile:
    return write_file(folder.uri, f"day={MONDAY}/{n}.parquet", pa.table({"n": [n]}), {"day": str(MONDAY)})


class TestFilesThatWereWrittenBeforehand:
    def test_they_become_part_of_the_table_in_one_commit(self, folder: Folder) -> None:
        version = folder.ensure().version()
        day = str(MONDAY)
        files = [
            write_file(folder.uri, f"day={day}/{n}.parquet", pa.table({"n": [n, n + 1]}), {"day": day})
            for n in (1, 5)
        ]
        assert values(folder) == []
        folder.commit_files(files)
        assert values(folder) == [(n, MONDAY) for n in (1, 2, 5, 6)]
        assert folder.open().version() == version + 1
        assert [(file.rows, file.bytes) for file in files] == [
            (2, (Path(folder.uri) / file.path).stat().st_size) for file in files
        ]

    def test_they_take_the_place_of_others_in_the_same_commit(self, folder: Folder) -> None:
        folder.append(rows((1, MONDAY), (2, TUESDAY)))
        version = folder.open().version()
        folder.commit_files([file_of(folder, 9)], folder.files(Within.only("day", MONDAY)))
        assert values(folder) == [(2, TUESDAY), (9, MONDAY)]
        assert folder.open().version() == version + 1

    def test_from_a_stale_handle_they_are_refused(self, folder: Folder) -> None:
        folder.append(rows((1, MONDAY), (2, TUESDAY)))
        stale, monday = folder.open(), folder.files(Within.only("day", MONDAY))
        folder.commit_files([], folder.files(Within.only("day", TUESDAY)))
        with pytest.raises(CommitConflict):
            folder.commit_files([file_of(folder, 9)], monday, stale)
        assert values(folder) == [(1, MONDAY)]

    def test_no_files_make_no_commit(self, folder: Folder) -> None:
        folder.commit_files([])
        assert folder.find() is None

    def test_their_statistics_prune_them(self, folder: Folder) -> None:
        day = str(MONDAY)
        files = [
            write_file(folder.uri, f"day={day}/{n}.parquet", pa.table({"n": [n]}), {"day": day})
            for n in (1, 2)
        ]
        folder.commit_files(files)
        (Path(folder.uri) / files[0].path).unlink()
        assert folder.read(["n"], pc.field("n") == 2).to_pylist() == [{"n": 2}]

    @pytest.mark.parametrize(
        ("kind", "stored_values", "least", "greatest"),
        [
            (pa.int32(), [3, None, -4], -4, 3),
            (pa.string(), ["b", "a"], "a", "b"),
            (pa.string(), ["s" * 33, "x" * 33], "s" * 32, "x" * 32 + "\U0010ffff"),
            (pa.string(), [None], None, None),
            (pa.date32(), [date(2013, 1, 2), date(1969, 12, 31)], "1969-12-31", "2013-01-02"),
            (pa.date32(), [4_000_000], None, None),  # a year beyond 9999
            (
                pa.timestamp("us", tz="UTC"),
                [0, -1],
                "1969-12-31T23:59:59.999999Z",
                "1970-01-01T00:00:00.000000Z",
            ),
            (
                pa.timestamp("ms", tz="Asia/Tokyo"),
                [1_500],
                "1970-01-01T00:00:01.500000Z",
                "1970-01-01T00:00:01.500000Z",
            ),
            (pa.timestamp("us"), [1], "1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000001"),
            (pa.timestamp("us", tz="UTC"), [2**62], None, None),
        ],
    )
    def test_their_statistics_are_in_the_logs_own_terms(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        kind: pa.DataType,
        stored_values: list[Any],
        least: Any,
        greatest: Any,
    ) -> None:
        monkeypatch.setenv("TZ", "America/New_York")
        column = (
            pa.array(stored_values)
            if pa.types.is_string(kind) or isinstance(stored_values[0], date)
            else pa.array(stored_values, storage(kind))
        )
        written = write_file(str(tmp_path), "x.parquet", pa.table({"x": column.cast(kind)}), {})
        log_statistics = json.loads(written.statistics)
        assert log_statistics["numRecords"] == len(stored_values)
        assert log_statistics["nullCount"] == {"x": stored_values.count(None)}
        assert (log_statistics["minValues"].get("x"), log_statistics["maxValues"].get("x")) == (
            least,
            greatest,
        )

    def test_columns_without_an_order_have_none(self, tmp_path: Path) -> None:
        table = pa.table({"s": [{"a": 1}], "b": [b"x"], "l": [[1]]})
        assert json.loads(write_file(str(tmp_path), "x.parquet", table, {}).statistics)["nullCount"] == {}

    def test_times_in_statistics_are_read_by_other_readers_as_they_were_written(self, tmp_path: Path) -> None:
        moments = [datetime(2013, 1, 1, tzinfo=UTC) + timedelta(microseconds=n) for n in (1, 999_999)]
        folder = Folder(str(tmp_path / "t"), pa.schema([("x", pa.timestamp("us", tz="UTC"))]))
        folder.ensure()
        kind = folder.schema.field("x").type
        tables = [pa.table({"x": pa.array([moment], kind)}) for moment in moments]
        folder.commit_files(
            [write_file(folder.uri, f"{n}.parquet", rows, {}) for n, rows in enumerate(tables)]
        )
        for moment in moments:
            assert folder.read(where=pc.field("x") == moment).num_rows == 1
        actions = folder.open().actions
        assert sorted(actions["min.x"].to_pylist()) == moments
        dataset = DeltaTable(folder.uri).to_pyarrow_dataset()
        with duckdb.connect() as connection:
            connection.register("t", dataset)
            assert connection.execute("SELECT count(*) FROM t WHERE x > ?", [moments[0]]).fetchone() == (1,)


def storage(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32()


class TestAWarehouseThatIsWrong:
    def test_a_file_in_the_way_of_the_folder_says_that_it_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("not a folder")
        folder = Folder(f"{tmp_path}/taken/p/runs", SCHEMA)
        for write in (
            folder.ensure,
            lambda: folder.append(rows((1, MONDAY))),
            lambda: write_file(folder.uri, "x.parquet", rows(), {}),
        ):
            with pytest.raises(
                WarehouseNotWritable, match=re.escape(f"{folder.uri}: can't be written (")
            ) as caught:
                write()
            assert "Not a directory" in str(caught.value) and caught.value.exit_code == 2
            assert "\n" not in str(caught.value)

    def test_a_log_that_vanished_under_a_handle_says_that_it_cannot_be_written(self, folder: Folder) -> None:
        handle = folder.ensure()
        log = Path(folder.uri) / "_delta_log"
        log.rename(log.with_name("elsewhere"))
        log.write_text("not a folder")
        with pytest.raises(WarehouseNotWritable, match="can't be written"):
            folder.append(rows((1, MONDAY)), expected_table=handle)

    def test_something_else_in_its_place_is_not_a_delta_table(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        broken = tmp_path / "broken" / "_delta_log"
        broken.mkdir(parents=True)
        (broken / f"{0:020}.json").write_text("garbage")
        for name in ("file", "broken"):
            with pytest.raises(NotADeltaTable, match=re.escape(f"{tmp_path}/{name}")) as caught:
                Folder(f"{tmp_path}/{name}", SCHEMA).find()
            assert "<unknown>" not in str(caught.value)

    def test_a_folder_of_other_files_holds_no_table(self, tmp_path: Path) -> None:
        (tmp_path / "notes.csv").write_text("a,b")
        assert Folder(str(tmp_path), SCHEMA).find() is None


def test_a_table_that_several_make_at_once_is_made_once(tmp_path: Path) -> None:
    for number in range(10):
        folder = Folder(str(tmp_path / f"t{number}"), pa.schema([("n", pa.int64())]))
        together = threading.Barrier(4)

        def make(folder: Folder = folder, together: threading.Barrier = together) -> int:
            together.wait()
            return folder.ensure().version()

        with ThreadPoolExecutor(4) as pool:
            assert [future.result() for future in [pool.submit(make) for _ in range(4)]] == [0] * 4
        assert folder.open().version() == 0


def damaged_pages(path: Path) -> Path:
    """`path` with one bit of its first page's contents flipped."""
    content, column = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(content))
    return path


def test_an_append_may_divide_the_rows_of_a_partition_among_several_files(folder: Folder) -> None:
    appended_rows = rows(*((n, MONDAY) for n in range(7)), (7, TUESDAY))
    folder.append(appended_rows, rows_per_file=3)
    counts = folder.files().actions.select(["path", "num_records"]).to_pylist()
    days = sorted((one["path"].split("/")[0], one["num_records"]) for one in counts)
    assert days == [
        ("day=2013-01-07", 1),
        ("day=2013-01-07", 3),
        ("day=2013-01-07", 3),
        ("day=2013-01-08", 1),
    ]
    assert values(folder) == [(n, MONDAY) for n in range(7)] + [(7, TUESDAY)]


def test_appended_files_have_page_checksums(folder: Folder) -> None:
    folder.append(rows(*((n * n, MONDAY) for n in range(100))))
    [path] = folder.open().as_delta_rs().file_uris()
    with pytest.raises(OSError, match="checksum"):
        pq.ParquetFile(damaged_pages(Path(path)), page_checksum_verification=True).read()
