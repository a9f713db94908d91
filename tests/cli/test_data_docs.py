"""`slackwater runs --data-docs` writes Great Expectations' report: of what is live, staged and rejected."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.conftest import great_expectations as great_expectations

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_spark", "great_expectations")]


def test_the_report_has_runs_and_rejected_ones(
    hourly: Hourly, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    hourly.declare('expect.between("flights", min=1), expect.in_set("origin", ["EWR", "JFK", "LGA"])')
    assert hourly.run_here("--to", "2013-01-02") == 0
    hourly.declare(
        'expect.between("flights", max=3), expect.between("origin", "EWR", "JFK", severity="warn")'
    )
    assert hourly.run_here("--to", "2013-01-03") == 4
    [live, rejected] = hourly.attempts()
    new_output()
    folder = tmp_path / "report"
    own_file = folder / "own.txt"
    folder.mkdir()
    own_file.write_text("of the user")
    assert here("runs", "hourly", f"--data-docs={folder}", *hourly.where) == 0
    assert f"Data Docs: {folder}/index.html" in new_output()
    results = {path.stem: json.loads(path.read_text()) for path in (folder / "results").iterdir()}
    assert {run_id: result["success"] for run_id, result in results.items()} == {live: True, rejected: False}
    recorded = [row for row in hourly.stored.rows("validations") if row["column_name"]]
    assert [
        (run_id, item["success"], item["expectation_config"]["severity"])
        for run_id in (live, rejected)
        for item in results[run_id]["results"]
    ] == [
        (row["run_id"], row["passed"], {"reject": "critical", "warn": "warning"}[row["severity"]])
        for row in sorted(recorded, key=lambda row: [live, rejected].index(row["run_id"]))
    ]
    pages = [path.read_text() for path in sorted(folder.glob("validations/hourly/*/*/panes.html"))]
    assert len(pages) == 2 and "Succeeded" in pages[0] and "Failed" in pages[1]
    assert own_file.read_text() == "of the user"


def test_of_one_run_it_has_that_run(
    hourly: Hourly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hourly.declare('expect.not_null("flights")')
    assert hourly.run_here("--to", "2013-01-03") == 0
    capsys.readouterr()
    where = ("--data-docs", tmp_path / "report", *hourly.where, "--output", "json")
    assert here("runs", "hourly", "2", *where) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert [path.stem for path in (tmp_path / "report" / "results").iterdir()] == [row["run_id"]]


def test_runs_that_expect_nothing_of_their_results_have_no_report(
    hourly: Hourly, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-02")
    assert here("runs", "hourly", "1", "--data-docs", tmp_path / "report", *hourly.where) == 2
    assert "hourly: none of these runs has checked expectations of its results" in new_output()
    assert not (tmp_path / "report").exists()
