"""A folder of Parquet files as a source, by the command line: what comes, goes and changes in it."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.own_source import SCHEMA, OwnPipeline, every_hour, moment

SOURCE = 'source=ParquetSource("landing/own", event_time="e", arrival_time="a")'
IMPORT = "from slackwater import ParquetSource\n"


@pytest.fixture
def own(tmp_path: Path) -> OwnPipeline:
    pipeline = OwnPipeline(tmp_path)
    declare(pipeline, SOURCE)
    landing(pipeline).mkdir(parents=True)
    return pipeline


def declare(own: OwnPipeline, settings: str) -> None:
    own.declare(settings)
    own.file.write_text(IMPORT + own.file.read_text())


def landing(own: OwnPipeline) -> Path:
    return own.warehouse / "landing" / "own"


def write(own: OwnPipeline, name: str, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Path:
    path = landing(own) / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def published(own: OwnPipeline) -> dict[int, tuple[int, int]]:
    """Hour of the window's start → its results."""
    return {
        (row["window_start"] - moment(0)) // timedelta(hours=1): (row["n"], row["total"])
        for row in own.rows("published")
    }


def test_files_that_come_are_read_once_and_stragglers_among_them_are_folded_in(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    write(own, "day-1.parquet", every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert published(own)[20] == (2, 41)
    write(own, "day-2.parquet", every_hour(24, 48))
    write(
        own, "more/late%20, 100% of it ü.parquet", [{"e": moment(23), "a": moment(23), "k": "a", "x": 1000}]
    )
    assert own("plan", "own", "--to", "2013-01-03") == 0
    assert "1 rows appeared after the slice of their arrival was run" in capsys.readouterr().out
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert published(own)[22] == (3, 22 + 23 + 1000)
    assert published(own)[30] == (2, 61)
    runs = {row["seq"]: row for row in own.rows("runs")}
    inputs = [runs[seq]["inputs"][0] for seq in (1, 2)]
    assert [(item["table"], item["version"], item["files"]) for item in inputs] == [
        ("landing/own", 0, 1),
        ("landing/own", 1, 2),
    ]
    assert runs[2]["rows_folded"] == 1
    assert own("run", "own", "--to", "2013-01-04") == 0


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("is_removed", [False, True], ids=["changed", "removed"])
def test_a_file_that_is_changed_or_removed_is_a_rewrite_that_a_restatement_takes_in(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str], is_removed: bool
) -> None:
    write(own, "a.parquet", every_hour(0, 12))
    path = write(own, "b.parquet", every_hour(12, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    if is_removed:
        path.unlink()
    else:
        write(own, "b.parquet", [{**row, "x": 1} for row in every_hour(12, 24)])
    capsys.readouterr()
    assert own("plan", "own", "--to", "2013-01-03") == 0
    assert "it would be refused" in capsys.readouterr().out
    assert own("run", "own", "--to", "2013-01-03") == 2
    refusal = capsys.readouterr().err
    assert "rows that runs have already read were changed or removed" in refusal
    assert "1 files, e.g. b.parquet, arrivals from 2013-01-01T12:00:00Z on" in refusal
    assert "slackwater backfill own --from 2013-01-01T12:00:00Z --to 2013-01-02T00:00:00Z" in refusal
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert published(own).get(12) == (None if is_removed else (2, 2))
    assert published(own)[4] == (2, 9)
    assert own("run", "own", "--to", "2013-01-03") == 0


def test_a_file_of_which_no_run_has_read_a_row_may_change(own: OwnPipeline) -> None:
    write(own, "a.parquet", every_hour(0, 24))
    write(own, "b.parquet", every_hour(24, 48))
    assert own("run", "own", "--to", "2013-01-02") == 0
    write(own, "b.parquet", [{**row, "x": 1} for row in every_hour(24, 48)])
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert published(own)[30] == (2, 2)


def test_a_file_that_is_written_again_with_the_same_bytes_has_not_changed(own: OwnPipeline) -> None:
    path = write(own, "a.parquet", every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    os.utime(path, (1, 1))
    write(own, "b.parquet", every_hour(24, 48))
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert [row["rows_read"] for row in own.rows("runs")].count(24) == 2


def test_files_that_are_being_written_are_not_looked_at(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    write(own, "a.parquet", every_hour(0, 24))
    for name in ("_b.parquet", ".c.parquet", "d.parquet.tmp", "_temporary/e.parquet"):
        path = landing(own) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"PAR1 and no more")
    assert own("run", "own", "--to", "2013-01-02") == 0
    half = landing(own) / "b.parquet"
    half.write_bytes(b"PAR1 and no more")
    capsys.readouterr()
    assert own("run", "own", "--to", "2013-01-03") == 3
    assert (
        "the file b.parquet is being written. Repeat the command when it is whole" in capsys.readouterr().err
    )
    os.utime(half, (time.time() - 3600,) * 2)
    assert own("run", "own", "--to", "2013-01-03") == 1
    assert "the file b.parquet is damaged: it is no Parquet file, or not all of it" in capsys.readouterr().err
    half.unlink()
    assert own("run", "own", "--to", "2013-01-03") == 0


def test_an_empty_or_missing_folder_is_refused(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 2
    assert "there are no Parquet files in" in capsys.readouterr().err
    landing(own).rmdir()
    assert own("run", "own", "--to", "2013-01-02") == 2
    assert "there is no folder at" in capsys.readouterr().err


def test_files_of_other_types_go_together_where_a_type_holds_both(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    write(own, "a.parquet", every_hour(0, 12))
    naive = pa.timestamp("ns")
    other = pa.schema([("x", pa.int16()), ("e", naive), ("a", naive), ("k", pa.large_string())])
    rows = [
        {**row, "e": row["e"].replace(tzinfo=None), "a": row["a"].replace(tzinfo=None)}
        for row in every_hour(12, 24)
    ]
    write(own, "b.parquet", rows, other)
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert (published(own)[10], published(own)[12]) == ((2, 21), (2, 25))
    write(own, "c.parquet", [], pa.schema([*SCHEMA][:3]).append(pa.field("x", pa.string())))
    assert own("run", "own", "--to", "2013-01-03") == 2
    refusal = capsys.readouterr().err
    assert "reads the column 'x', and it is int64 in a.parquet and string in c.parquet" in refusal


def test_looking_records_nothing(own: OwnPipeline) -> None:
    write(own, "a.parquet", every_hour(0, 24))
    assert own("plan", "own", "--to", "2013-01-02") == 0
    assert not (own.warehouse / "own").exists()


@pytest.mark.slow
def test_a_folder_and_a_delta_table_are_one_stream(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = SOURCE.removeprefix("source=").removesuffix(")") + ', name="folder")'
    declare(own, f'source=[DeltaSource("sources/own", event_time="e", arrival_time="a"), {folder}]')
    own.append(every_hour(0, 24))
    path = write(own, "a.parquet", every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert published(own)[4] == (4, 18)
    path.unlink()
    write(own, "b.parquet", every_hour(24, 48))
    assert own("run", "own", "--to", "2013-01-03") == 2
    assert "landing/own: rows that runs have already read" in capsys.readouterr().err
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert published(own)[4] == (2, 9)
    assert own("run", "own", "--to", "2013-01-03") == 0


@pytest.mark.slow
def test_verify_reads_the_pinned_files_and_says_which_is_missing_or_was_changed(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(own, "a.parquet", every_hour(0, 12))
    write(own, "b.parquet", every_hour(12, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    write(own, "late.parquet", every_hour(3, 4))
    write(own, "c.parquet", every_hour(24, 48))
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert [own("verify", "own", seq) for seq in (1, 2)] == [0, 0]
    first.unlink()
    write(own, "b.parquet", every_hour(12, 23))
    capsys.readouterr()
    assert own("verify", "own", 1) == 2
    refusal = capsys.readouterr().err
    assert "of the 2 files that it has read" in refusal
    assert "a.parquet is missing, b.parquet was changed" in refusal
    assert own("verify", "own", 2) == 0
