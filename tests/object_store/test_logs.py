"""The log of a table in an object store; delta-rs reads the same table from the server's files."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import LogDamaged
from tests.object_store.conftest import Store
from tests.object_store.proxy import Fault
from tests.object_store.server import BUCKET

SCHEMA = pa.schema([("n", pa.int64())])


def table_in(store: Store, name: str, commits: int) -> tuple[str, Path]:
    """(URI, the server's folder) of a table to which one process has appended so many rows."""
    folder = Folder(f"s3://{BUCKET}/{name}", SCHEMA)
    for n in range(commits):
        folder.append(pa.table({"n": [n]}))
    store.proxy.forget()
    return folder.uri, store.folder / name


def checkpoint_versions(files: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (files / "_delta_log").glob("*.checkpoint.parquet"))


def values(folder: Folder) -> list[int]:
    return sorted(folder.read()["n"].to_pylist())


def test_commits_since_its_checkpoint_are_read_once(in_store: Store) -> None:
    uri, files = table_in(in_store, "long", 22)
    table = DeltaTable(files)
    assert (table.version(), sorted(table.to_pyarrow_table()["n"].to_pylist())) == (22, list(range(22)))
    assert checkpoint_versions(files) == [9, 19]
    reader = Folder(uri, SCHEMA)
    assert reader.version() == 22
    commits = [
        int(request.target[-25:-5])
        for request in in_store.proxy.requests()
        if request.kind == "GET" and request.target.endswith(".json")
    ]
    assert commits == [20, 21, 22, 23], "the last is not there"
    in_store.proxy.forget()
    assert reader.version() == 22
    assert in_store.proxy.counts() == {"GET": 1}
    assert values(reader) == list(range(22))


def test_of_checkpoints_the_newest_two_are_kept(in_store: Store) -> None:
    _, files = table_in(in_store, "versions", 40)
    assert checkpoint_versions(files) == [29, 39]
    assert [DeltaTable(files, version=version).count() for version in range(41)] == list(range(41))


def test_a_commit_whose_answer_is_lost_is_among_what_is_known(in_store: Store) -> None:
    uri, _ = table_in(in_store, "unanswered", 2)
    folder = Folder(uri, SCHEMA)
    assert values(folder) == [0, 1]
    with in_store.proxy.faults(Fault.LOST, r"PUT .*unanswered/_delta_log/"):
        folder.append(pa.table({"n": [2]}))
    assert folder.known_files().rows == 3
    assert folder.files(table=folder.newest_known()).rows == 3


def test_a_checkpoint_is_as_good_as_the_commits_before_it(in_store: Store) -> None:
    uri, files = table_in(in_store, "cleaned", 12)
    for version in range(9):
        (files / f"_delta_log/{version:020d}.json").unlink()
    assert values(Folder(uri, SCHEMA)) == list(range(12))
    assert sorted(DeltaTable(files).to_pyarrow_table()["n"].to_pylist()) == list(range(12))


def test_what_others_commit_is_seen(in_store: Store) -> None:
    """Plain commits by their names, others by opening the table anew."""
    uri, files = table_in(in_store, "shared", 2)
    reader, other = Folder(uri, SCHEMA), Folder(uri, SCHEMA)
    assert values(reader) == [0, 1]
    other.append(pa.table({"n": [2]}))
    assert values(reader) == [0, 1, 2]
    other.add_columns([pa.field("more", pa.string())])
    assert reader.stored_schema().names == ["n"], "what it knows will do"
    assert reader.open().schema.names == ["n", "more"]
    DeltaTable(files).delete("n = 1")
    assert values(reader) == [0, 2]


def test_where_there_is_no_table_there_is_none(in_store: Store) -> None:
    folder = Folder(f"s3://{BUCKET}/nowhere", SCHEMA)
    assert folder.find() is None and values(folder) == []


# With and without a checkpoint before it, in the middle and at the end.
@pytest.mark.parametrize(("commits", "version"), [(4, 3), (4, 4), (14, 13), (14, 14)])
def test_an_empty_commit_is_named(in_store: Store, commits: int, version: int) -> None:
    uri, files = table_in(in_store, f"damaged_{version}", commits)
    (files / f"_delta_log/{version:020d}.json").write_bytes(b"")
    with pytest.raises(LogDamaged, match=f"{version:020d}.json is empty"):
        Folder(uri, SCHEMA).read()


@pytest.mark.parametrize(("commits", "version"), [(4, 3), (4, 4), (14, 13), (14, 14)])
def test_a_commit_that_is_cut_between_two_lines_is_named(in_store: Store, commits: int, version: int) -> None:
    uri, files = table_in(in_store, f"cut_{version}", commits)
    commit = files / f"_delta_log/{version:020d}.json"
    commit.write_bytes(commit.read_bytes().rpartition(b"\n")[0])
    for use in (Folder(uri, SCHEMA).read, lambda: Folder(uri, SCHEMA).append(pa.table({"n": [9]}))):
        with pytest.raises(LogDamaged, match=f"{version:020d}.json was cut off: it has 1 of its 2 lines"):
            use()
