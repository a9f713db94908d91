"""A table of format 1 becomes one without partitions in one commit, whatever races or dies, and its rows are
the same before and after.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.migration import repartition
from slackwater.tables.delta.stored_files import StoredFiles
from tests.warehouses.earlier import unpacked

TABLES = ("panes", "late_events", "quarantine", "side_records")


@pytest.fixture
def peaks(tmp_path: Path) -> Path:
    return unpacked(tmp_path, 1) / "peaks"


def folder_of(table: Path) -> Folder:
    return Folder(str(table), pa.schema(DeltaTable(str(table)).schema()))


def rows_of(table: Path) -> list[str]:
    return sorted(map(repr, DeltaTable(str(table)).to_pyarrow_table().to_pylist()))


@pytest.mark.parametrize("name", TABLES)
def test_its_rows_stay_as_they_are_for_every_reader_and_one_commit_does_it(peaks: Path, name: str) -> None:
    table = peaks / name
    before, version = rows_of(table), DeltaTable(str(table)).version()
    assert DeltaTable(str(table)).metadata().partition_columns == ["run_id"] and before
    for _ in range(2):
        repartition(folder_of(table))
        migrated_table = DeltaTable(str(table))
        assert (migrated_table.version(), migrated_table.metadata().partition_columns) == (version + 1, [])
        assert migrated_table.metadata().configuration == {"delta.checkpointInterval": "10"}
    assert rows_of(table) == before
    assert (
        sorted(map(repr, pl.read_delta(str(table)).to_arrow().cast(folder_of(table).schema).to_pylist()))
        == before
    )
    with duckdb.connect() as connection:
        rows_of_duckdb = connection.sql(
            f"SELECT * FROM read_parquet({migrated_table.file_uris()!r}, hive_partitioning=false)"
        ).to_arrow_table()
    assert sorted(map(repr, rows_of_duckdb.cast(folder_of(table).schema).to_pylist())) == before, (
        "the files have the column themselves"
    )


def test_an_empty_table_loses_its_partitions_too(tmp_path: Path) -> None:
    schema = pa.schema([("run_id", pa.string()), ("n", pa.int64())])
    Folder(str(tmp_path), schema, ("run_id",)).ensure()
    repartition(Folder(str(tmp_path), schema))
    assert DeltaTable(str(tmp_path)).metadata().partition_columns == []
    assert Folder(str(tmp_path), schema).read().num_rows == 0


def test_two_migrations_at_once_leave_each_row_once(peaks: Path) -> None:
    table = peaks / "panes"
    before, version = rows_of(table), DeltaTable(str(table)).version()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: repartition(folder_of(table)), range(4)))
    assert rows_of(table) == before
    assert DeltaTable(str(table)).version() == version + 1


def test_a_migration_that_dies_in_the_middle_changes_nothing_and_is_done_again(
    peaks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = peaks / "panes"
    before, version = rows_of(table), DeltaTable(str(table)).version()

    scan = StoredFiles.scan

    def dying_scan(files: StoredFiles, *arguments: Any) -> Iterator[pa.Table]:
        yield next(scan(files, *arguments))
        raise RuntimeError("killed")

    monkeypatch.setattr(StoredFiles, "scan", dying_scan)
    with pytest.raises(Exception, match="killed"):
        repartition(folder_of(table))
    assert (rows_of(table), DeltaTable(str(table)).version()) == (before, version)
    monkeypatch.undo()
    repartition(folder_of(table))
    assert rows_of(table) == before and DeltaTable(str(table)).metadata().partition_columns == []


def test_a_table_that_is_so_already_is_left_alone(peaks: Path) -> None:
    log = peaks / "published" / "_delta_log"
    before = sorted(log.iterdir())
    repartition(Folder(str(peaks / "published"), folder_of(peaks / "published").schema, ("window_date",)))
    assert sorted(log.iterdir()) == before
    shutil.rmtree(peaks / "panes")
    repartition(Folder(str(peaks / "panes"), pa.schema([])))
    assert not (peaks / "panes").exists()
