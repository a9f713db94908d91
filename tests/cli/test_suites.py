"""A suite of Great Expectations decides on a run: whether it is rejected, warned of or published; and the
report on it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.args import read_manifest
from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.conftest import great_expectations as great_expectations

pytestmark = pytest.mark.usefixtures("without_spark", "great_expectations")

FEW_FLIGHTS = "orders: expect_column_values_to_be_between(column=flights, max_value=20)"


def declare(hourly: Hourly, arguments: str = "", settings: str = "", **kwargs: Any) -> None:
    """Declare a suite: not more than 20 flights in an hour, and from the three airports."""
    expectations = [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "flights", "max_value": 20, **kwargs},
        },
        {
            "type": "expect_column_distinct_values_to_equal_set",
            "kwargs": {"column": "origin", "value_set": ["EWR", "JFK", "LGA"]},
            "severity": "warning",
            "description": "all three airports",
        },
    ]
    suite = {"name": "orders", "expectations": expectations}
    (hourly.file.parent / "orders.json").write_text(json.dumps(suite))
    hourly.declare(f'expect.suite("orders.json"{arguments})', settings)


def busy_hours(hourly: Hourly) -> dict[tuple[str, Any], int]:
    """Hours of more than 20 flights, from the panes as they are stored: of each hour the newest firing."""
    newest: dict[tuple[str, Any], dict[str, Any]] = {}
    for pane in sorted(hourly.stored.rows("panes"), key=lambda pane: pane["firing"]):
        newest[pane["origin"], pane["window_start"]] = pane
    return {hour: pane["flights"] for hour, pane in newest.items() if pane["flights"] > 20}


@pytest.mark.slow
def test_a_suite_rejects_a_run_before_anything_is_published(
    hourly: Hourly, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    declare(hourly)
    manifest = tmp_path / "manifest.json"
    assert hourly.run_here("--to", "2013-01-02", "--no-publish", "--manifest", str(manifest)) == 0
    assert hourly.stored.rows("published") == []
    busy = busy_hours(hourly)
    assert busy
    [check] = [row for row in hourly.stored.rows("validations") if row["expectation"] == FEW_FLIGHTS]
    assert (check["passed"], check["severity"], check["column_name"]) == (False, "reject", "flights")
    assert check["unexpected"] == len(busy) < check["checked"]
    assert set(json.loads(check["sample_json"])) <= set(busy.values())
    recorded = json.loads(check["result_json"])
    assert recorded["result"]["unexpected_count"] == len(busy)
    # What a task of Airflow fails with, or asks a person about:
    [failure] = read_manifest(manifest).failures
    assert (failure.expectation, failure.unexpected, failure.samples) == (
        FEW_FLIGHTS,
        len(busy),
        check["sample_json"],
    )
    new_output()
    assert hourly.publish(failure.run_id) == 4
    assert hourly.publish(failure.run_id, "--accept", "a fair") == 0
    assert len(hourly.stored.rows("published")) >= len(busy)


@pytest.mark.slow
def test_a_run_that_a_suite_rejects_ends_with_its_values(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    declare(hourly)
    new_output()
    assert hourly.run_here("--to", "2013-01-02") == 4
    text = new_output()
    assert FEW_FLIGHTS in text and " values unexpected, the first at origin " in text and "--accept" in text
    assert hourly.stored.rows("published") == []
    # A suite is no part of what is computed: mended, the run goes on.
    declare(hourly, max_value=100)
    assert hourly.run_here("--to", "2013-01-02") == 0
    assert hourly.stored.ledger()[-1]["verdict"] == "passed"
    declare(hourly, max_value=99)
    assert hourly.run_here("--to", "2013-01-03") == 0
    notes = [row["observed"] for row in hourly.stored.rows("validations") if row["severity"] == "note"]
    assert [note for note in notes if "expect" in note] == []


@pytest.mark.slow
def test_a_suite_that_warns_keeps_nothing_back(hourly: Hourly, new_output: Callable[[], str]) -> None:
    declare(hourly, ', severity="warn"')
    new_output()
    assert hourly.run_here("--to", "2013-01-02") == 0
    assert f"warning: {FEW_FLIGHTS}" in new_output()
    assert hourly.stored.ledger()[-1]["verdict"] == "warned"
    assert hourly.stored.rows("published")


@pytest.mark.slow
def test_the_report_has_suites_beside_our_own_expectations(hourly: Hourly, tmp_path: Path) -> None:
    declare(hourly)
    suite = hourly.file.read_text().partition("expect=[")[2].partition("],")[0]
    hourly.declare(f'expect.between("flights", min=1), {suite}, expect.suite("own.json", custom="own.py")')
    # Of the last one the library knows nothing: it has a result, and nothing that a page could show.
    own = [{"type": "expect_few", "kwargs": {}}, {"type": "expect_nothing_known", "kwargs": {}}]
    (hourly.file.parent / "own.json").write_text(json.dumps({"name": "own", "expectations": own}))
    (hourly.file.parent / "own.py").write_text(
        "from great_expectations.expectations import ExpectColumnValuesToBeBetween\n\n"
        "class ExpectFew(ExpectColumnValuesToBeBetween):\n"
        "    column: str = 'flights'\n    max_value: int = 1\n"
    )
    assert hourly.run_here("--to", "2013-01-02") == 4
    [run_id] = hourly.attempts()
    folder = tmp_path / "report"
    assert here("runs", "hourly", "--data-docs", folder, *hourly.where) == 0
    results = {path.stem: json.loads(path.read_text()) for path in (folder / "results").iterdir()}
    assert {name: [item["success"] for item in result["results"]] for name, result in results.items()} == {
        run_id: [True],
        f"{run_id}-orders": [False, True],
        f"{run_id}-own": [False, False],
    }
    [page] = folder.glob("validations/orders/*/*/published.html")
    assert "Failed" in page.read_text() and "flights" in page.read_text()
    assert len(list(folder.glob("validations/own/*/*/published.html"))) == 1
    assert (folder / "expectations" / "orders.html").is_file()


def test_without_the_library_a_run_is_refused_before_it_reads_anything(
    hourly: Hourly, new_output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(hourly)
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    assert hourly.run_here("--to", "2013-01-02") == 2
    assert 'pip install "slackwater[gx]"' in new_output()
    assert not (hourly.stored.warehouse / "hourly").exists()
