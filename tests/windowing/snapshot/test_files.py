"""Snapshot files say which format they have, and readers that know nothing of us read them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.windowing.snapshot import (
    FORMAT_VERSION,
    SnapshotFormatError,
    SnapshotTables,
    read_rows,
    read_tables,
    write_rows,
    write_tables,
)

TIME = pa.timestamp("us", tz="UTC")
ROWS = 300_000


def window_rows(keys: pa.Array) -> pa.Table:
    """Rows that fill more than one row group."""
    numbers = pa.array(range(len(keys)), pa.int64())
    return pa.table(
        {
            "key_group": pa.array([number * 128 // len(keys) for number in range(len(keys))], pa.int32()),
            "key": keys,
            "window_start": numbers.cast(TIME),
            "elements": numbers,
            "first_arrival": pa.array(
                [None if number % 3 else number for number in range(len(keys))], pa.int64()
            ).cast(TIME),
            "trigger_state": pa.nulls(len(keys), pa.string()),
        }
    )


TEXT_KEYS = window_rows(pa.array([f"key-{number:06}" for number in range(ROWS)]))


@pytest.mark.parametrize(
    "rows",
    [
        TEXT_KEYS,
        TEXT_KEYS.slice(0, 0),
        window_rows(pa.array([-1, 0, 2**31 - 1], pa.int32())),
        window_rows(pa.array([True, False, None])),
        window_rows(pa.array([datetime(2013, 1, 1, tzinfo=UTC).date()] * 3)),
    ],
    ids=["text", "empty", "int", "boolean", "date"],
)
def test_rows_and_version_come_back(rows: pa.Table) -> None:
    read, version = read_rows(write_rows(rows))
    assert read == rows
    assert read.schema.metadata is None
    assert version == FORMAT_VERSION


def test_duckdb_and_polars_read_snapshot_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(write_rows(TEXT_KEYS))
    expected = (ROWS, sum(range(ROWS)), f"key-{ROWS - 1:06}", (ROWS - 1) // 3 * 3)
    query = "select count(*), sum(elements), max(key), max(epoch_us(first_arrival)) from read_parquet(?)"
    with duckdb.connect() as connection:
        assert connection.execute(query, [str(path)]).fetchone() == expected
    frame = polars.read_parquet(path)
    latest = frame["first_arrival"].dt.epoch("us").max()
    assert (len(frame), frame["elements"].sum(), frame["key"].max(), latest) == expected


def test_a_range_of_key_groups_is_found_without_reading_the_rest() -> None:
    metadata = pq.read_metadata(pa.BufferReader(write_rows(TEXT_KEYS)))
    groups = [metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)]
    assert len(groups) > 1
    assert all(before.max <= after.min for before, after in itertools.pairwise(groups))


def test_a_file_without_a_version_is_no_snapshot(tmp_path: Path) -> None:
    pq.write_table(TEXT_KEYS.slice(0, 1), tmp_path / "rows.parquet")
    with pytest.raises(SnapshotFormatError, match="does not say which format"):
        read_rows((tmp_path / "rows.parquet").read_bytes())


def test_the_files_of_one_snapshot_have_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = SnapshotTables(*[TEXT_KEYS.slice(0, 2)] * 3)
    files = write_tables(tables)
    assert read_tables(files) == (tables, FORMAT_VERSION)
    monkeypatch.setattr("slackwater.windowing.snapshot.files.FORMAT_VERSION", 2)
    with pytest.raises(SnapshotFormatError, match="have the formats 1, 2"):
        read_tables((files[0], write_rows(tables.timers), files[2]))
