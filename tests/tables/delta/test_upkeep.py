"""The upkeep of one table changes no row, and nothing that somebody else has changed meanwhile."""

import json
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.delta.written_files import write_file
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.writer import LedgerWriter
from tests.tables.ledger.ledger_rows import clock, run_row

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("day", pa.date32())])
MONDAY, TUESDAY = date(2013, 1, 7), date(2013, 1, 8)
# Some rows a file, some files a day, and files of rows that belong to none.
FILES = [(MONDAY, 3), (TUESDAY, 1), (MONDAY, 2), (None, 2), (MONDAY, 4), (None, 1)]


@dataclass(frozen=True)
class FromThere(Folder):
    """A folder that is opened at an older version the first time: somebody else was quicker
    since.
    """

    older: list[OpenTable] = field(default_factory=list, compare=False)

    def open(self) -> OpenTable:
        return self.older.pop() if self.older else super().open()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A table of six small files."""
    folder = Folder(f"{tmp_path}/t", SCHEMA, ("day",))
    for number, (day, count) in enumerate(FILES):
        rows = pa.table(
            {
                "n": [10 * number + at for at in range(count)],
                "text": ["t"] * count,
                "day": pa.array([day] * count, pa.date32()),
            }
        )
        folder.append(rows)
    return folder


def older(folder: Folder) -> FromThere:
    return FromThere(folder.uri, folder.schema, folder.partition_by, older=[folder.open()])


def rows(folder: Folder) -> list[dict[str, Any]]:
    return sorted(DeltaTable(folder.uri).to_pyarrow_table().to_pylist(), key=lambda row: row["n"])


def newest_commit(folder: Folder) -> list[dict[str, Any]]:
    version = DeltaTable(folder.uri).version()
    return [
        json.loads(line)
        for line in Path(f"{folder.uri}/_delta_log/{version:020d}.json").read_text().splitlines()
    ]


class TestCompaction:
    def test_small_files_of_each_partition_become_one_and_no_row_changes(self, folder: Folder) -> None:
        before = rows(folder)
        assert TableUpkeep(folder).compactable() == 3
        assert TableUpkeep(folder).compact() == 3
        assert rows(folder) == before and len(DeltaTable(folder.uri).file_uris()) == 3
        assert TableUpkeep(folder).compactable() == TableUpkeep(folder).compact() == 0

    def test_rows_keep_the_order_in_which_they_came(self, folder: Folder) -> None:
        TableUpkeep(folder).compact()
        [of_monday] = [path for path in DeltaTable(folder.uri).file_uris() if "2013-01-07" in path]
        assert pq.read_table(of_monday, partitioning=None).column("n").to_pylist() == [
            0,
            1,
            2,
            20,
            21,
            40,
            41,
            42,
            43,
        ]

    def test_or_files_follow_each_other_by_the_least_value_of_a_column(self, tmp_path: Path) -> None:
        folder = Folder(str(tmp_path), pa.schema([("run_id", pa.string())]))
        for run_ids in (["b", "c"], ["d"], ["a"]):
            folder.append(pa.table({"run_id": run_ids}))
        TableUpkeep(folder, "run_id").compact()
        [path] = DeltaTable(folder.uri).file_uris()
        assert pq.read_table(path).column("run_id").to_pylist() == ["a", "b", "c", "d"]

    def test_streams_pass_it_by(self, folder: Folder) -> None:
        TableUpkeep(folder).compact()
        actions = [
            action[kind] for action in newest_commit(folder) for kind in ("add", "remove") if kind in action
        ]
        assert len(actions) == 7 and not any(action["dataChange"] for action in actions)

    def test_large_files_are_left_and_what_becomes_large_is_left_from_then_on(self, folder: Folder) -> None:
        sizes = [Path(path).stat().st_size for path in DeltaTable(folder.uri).file_uris()]
        assert TableUpkeep(folder, large_bytes=min(sizes)).compact() == 0
        assert TableUpkeep(folder, large_bytes=max(sizes) + 1).compact() == 2, (
            "of Monday's three files two are large together"
        )

    def test_of_two_from_one_version_the_second_does_not_commit(self, folder: Folder) -> None:
        before, second = rows(folder), older(folder)
        TableUpkeep(folder).compact()
        with pytest.raises(CommitConflict):
            TableUpkeep(second).compact()
        assert rows(folder) == before

    def test_a_column_that_a_run_adds_meanwhile_keeps_its_values(self, tmp_path: Path) -> None:
        schema = pa.schema([("run_id", pa.string())])
        folder = Folder(str(tmp_path), schema)
        folder.append(pa.table({"run_id": ["a"]}))
        late = Folder(str(tmp_path), schema.append(pa.field("gained", pa.string())))
        late.add_columns([late.schema.field("gained")])
        late.append(pa.table({"run_id": ["b"], "gained": ["value"]}))
        assert TableUpkeep(folder, "run_id").compact() == 1
        expected_rows = [{"run_id": "a", "gained": None}, {"run_id": "b", "gained": "value"}]
        assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == expected_rows

    def test_files_that_somebody_else_has_rewritten_are_left_and_others_compacted(
        self, folder: Folder
    ) -> None:
        before, second = rows(folder), older(folder)
        table = folder.open()
        stored_files = folder.files(table=table)
        [removed_path] = [
            path
            for path in stored_files.actions.column("path").to_pylist()
            if rows_in(folder, path) == [20, 21]
        ]
        moved_file = write_file(
            folder.uri,
            "day=2013-01-07/other.parquet",
            pa.table({"n": [20, 21], "text": ["t", "t"]}),
            {"day": "2013-01-07"},
        )
        is_removed = pa.array(
            [path == removed_path for path in stored_files.actions.column("path").to_pylist()]
        )
        folder.commit_files(
            [moved_file], replace(stored_files, actions=stored_files.actions.filter(is_removed)), table
        )
        assert TableUpkeep(second).compact() == 1, "the two files of no day"
        assert rows(folder) == before

    def test_rows_that_are_appended_meanwhile_are_there_afterwards(self, folder: Folder) -> None:
        second = older(folder)
        folder.append(pa.table({"n": [99], "text": ["t"], "day": pa.array([MONDAY], pa.date32())}))
        before = rows(folder)
        assert TableUpkeep(second).compact() == 3
        assert rows(folder) == before

    def test_a_table_that_never_rests_is_left_for_another_time(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, commit = rows(folder), Folder.commit_files

        def meddling_commit(self: Folder, *arguments: Any, **keywords: Any) -> None:
            write_deltalake(self.uri, SCHEMA.empty_table(), mode="append")
            commit(self, *arguments, **keywords)

        monkeypatch.setattr(Folder, "commit_files", meddling_commit)
        with pytest.raises(CommitConflict, match="has moved"):
            TableUpkeep(folder).compact()
        assert rows(folder) == before

    def test_a_ledger_reads_as_before(self, tmp_path: Path) -> None:
        """Lists, maps and structs, a branch whose name is too long for bounds, and a key that a reader prunes
        by.
        """
        ledger = LedgerWriter(Folder(f"{tmp_path}/runs", pa.schema(list(schemas.RUNS))))
        for seq in range(1, 4):
            files = {"panes": (f"run_id=r{seq}/a.parquet",), "timers": ()}
            ledger.commit(
                "main", seq - 1 or None, [run_row(f"r{seq}", files=files, phase_seconds={"pin": 0.5})], clock
            )
        long = "restate-20130101t000000-20130102t000000-by-43200000"
        ledger.commit(long, None, [run_row("redrive-" + long, kind="fork", branch=long)], clock)
        before = ledger.rows()
        assert TableUpkeep(ledger.folder).compact() == 3
        reopened_ledger = LedgerWriter(Folder(ledger.folder.uri, ledger.folder.schema))
        assert reopened_ledger.rows() == before
        assert (
            reopened_ledger.head() == before[2]
            and reopened_ledger.head(long) == before[3]
            and reopened_ledger.row(2) == before[1]
        )
        assert reopened_ledger.by_run_id("redrive-" + long) == before[3]


def rows_in(folder: Folder, path: str) -> list[int]:
    return list(
        pq.read_table(f"{folder.uri}/{path}", columns=["n"], partitioning=None).column("n").to_pylist()
    )


def drop_twice(folder: Folder) -> None:
    second = older(folder)
    TableUpkeep(folder).drop_partitions("day", ["2013-01-07"])
    TableUpkeep(second).drop_partitions("day", ["2013-01-07", "2013-01-08"])


def test_partitions_that_two_drop_at_once_are_gone_and_no_others(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}/t", pa.schema([("n", pa.int64()), ("day", pa.string())]), ("day",))
    for n, day in enumerate(["2013-01-07", "2013-01-08", "2013-01-09", "2013-01-07"]):
        folder.append(pa.table({"n": [n], "day": [day]}))
    drop_twice(folder)
    assert rows(folder) == [{"n": 2, "day": "2013-01-09"}]
    version = DeltaTable(folder.uri).version()
    TableUpkeep(folder).drop_partitions("day", ["2013-01-07"])
    assert DeltaTable(folder.uri).version() == version, "nothing to drop is no commit"


def test_partitions_are_counted(folder: Folder) -> None:
    assert {
        str(day): (one.files, one.rows) for day, one in TableUpkeep(folder).partitions("day").items()
    } == {
        "2013-01-07": (3, 9),
        "2013-01-08": (1, 1),
        "None": (2, 3),
    }


@pytest.mark.parametrize("retention", ["0 hours", "1000 hours"])
def test_a_property_of_others_does_not_let_files_go_that_a_run_at_work_may_need(
    folder: Folder, retention: str
) -> None:
    DeltaTable(folder.uri).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": f"interval {retention}"}
    )
    file = write_file(folder.uri, "staged.parquet", folder.read(), partition={})
    assert TableUpkeep(folder).vacuum(is_dry=False) == 0
    assert Path(folder.uri, file.path).exists()
