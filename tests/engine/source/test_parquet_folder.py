"""What is recorded of a folder of Parquet files, and what its versions say has come, gone and changed."""

import json
import os
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.file_list import FileUnfinished, columns_of, list_files
from slackwater.engine.source.files import NOWHERE, files_with_bounds
from slackwater.engine.source.parquet_folder import (
    FolderPlace,
    PinnedFolder,
    folder_at,
    look_at_folder,
)
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CommitConflict

SCHEMA = pa.schema([("a", pa.timestamp("us", tz="UTC")), ("x", pa.int64())])


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    (tmp_path / "landing").mkdir()
    return FolderPlace(str(tmp_path / "landing"), str(tmp_path / "record"))


def write(place: FolderPlace, name: str, *arrivals: int | None) -> None:
    """A file with rows that arrived at these microseconds."""
    table = pa.table({"a": pa.array(arrivals, SCHEMA.field("a").type), "x": range(len(arrivals))})
    pq.write_table(table.cast(SCHEMA), Path(place.uri) / name)


def remove(place: FolderPlace, name: str) -> None:
    (Path(place.uri) / name).unlink()


def record(place: FolderPlace) -> PinnedFolder:
    return look_at_folder(place, records=True)


def test_each_change_makes_a_version_and_none_makes_none(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    assert [record(place).version, record(place).version] == [0, 0]
    write(place, "b.parquet", 2)
    assert look_at_folder(place, records=False).version == 1
    assert record(place).version == 1
    remove(place, "a.parquet")
    write(place, "b.parquet", 2, 3)
    newest = record(place)
    assert newest.version == 2
    first = folder_at(place, 0)
    assert first is not None
    assert newest.table_id == first.table_id
    assert first.actions.column("path").to_pylist() == ["a.parquet"]
    assert [
        (commit.version, sorted(file.path for file in commit.removed_files))
        for commit in newest.commits_since(0)
    ] == [(1, []), (2, ["a.parquet", "b.parquet"])]
    assert {file.path for file in newest.commits_since(1)[0].added_files} == {"b.parquet"}
    assert folder_at(place, 3) is None


def test_two_that_look_at_once_record_one_version(
    place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, "a.parquet", 1)
    record(place)
    write(place, "b.parquet", 2)
    append, tries = Folder.append, []

    def append_second(folder: Folder, *arguments: object, **options: object) -> None:
        tries.append(folder)
        if len(tries) == 1:
            record(place)  # the other one is faster
            raise CommitConflict("somebody else was faster")
        append(folder, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Folder, "append", append_second)
    assert record(place).version == 1
    rows = Folder.existing_at(place.record_uri)
    assert rows is not None
    assert sorted(rows.read(["version", "path"]).to_pylist(), key=str) == [
        {"version": 0, "path": "a.parquet"},
        {"version": 1, "path": "b.parquet"},
    ]


def test_files_say_when_their_rows_arrived(place: FolderPlace) -> None:
    write(place, "a.parquet", 5, -7, None)
    write(place, "b.parquet", None, None)
    write(place, "c.parquet")
    source = record(place)
    bounds = {
        file.path: (bound, file.rows, file.may_hold_unread)
        for file, bound in files_with_bounds(source.actions, "a")
    }
    minute = 60_000_000  # bounds of 1970 are widened by it, as if a log had them
    assert bounds == {
        "a.parquet": ((-7 - minute, 5 + 999 + minute), 3, True),
        "b.parquet": (NOWHERE, 2, True),
        "c.parquet": (NOWHERE, 0, False),
    }
    # Rows without an arrival are those of the first run.
    assert [file.path for file in source.files(0, 1, "a", None)] == ["a.parquet", "b.parquet"]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_bounds_hold_all_times_of_a_file(tmp_path: Path, unit: str) -> None:
    numbers = random.Random(unit)
    values = [numbers.randint(-(10**15), 10**15) for _ in range(50)]
    kind = pa.timestamp(unit)
    pq.write_table(pa.table({"t": pa.array(values, kind)}), tmp_path / "a.parquet", row_group_size=7)
    [file] = list_files(str(tmp_path), {}).values()
    least, greatest, nulls = json.loads(file.bounds)["t"]
    us = [value * 1_000_000 // {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit] for value in values]
    assert (least, greatest, nulls) == (min(us), max(us), 0)
    assert columns_of(file.schema).field("t").type == pa.timestamp("us", tz="UTC")


def test_a_file_that_is_as_it_was_is_not_read_again(
    place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, "a.parquet", 1)
    before = record(place)
    monkeypatch.setattr("slackwater.engine.source.file_list.digest_of", None)
    assert record(place).version == before.version


def test_a_file_that_is_written_while_it_is_read_is_noticed(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    write(place, "b.parquet", 1)
    source = record(place)
    source.refuse_files_written_meanwhile(["a.parquet", "b.parquet"])
    write(place, "b.parquet", 1, 2, 3)
    source.refuse_files_written_meanwhile(["a.parquet"])
    with pytest.raises(FileUnfinished, match=r"the file b\.parquet was written or removed while it was read"):
        source.refuse_files_written_meanwhile(["a.parquet", "b.parquet"])
    remove(place, "a.parquet")
    assert source.changed_files(["a.parquet", "b.parquet"]) == {
        "a.parquet": "is missing",
        "b.parquet": "was changed",
    }


def test_columns_of_files_are_put_together_by_name(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    other = pa.table({"y": pa.array(["v"]).dictionary_encode(), "x": pa.array([1], pa.uint8())})
    pq.write_table(other, Path(place.uri) / "b.parquet")
    assert record(place).schema == pa.schema([*SCHEMA, ("y", pa.string())])
    pq.write_table(pa.table({"x": [0.5]}), Path(place.uri) / "c.parquet")
    assert record(place).schema.field("x").type == pa.float64()
    pq.write_table(pa.table({"x": ["text"]}), Path(place.uri) / "d.parquet")
    source = record(place)
    assert source.schema == pa.schema([SCHEMA.field("a"), ("y", pa.string())])
    reason = "it is double in a.parquet and string in d.parquet; no type holds both"
    assert source.conflicts == (("x", reason),)


def test_a_column_is_read_in_whatever_case_a_file_names_it(place: FolderPlace) -> None:
    write(place, "b.parquet", 1)
    record(place)
    rows = pa.table({"A": pa.array([2, 3], SCHEMA.field("a").type), "X": [7, 8]})
    pq.write_table(rows, Path(place.uri) / "a.parquet")
    source = record(place)
    assert source.schema == SCHEMA and source.conflicts == ()
    files = source.files(0, 1, "a", None)
    columns = [read_columns(source.uri, file, source.schema, ["x", "a"]) for file in files]
    assert [table.column("x").to_pylist() for table in columns] == [[7, 8], [0]]
    pq.write_table(pa.table({"x": [1], "X": [2]}), Path(place.uri) / "c.parquet")
    assert [name for name, _ in record(place).conflicts] == ["x"]


def test_a_file_whose_arrivals_are_days_is_no_file_without_arrivals(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    pq.write_table(pa.table({"a": pa.array([3], pa.date32()), "x": [1]}), Path(place.uri) / "b.parquet")
    source = record(place)
    day_ms = 86_400_000
    assert [file.path for file in source.files(3 * day_ms, 4 * day_ms, "a", None)] == ["b.parquet"]


def test_tasks_are_not_sent_the_record(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    source = record(place)
    assert pickle.loads(pickle.dumps(source)).changes == ()
    assert source.changes


def modify(place: FolderPlace, name: str, second: int) -> None:
    """Have a file say that it was last modified at this second."""
    os.utime(Path(place.uri) / name, (second, second))


def arrivals_of_files(place: FolderPlace, version: int | None = None) -> dict[str, tuple[float, int]]:
    """Path → (second at which it arrived, version of the list that has first had it)."""
    source = (
        look_at_folder(place, records=True, arrives_by_commit=True)
        if version is None
        else folder_at(place, version, arrives_by_commit=True)
    )
    assert source is not None
    return {
        file.path: (bounds[1] / 1_000_000, dict(file.partition)[COMMIT_VERSION])
        for file, bounds in source.files_with_bounds(COMMIT_TIME)
        if bounds is not None
    }


def test_a_file_arrives_when_it_was_modified_before_it_was_first_seen(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    modify(place, "a.parquet", 100)
    assert arrivals_of_files(place) == {"a.parquet": (100.0, 0)}
    modify(place, "a.parquet", 150)  # touched: the same bytes
    write(place, "b.parquet", 2)
    modify(place, "b.parquet", 200)
    assert arrivals_of_files(place) == {"a.parquet": (100.0, 0), "b.parquet": (200.0, 1)}
    assert arrivals_of_files(place, 0) == {"a.parquet": (100.0, 0)}


def test_a_copy_that_keeps_its_old_time_arrives_after_all_that_was_there(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    modify(place, "a.parquet", 100)
    arrivals_of_files(place)
    write(place, "b.parquet", 2)
    modify(place, "b.parquet", 50)
    assert arrivals_of_files(place)["b.parquet"] == (100.000001, 1)


def test_a_changed_file_arrives_again(place: FolderPlace) -> None:
    write(place, "a.parquet", 1)
    modify(place, "a.parquet", 100)
    arrivals_of_files(place)
    write(place, "a.parquet", 1, 2)
    modify(place, "a.parquet", 300)
    assert arrivals_of_files(place) == {"a.parquet": (300.0, 1)}
