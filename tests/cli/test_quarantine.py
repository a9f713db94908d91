"""`slackwater quarantine list` shows the rows of the source that have no event time, and counts them."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from tests.integration.command import here
from tests.integration.stored import StoredTables

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def unusable_rows(replayed: StoredTables) -> list[dict]:
    """The rows of the source that arrived in the first three days and have no event time."""
    rows = DeltaTable(str(replayed.warehouse / "sources" / "departures")).to_pyarrow_table().to_pylist()
    return [
        row for row in rows if row["event_time"] is None and row["arrival_time"].isoformat() < "2013-01-04"
    ]


def listed(replayed: StoredTables, new_output: Callable[[], str], *options: str) -> dict:
    new_output()
    where = ("--warehouse", str(replayed.warehouse), "--output", "json")
    assert here("quarantine", "list", "departures", *options, *where) == 0
    return json.loads(new_output())


def test_every_unusable_row_is_listed_once_with_its_reason(
    replayed: StoredTables, unusable_rows: list[dict], new_output: Callable[[], str]
) -> None:
    answer = listed(replayed, new_output)
    assert [(reason["reason_code"], reason["rows"]) for reason in answer["reasons"]] == [
        ("null_event_time", len(unusable_rows))
    ]
    assert sorted(json.loads(row["row_json"])["row"] for row in answer["rows"]) == sorted(
        row["row"] for row in unusable_rows
    )
    by_day = Counter(row["arrival_time"].day for row in unusable_rows)
    assert Counter(row["run_seq"] for row in answer["rows"]) == by_day, "a run is a day"
    of_run = listed(replayed, new_output, "--run", "2", "--reason", "null_event_time", "--limit", "1")
    assert of_run["reasons"][0]["rows"] == by_day[2] and len(of_run["rows"]) == 1


def test_the_table_shows_rows_for_people_and_says_how_many_more_there_are(
    replayed: StoredTables, unusable_rows: list[dict], new_output: Callable[[], str]
) -> None:
    where = ("--warehouse", str(replayed.warehouse))
    assert here("quarantine", "list", "departures", "--limit", "1", *where) == 0
    shown = new_output()
    newest = max(unusable_rows, key=lambda row: row["arrival_time"])
    assert f"row {newest['row']}" in shown and "the event time is null" in shown
    assert f"{len(unusable_rows) - 1} more rows" in shown
    assert f"by reason: null_event_time {len(unusable_rows)}." in shown
    assert here("quarantine", "list", "departures", "--reason", "nope", *where) == 2
    assert f"the reasons are null_event_time ({len(unusable_rows)})" in new_output()
