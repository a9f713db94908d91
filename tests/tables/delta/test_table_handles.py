"""The table that a folder keeps open (`table_handles`), through the folder's own doors."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction

from slackwater.tables.delta import table_handles
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.errors import CommitConflict

SCHEMA = pa.schema([("n", pa.int64()), ("day", pa.date32())])
MONDAY, TUESDAY = date(2013, 1, 7), date(2013, 1, 8)


def rows(*values: tuple[int, date | None]) -> pa.Table:
    return pa.Table.from_pylist([{"n": n, "day": day} for n, day in values], schema=SCHEMA)


def values(folder: Folder) -> list[tuple[int, date | None]]:
    return sorted((row["n"], row["day"]) for row in folder.read().to_pylist())


def file_of(folder: Folder, n: int) -> WrittenFile:
    return write_file(folder.uri, f"day={MONDAY}/{n}.parquet", pa.table({"n": [n]}), {"day": str(MONDAY)})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(f"{tmp_path}/warehouse/p/runs", SCHEMA, ("day",))


@pytest.fixture
def opened_uris(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URI of each table that is opened, one entry each time. The folder's table exists before."""
    uris: list[str] = []

    class RecordingTable(DeltaTable):
        def __init__(self, uri: str, **options: Any) -> None:
            uris.append(uri)
            super().__init__(uri, **options)

    folder.ensure()
    monkeypatch.setattr(table_handles, "DeltaTable", RecordingTable)
    return uris


def test_a_table_that_is_used_again_and_again_is_opened_once(folder: Folder, opened_uris: list[str]) -> None:
    folder.stored_schema()
    folder.append(rows((1, MONDAY)))
    folder.append(rows((2, MONDAY)), expected_table=folder.ensure())
    folder.commit_files([file_of(folder, 3)])
    assert values(folder) == [(1, MONDAY), (2, MONDAY), (3, MONDAY)]
    assert not opened_uris, "its maker has it open"


