"""A commit counts once, also where the answer to it is lost, and nobody takes another's commit for their
own.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction
from pyarrow import NativeFile

from slackwater.tables.delta import commits
from slackwater.tables.delta.commits import Owner, PendingCommit
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.errors import CommitConflict, CommitUnknown, WarehouseNotWritable
from slackwater.tables.stores import put_first
from tests.lost_answers import WAYS, lost_answers

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(f"{tmp_path}/t", SCHEMA)


def rows(*values: int) -> pa.Table:
    return pa.table({"n": values}, schema=SCHEMA)


def file_of(folder: Folder, n: int) -> WrittenFile:
    return write_file(folder.uri, f"{n}.parquet", rows(n), {})


def values(folder: Folder) -> list[int]:
    return sorted(folder.read().column("n").to_pylist())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_expected", [True, False])
class TestACommitThatStandsAndWhoseAnswerIsLost:
    def test_rows_are_appended_once(self, folder: Folder, way: str, is_expected: bool) -> None:
        table = folder.ensure()
        with lost_answers(way, "t") as tables_committed_to:
            folder.append(rows(1), expected_table=table if is_expected else None)
        assert tables_committed_to == ["t"]
        assert (values(folder), folder.open().version()) == ([1], 1)

    def test_files_are_committed_once(self, folder: Folder, way: str, is_expected: bool) -> None:
        table = folder.ensure()
        with lost_answers(way, "t") as tables_committed_to:
            folder.commit_files([file_of(folder, 1)], expected_table=table if is_expected else None)
        assert tables_committed_to == ["t"]
        assert (values(folder), folder.open().version()) == ([1], 1)

    def test_the_next_commit_follows_it(self, folder: Folder, way: str, is_expected: bool) -> None:
        for n in range(3):
            table = folder.ensure()
            with lost_answers(way, "t"):
                folder.append(rows(n), expected_table=table if is_expected else None)
        assert (values(folder), folder.open().version()) == ([0, 1, 2], 3)


def test_another_s_commit_of_the_same_rows_is_a_conflict(folder: Folder) -> None:
    """Two drivers may commit the same staged run: which of them has must not be read from the rows."""
    ours, another_s_folder = folder.ensure(), Folder(folder.uri, SCHEMA)
    another_s_folder.append(rows(1), expected_table=another_s_folder.open())
    with pytest.raises(CommitConflict):
        folder.append(rows(1), expected_table=ours)
    assert values(folder) == [1]


def test_an_append_that_meets_another_s_goes_behind_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = folder.ensure()
    Folder(folder.uri, SCHEMA).append(rows(1))
    handles = [stale]
    ensure = Folder.ensure
    monkeypatch.setattr(Folder, "ensure", lambda self: handles.pop() if handles else ensure(self))
    folder.append(rows(2))
    assert (values(folder), folder.open().version()) == ([1, 2], 2)


def test_a_commit_that_was_not_made_is_told_as_such(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    table = folder.ensure()

    def refuse(*_: object, **__: object) -> None:
        raise OSError("Permission denied (os error 13)")

    monkeypatch.setattr(commits, "put_first", refuse)
    written = [file_of(folder, 1)]
    with pytest.raises(WarehouseNotWritable, match="Permission denied"):
        folder.commit_files(written, expected_table=table)
    assert values(folder) == []


def test_where_the_log_can_not_be_asked_it_is_said_that_the_outcome_is_not_known(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = folder.ensure()

    class Unreachable:
        def open_input_stream(self, path: str) -> NativeFile:
            raise OSError("Generic S3 error: connection reset by peer")

    written = [file_of(folder, 1)]
    with lost_answers(WAYS[0], "t"):
        monkeypatch.setattr(commits, "filesystem", lambda uri: Unreachable())
        with pytest.raises(
            CommitUnknown,
            match=r"version 1 failed .*timed out.*can't be read .*connection reset.*Run the same command",
        ):
            folder.commit_files(written, expected_table=table)
    monkeypatch.undo()
    assert values(folder) == [1], "it stood"


def test_the_owner_of_a_version_is_known_by_its_token(folder: Folder) -> None:
    pending, transaction = PendingCommit(folder.uri, 1), Transaction("a", 1)
    assert pending.owner() is Owner.NOBODY
    pending.write(folder.ensure(), [], transaction)
    assert pending.owner() is Owner.OURS
    assert PendingCommit(folder.uri, 1).owner() is Owner.ANOTHER


def test_storage_that_fails_for_a_moment_is_asked_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError("Generic S3 error: error sending request")] * 2

    def fail_twice(uri: str, path: str, content: bytes) -> None:
        if failures:
            raise failures.pop()
        put_first(uri, path, content)

    monkeypatch.setattr(commits, "put_first", fail_twice)
    folder.append(rows(1))
    assert (values(folder), folder.open().version()) == ([1], 1)


def test_a_table_with_a_feature_of_its_own_is_committed_to_by_delta_rs(folder: Folder) -> None:
    """A plain commit would say too little, or what the table forbids."""
    folder.append(rows(1))
    DeltaTable(folder.uri).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    folder.append(rows(2))
    assert not folder.open().takes_plain_commits
    engines = [entry["engineInfo"].partition(":")[0] for entry in DeltaTable(folder.uri).history()]
    assert engines == ["delta-rs", "delta-rs", "slackwater", "delta-rs"]
    assert values(folder) == [1, 2]
