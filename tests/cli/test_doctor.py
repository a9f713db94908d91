"""`slackwater doctor` names what a run needs and finds, and for what is missing the next step."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.command import here
from tests.integration.stored import StoredTables


def checks(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> dict[str, dict]:
    capsys.readouterr()
    assert here("doctor", *arguments, "--output", "json") == code
    return {row["check"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_check_passes_where_these_tests_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = checks(capsys, 0, "--warehouse", tmp_path)
    assert all(row["ok"] for row in found.values()), found
    assert {
        "python",
        "java",
        "delta jars",
        "pipelines",
        "warehouse",
        "pyspark",
        "great-expectations",
    } <= found.keys()
    assert found["pyspark"]["found"] == "4.2.0"
    assert found["warehouse"]["found"] == str(tmp_path)
    assert "departures" in found["pipelines"]["found"]


def test_a_warehouse_that_is_not_there_yet_will_be_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = checks(capsys, 0, "--warehouse", tmp_path / "a" / "b")
    assert found["warehouse"]["found"] == f"{tmp_path}/a/b (will be made)"
    assert list(tmp_path.iterdir()) == []


def test_a_warehouse_below_a_file_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = checks(capsys, 1, "--warehouse", tmp_path / "file" / "w")
    assert not found["warehouse"]["ok"] and "can't be written" in found["warehouse"]["found"]


def test_a_pipelines_file_that_does_not_load_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("import nothing_of_the_kind\n")
    found = checks(capsys, 1, "--warehouse", tmp_path, "--pipelines", tmp_path / "mine.py")
    assert not found["pipelines"]["ok"] and "nothing_of_the_kind" in found["pipelines"]["found"]
    assert found["java"]["ok"]


def test_a_master_on_this_machine_is_no_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cluster" not in checks(capsys, 0, "--warehouse", tmp_path)
    monkeypatch.setenv("SLACKWATER_MASTER", "local[2]")
    cluster = checks(capsys, 1, "--warehouse", tmp_path, "--cluster")["cluster"]
    assert not cluster["ok"]
    assert cluster["found"].startswith("Spark's master is local[2], which is no cluster. Name one in")


def test_one_broken_file_of_a_folder_is_told_and_the_others_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from slackwater.examples import departures

    (tmp_path / "good.py").write_text(Path(str(departures.__file__)).read_text())
    (tmp_path / "broken.py").write_text("1 / 0")
    assert here("pipelines", "--pipelines", tmp_path) == 2
    printed = capsys.readouterr()
    assert "departures" in printed.out and f"not loaded: {tmp_path}/broken.py: Zero" in printed.err
    assert here("doctor", "--pipelines", tmp_path, "--warehouse", tmp_path / "w", "--output", "json") == 1
    assert f"{tmp_path}/broken.py: ZeroDivisionError" in capsys.readouterr().out


def test_a_damaged_log_of_a_pipeline_is_a_finding_of_its_rows(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stored = StoredTables(shutil.copytree(replayed.warehouse, tmp_path / "warehouse"), "departures")
    assert checks(capsys, 0, "--warehouse", stored.warehouse)["rows of departures"]["ok"]
    commit = max((Path(stored.uri("published")) / "_delta_log").glob("*.json"))
    commit.write_bytes(b"")
    report = checks(capsys, 1, "--warehouse", stored.warehouse)
    assert not report["rows of departures"]["ok"]
    assert commit.name in report["rows of departures"]["found"]
    assert [name for name, row in report.items() if not row["ok"]] == ["rows of departures"]