def test_a_checkpoint_is_written_now_and_then(folder: Folder, opened_uris: list[str]) -> None:
    for n in range(35):
        folder.append(rows((n, MONDAY)))
    assert not opened_uris, "its maker has it open"
    checkpoints = sorted(Path(folder.uri, "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(path.name[:20]) for path in checkpoints] == [19, 29], "the one before these is superseded"
    assert values(folder) == [(n, MONDAY) for n in range(35)]


def test_every_version_can_be_read_though_its_checkpoint_is_superseded(folder: Folder) -> None:
    for n in range(40):
        folder.append(rows((n, MONDAY)))
    assert [DeltaTable(folder.uri, version=version).count() for version in range(41)] == list(range(41))


def test_checkpoints_of_upkeep_and_of_other_writers_are_not_superseded(folder: Folder) -> None:
    log = Path(folder.uri, "_delta_log")
    for n in range(24):
        folder.append(rows((n, MONDAY)))
    TableUpkeep(folder).checkpoint()
    for n in range(24, 60):
        folder.append(rows((n, MONDAY)))
    assert sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")) == [24, 49, 59]


def test_the_checkpoint_before_which_commits_are_gone_is_not_superseded(folder: Folder) -> None:
    log = Path(folder.uri, "_delta_log")
    for n in range(12):
        folder.append(rows((n, MONDAY)))
    for version in range(9):
        (log / f"{version:020d}.json").unlink()
    for n in range(12, 50):
        folder.append(rows((n, MONDAY)))
    assert sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")) == [9, 39, 49]
    assert [DeltaTable(folder.uri, version=version).count() for version in range(9, 51)] == list(range(9, 51))


def test_a_table_that_was_opened_from_a_superseded_checkpoint_says_how_far_a_writer_is(
    folder: Folder,
) -> None:
    folder.append(rows((0, MONDAY)), transaction=Transaction("writer", 7))
    for n in range(1, 10):
        folder.append(rows((n, MONDAY)))
    reader = Folder(folder.uri, SCHEMA, ("day",))
    table = reader.open()
    for n in range(10, 40):
        folder.append(rows((n, MONDAY)))
    assert not Path(folder.uri, "_delta_log", f"{9:020d}.checkpoint.parquet").exists()
    assert table.transaction_version("writer") == 7
    assert reader.open().transaction_version("writer") == 7


def test_one_that_lists_a_million_files_is_not_written_before_fifty_commits(folder: Folder) -> None:
    folder.ensure()

    def commit_and_look(n: int) -> list[int]:
        folder.append(rows((n, MONDAY)))
        checkpoints = sorted(Path(folder.uri, "_delta_log").glob("*.checkpoint.parquet"))
        return [int(path.name[:20]) for path in checkpoints]

    for n in range(9):
        commit_and_look(n)
    hint = Path(folder.uri, "_delta_log", "_last_checkpoint")
    for actions, numbers, versions in (
        (400_000, range(9, 29), [9, 29]),
        (1_000_000, range(29, 79), [29, 79]),
        (9_000_000, range(79, 129), [79, 129]),
        (199_999, range(129, 139), [129, 139]),
    ):
        hint.write_text(json.dumps({**json.loads(hint.read_text()), "size": actions}))
        *_, before, after = [commit_and_look(n) for n in numbers]
        assert after == versions
        assert before[-1] == versions[0], "the last is written by the last of these commits"
    assert values(folder) == [(n, MONDAY) for n in range(139)]


def test_files_are_listed_once_and_then_follow_the_commits(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[str] = []

    class CountedTable(DeltaTable):
        def get_add_actions(self, flatten: bool = False) -> Any:
            listings.append(self.table_uri)
            return super().get_add_actions(flatten)

    monkeypatch.setattr(table_handles, "DeltaTable", CountedTable)
    replace(folder).append(rows((1, MONDAY)))
    assert [folder.files().rows for _ in range(3)] == [1, 1, 1]
    replace(folder).append(rows((2, MONDAY)))
    assert [folder.files(Within.only("n", n)).rows for n in (1, 2, 3)] == [1, 1, 0]
    assert len(listings) == 1


def test_a_table_that_a_caller_has_stays_at_its_version(folder: Folder) -> None:
    folder.append(rows((1, MONDAY)))
    table = folder.open()
    version = table.version()
    folder.append(rows((2, MONDAY)))
    folder.commit_files([file_of(folder, 3)])
    assert values(folder) == [(1, MONDAY), (2, MONDAY), (3, MONDAY)]
    assert table.version() == version
    with pytest.raises(CommitConflict):
        folder.append(rows((4, MONDAY)), expected_table=table)


def test_a_folder_sees_what_others_have_committed_since(folder: Folder) -> None:
    other = replace(folder)
    for n in range(12):  # beyond a checkpoint
        assert values(folder) == [(before, MONDAY) for before in range(n)]
        other.append(rows((n, MONDAY)))
    other.commit_files([], other.files(Within.only("n", 3)))
    assert (3, MONDAY) not in values(folder)
    other.add_columns([pa.field("more", pa.string())])
    assert folder.stored_schema().names == ["n", "day", "more"]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_table_that_was_removed_is_forgotten(folder: Folder, is_made_again: bool) -> None:
    folder.append(rows((1, MONDAY)))
    folder.append(rows((2, MONDAY)))
    assert len(values(folder)) == 2
    shutil.rmtree(folder.uri)
    if is_made_again:
        replace(folder).append(rows((7, TUESDAY)))
    assert values(folder) == ([(7, TUESDAY)] if is_made_again else [])
    folder.append(rows((8, TUESDAY)))
    assert folder.open().version() == (2 if is_made_again else 1)
    assert values(folder) == [*([(7, TUESDAY)] if is_made_again else []), (8, TUESDAY)]


def test_threads_that_append_at_once_append_once_each(folder: Folder) -> None:
    folder.stored_schema()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: folder.append(rows((n, MONDAY))), range(12)))
    assert values(folder) == [(n, MONDAY) for n in range(12)]


def test_of_threads_that_append_at_once_from_one_version_one_commits(folder: Folder) -> None:
    folder.append(rows((0, MONDAY)))
    tables = [folder.open() for _ in range(4)]

    def append(n: int) -> bool:
        try:
            folder.append(rows((n, MONDAY)), expected_table=tables[n - 1])
        except CommitConflict:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        won = [n for n, has_won in zip(range(1, 5), threads.map(append, range(1, 5)), strict=True) if has_won]
    assert len(won) == 1
    assert values(folder) == [(0, MONDAY), (won[0], MONDAY)]
