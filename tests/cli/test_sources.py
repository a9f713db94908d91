"""`slackwater sources look`: the file that it prints is loaded and run, and counts what a loop counts."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import slackwater
from slackwater.pipelines import registry
from tests.integration.command import here

DAY = datetime(2024, 2, 29, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rows_of_a_day() -> list[tuple[datetime, datetime, str, int]]:
    """(event, arrival, key, number): every two minutes from 00:00 to 20:00, each seventh 25 minutes late."""
    events = [(DAY + timedelta(minutes=2 * n), n) for n in range(600)]
    rows = [(at, at + timedelta(minutes=25 if n % 7 == 0 else 1), f"gate {n % 3}", n) for at, n in events]
    return sorted(rows, key=lambda row: row[1])


ROWS = rows_of_a_day()
COUNTS = Counter((key, at.replace(minute=0)) for at, _, key, _ in ROWS)


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def plain() -> dict[str, Any]:
    events, arrivals, keys, numbers = zip(*ROWS, strict=True)
    return {"event_time": events, "arrival_time": arrivals, "gate": keys, "n": numbers}


def write_plain(warehouse: Path) -> None:
    write_deltalake(warehouse / "sources/tolls", pa.table(plain()))


def write_numbers(warehouse: Path) -> None:
    columns = {
        "ms": [ms(at) for at, *_ in ROWS],
        "read at": [f"{arrival:%d.%m.%Y %H:%M:%S}" for _, arrival, *_ in ROWS],
        "loaded": [f"{arrival:%Y-%m-%d %H:%M:%S}+00:00" for _, arrival, *_ in ROWS],
        "gate id": [key for *_, key, _ in ROWS],
    }
    write_deltalake(warehouse / "sources/tolls", pa.table(columns))


def write_kafka(warehouse: Path) -> None:
    columns = {
        "key": [key.encode() for *_, key, _ in ROWS],
        "value": [json.dumps({"ts": ms(at), "n": n}).encode() for at, _, _, n in ROWS],
        "topic": ["tolls"] * len(ROWS),
        "partition": pa.array([0] * len(ROWS), pa.int32()),
        "offset": list(range(len(ROWS))),
        "timestamp": [arrival for _, arrival, *_ in ROWS],
    }
    write_deltalake(warehouse / "sources/tolls", pa.table(columns))


def write_folder(warehouse: Path) -> None:
    (warehouse / "sources/tolls").mkdir(parents=True)
    columns = {
        "trip": [{"at": ms(at) // 1000, "gate id": key} for at, _, key, _ in ROWS],
        "received": [arrival for _, arrival, *_ in ROWS],
    }
    pq.write_table(pa.table(columns), warehouse / "sources/tolls/a.parquet")


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(
    ("write", "key"),
    [
        (write_plain, "gate"),
        (write_numbers, "gate_id"),
        (write_kafka, "key_text"),
        (write_folder, "trip_gate_id"),
    ],
)
def test_the_file_runs_and_counts_every_row(
    tmp_path: Path, write: Any, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    file = tmp_path / "tolls.py"
    assert here("sources", "look", "sources/tolls", "--write", file, "--warehouse", tmp_path) == 0
    assert f"The pipeline file is {file}." in capsys.readouterr().out
    where = ("--pipelines", file, "--warehouse", tmp_path)
    assert here("plan", "tolls_per_hour", "--to", "2024-03-01", *where) == 0
    assert here("run", "tolls_per_hour", "--to", "2024-03-01", "--on", "here", *where) == 0
    published = DeltaTable(tmp_path / "tolls_per_hour" / "published").to_pyarrow_table().to_pylist()
    open_hour = DAY + 19 * HOUR  # its end, 20:00, and the bound behind the last event lie after it
    assert {(row[key], row["window_start"]): row["events"] for row in published} == {
        place: count for place, count in COUNTS.items() if place[1] < open_hour
    }


@pytest.mark.usefixtures("without_spark")
def test_the_file_runs_where_commits_are_the_arrivals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"ms": [ms(at) for at, *_ in ROWS], "gate": [key for *_, key, _ in ROWS]}
    write_deltalake(tmp_path / "sources/tolls", pa.table(columns))
    file = tmp_path / "tolls.py"
    assert here("sources", "look", "sources/tolls", "--write", file, "--warehouse", tmp_path) == 0
    [pipeline] = [item for name, item in registry.load(str(file)).items() if name == "tolls_per_hour"]
    assert pipeline.sources[0].arrival_time == slackwater.COMMIT_TIME
    assert "slackwater run tolls_per_hour --to " in capsys.readouterr().out


def test_it_says_everything_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_plain(tmp_path)
    assert here("sources", "look", "sources/tolls", "--warehouse", tmp_path, "--output", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["format"], answer["table"], answer["rows"]) == ("Delta", "sources/tolls", 600)
    assert {row["role"]: row["column"] for row in answer["roles"]} == {
        **{"event time": "event_time", "arrival": "arrival_time", "source partition": None},
        **{"order": None, "key": "gate"},
    }
    assert answer["disorder"]["bound_ms"] == 30 * 60_000
    assert answer["pipeline"] == "tolls_per_hour"
    compile(answer["pipeline_file"], "tolls.py", "exec")
    assert all(command in answer["pipeline_file"] for command in answer["commands"])


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_plain(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text("mine")
    assert here("sources", "look", "sources/tolls", "--write", file, "--warehouse", tmp_path) == 2
    assert file.read_text() == "mine"
    assert "--write FILE" in capsys.readouterr().err


def test_nothing_there_is_an_error_of_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("sources", "look", "sources/tolls", "--warehouse", tmp_path) == 2
    assert f"{tmp_path}/sources/tolls: there is nothing here" in capsys.readouterr().err


def test_a_source_without_times_has_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": ["x", "y"], "n": [1, 2]}))
    assert here("sources", "look", "t", "--warehouse", tmp_path) == 0
    assert "There is no pipeline file to start from" in capsys.readouterr().out
    assert here("sources", "look", "t", "--warehouse", tmp_path, "--write", tmp_path / "f.py") == 2
    assert not (tmp_path / "f.py").exists()


def test_a_path_of_the_working_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plain(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert here("sources", "look", "sources/tolls", "--warehouse", tmp_path / "warehouse") == 0
    assert f'"{tmp_path}/elsewhere/sources/tolls"' in capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 120])
def test_its_tables_fit_the_terminal(
    tmp_path: Path, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kafka(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert here("sources", "look", "sources/tolls", "--warehouse", tmp_path) == 0
    tables = capsys.readouterr().out.partition("A pipeline file to start from")[0]
    assert "source partition" in tables
    assert max(map(len, tables.splitlines())) <= columns
