"""A table of ours is not written on top of what somebody else has done to it, and is taken back to what we
have written.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.take_back import take_back
from slackwater.tables.errors import ForeignCommits
from tests.campaigns.foreign_changes import Protocol, commit, give_feature

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"k": [f"k{number}" for number in numbers], "n": list(numbers)}, schema=SCHEMA)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A table of three commits: made, and twice appended to."""
    folder = Folder(str(tmp_path / "p" / "t"), SCHEMA, is_ours=True)
    folder.append(rows(1, 2))
    folder.append(rows(3))
    return folder


def stored(folder: Folder) -> list[int]:
    return sorted(DeltaTable(folder.uri).to_pyarrow_table().column("n").to_pylist())


def delete_twos(folder: Folder) -> None:
    DeltaTable(folder.uri).delete("n = 2")


def test_a_commit_is_not_built_on_rows_that_others_have_changed_since_the_table_was_opened(
    folder: Folder,
) -> None:
    assert folder.foreign_commits(0) == []
    delete_twos(folder)
    version = DeltaTable(folder.uri).version()
    with pytest.raises(ForeignCommits, match=rf"t \(version {version}: DELETE by delta-rs.*--rebuild"):
        folder.append(rows(4))
    assert DeltaTable(folder.uri).version() == version


def test_commits_that_change_neither_rows_nor_columns_are_built_on(folder: Folder) -> None:
    assert folder.foreign_commits(0) == []
    DeltaTable(folder.uri).optimize.compact()
    DeltaTable(folder.uri).alter.set_table_properties({"delta.checkpointInterval": "7"})
    folder.append(rows(4))
    assert stored(folder) == [1, 2, 3, 4]
    assert folder.foreign_commits(0) == []


def test_columns_of_ours_are_no_columns_of_others(folder: Folder) -> None:
    folder.add_columns([pa.field("added", pa.int64())])
    assert folder.foreign_commits(0) == []
    DeltaTable(folder.uri).alter.add_columns([Field("note", "string")])
    folder.find()
    [foreign] = folder.foreign_commits(0)
    assert (foreign.version, foreign.operation) == (4, "ADD COLUMN")


def test_a_table_is_taken_back_without_what_others_have_written_between_commits_of_ours(
    folder: Folder,
) -> None:
    write_deltalake(folder.uri, rows(5), mode="append")
    DeltaTable(folder.uri).optimize.compact()
    folder.find()  # nobody has asked whose commits these are: ours come behind them
    folder.append(rows(4))
    delete_twos(folder)
    taken_back = take_back(folder.uri, 2)
    assert taken_back is not None and taken_back.lost_files == 0
    folder.find()
    assert folder.foreign_commits(2) == []
    assert take_back(folder.uri, 2) is None
    assert stored(folder) == [1, 2, 3, 4]


@pytest.mark.parametrize("known_version", [2, 4])
def test_a_deletion_vector_is_taken_off_with_its_feature_and_the_rows_are_back(
    folder: Folder, known_version: int
) -> None:
    table = Path(folder.uri)
    give_feature(Protocol(3, 7, ("deletionVectors",)), enableDeletionVectors="true")(table)
    adds = pa.table(DeltaTable(table, version=2).get_add_actions(flatten=True)).to_pylist()
    file = next(add for add in adds if add["num_records"] == 2)
    facts = {"path": file["path"], "partitionValues": {}, "size": file["size_bytes"], "dataChange": True}
    # What the vector holds does not matter: it is taken off unread.
    vector = {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    vector |= {"sizeInBytes": 40, "cardinality": 1}
    added = {**facts, "modificationTime": 1, "stats": '{"numRecords":2}', "deletionVector": vector}
    commit(table, {"remove": {**facts, "deletionTimestamp": 1}}, {"add": added}, operation="DELETE")
    taken_back = take_back(folder.uri, known_version)
    assert taken_back is not None and taken_back.features == ("deletionVectors",)
    last_commit = max((table / "_delta_log").glob("*.json")).read_text()
    removed = [json.loads(line)["remove"] for line in last_commit.splitlines() if '"remove"' in line]
    assert [(one["path"], one["deletionVector"]["cardinality"]) for one in removed] == [(file["path"], 1)]
    delta = DeltaTable(table)
    assert (delta.protocol().min_reader_version, delta.protocol().min_writer_version) == (1, 2)
    assert "delta.enableDeletionVectors" not in delta.metadata().configuration
    assert stored(folder) == [1, 2, 3]
    folder.append(rows(4))
    assert stored(folder) == [1, 2, 3, 4]
