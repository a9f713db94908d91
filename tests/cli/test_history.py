"""`keep_history` drops rows that are final after a while. `published` stays the same, and no verb goes back
before the rows that were dropped.

Six runs of twelve hours, of which a day is kept: history goes up to run 4. Its watermark was
2013-01-02T20:26:59.999 and the lateness is four hours, so windows that end by 16:00 had been collected then.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction

from slackwater.examples.departures import departures
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.lineage.history import HORIZON
from slackwater.tables.delta.folder import Folder
from slackwater.windowing import TumblingProcessingTimeWindows
from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model
from tests.model.flights import ms

pytestmark = pytest.mark.usefixtures("without_spark")

SETTINGS = "'keep_history': timedelta(days=1), 'slice': timedelta(hours=12)"
COLLECTED = ms("2013-01-02T16:00")
TABLES = ("panes", "corrections", "late_events")


@pytest.fixture
def six_runs(hourly: Hourly) -> Hourly:
    hourly.declare(settings=SETTINGS)
    hourly.begin("2013-01-04")
    return hourly


@pytest.fixture
def twin(six_runs: Hourly, tmp_path: Path) -> Hourly:
    """The same runs, of which no history goes."""
    folder = tmp_path / "twin"
    folder.mkdir()
    copy = Hourly(
        shutil.copytree(six_runs.stored.warehouse, folder / "warehouse"), folder, six_runs.first_runs
    )
    copy.file.write_text(six_runs.file.read_text())
    return copy


def maintain(hourly: Hourly, new_output: Callable[[], str], *options: str) -> dict[str, int]:
    """How many rows go of each table."""
    new_output()
    assert (
        here("maintain", "hourly", *options, "--output", "json", "--log-format", "json", *hourly.where) == 0
    )
    text = new_output()
    return {
        row["table"]: row["rows"]
        for row in json.loads(text[: text.rindex("]") + 1])
        if row["table"] in TABLES
    }


def published(hourly: Hourly) -> Counter[str]:
    return Counter(map(repr, hourly.stored.rows("published")))


@pytest.mark.slow
def test_what_was_final_goes_and_nothing_else(six_runs: Hourly, new_output: Callable[[], str]) -> None:
    stored = six_runs.stored
    before, standing = {table: stored.rows(table) for table in TABLES}, published(six_runs)
    runs = {row["run_id"]: row["seq"] for row in stored.ledger()}
    planned = maintain(six_runs, new_output, "--dry-run")
    assert {table: stored.rows(table) for table in TABLES} == before
    assert maintain(six_runs, new_output) == planned and min(planned.values()) > 0
    for table in ("panes", "corrections"):
        wanted = [row for row in before[table] if row["window_end"] > COLLECTED]
        assert 0 < len(wanted) == len(before[table]) - planned[table]
        assert Counter(map(repr, stored.rows(table))) == Counter(map(repr, wanted))
    assert {runs[row["run_id"]] for row in before["late_events"]} == {3, 5}
    assert {runs[row["run_id"]] for row in stored.rows("late_events")} == {5}
    assert published(six_runs) == standing
    assert set(maintain(six_runs, new_output).values()) == {0}
    assert here("verify", "hourly", "--tables", *six_runs.where) == 0, "what was dropped is no damage"


def test_corrections_that_a_sink_lacks_stay(six_runs: Hourly, new_output: Callable[[], str]) -> None:
    sink = (
        "__import__('slackwater').RedisSink('live', url='redis://127.0.0.1:1/0', key='{origin}:{window_end}')"
    )
    six_runs.declare(settings=f"{SETTINGS}, 'sinks': [{sink}]")
    dropped = maintain(six_runs, new_output)
    assert dropped["panes"] > dropped["corrections"] == 0
    sink = "__import__('slackwater').ChangeFeedSink('feed', uri='feeds/hourly')"
    six_runs.declare(settings=f"{SETTINGS}, 'sinks': [{sink}]")
    assert here("sinks", "deliver", "hourly", *six_runs.where) == 0
    assert maintain(six_runs, new_output)["corrections"] > 0
    assert here("sinks", "deliver", "hourly", *six_runs.where) == 0


@pytest.mark.slow
def test_published_goes_on_as_if_all_of_it_were_there(
    six_runs: Hourly, twin: Hourly, new_output: Callable[[], str]
) -> None:
    maintain(six_runs, new_output)
    for hourly in (six_runs, twin):
        assert (
            here(
                "backfill",
                "hourly",
                "--from",
                "2013-01-03",
                "--to",
                "2013-01-03T12:00",
                "--slice",
                "6h",
                *hourly.where,
            )
            == 0
        )
        assert hourly.run_here("--to", "2013-01-05") == 0
        assert here("state", "restore", "hourly", 5, *hourly.where) == 0
        assert hourly.run_here("--to", "2013-01-04") == 0
        assert here("publish", "hourly", "--rebuild", *hourly.where) == 0
    assert published(six_runs) == published(twin)
    assert_as_model(twin.stored, "2013-01-04")
    assert len(twin.stored.rows("panes")) > len(six_runs.stored.rows("panes"))


@pytest.mark.slow
def test_nobody_goes_back_behind_what_is_gone(six_runs: Hourly, new_output: Callable[[], str]) -> None:
    maintain(six_runs, new_output)
    before, head = published(six_runs), len(six_runs.stored.ledger())
    told = "panes and corrections up to run 4 were dropped (`keep_history`)"
    for verb in (
        ("backfill", "hourly", "--from", "2013-01-02", "--to", "2013-01-02T12:00"),
        ("state", "restore", "hourly", 3),
    ):
        new_output()
        assert here(*verb, *six_runs.where) == 2
        assert told in (text := new_output()) and "from 2013-01-03T00:00:00Z on can be restated" in text
    assert len(six_runs.stored.ledger()) == head
    assert here("state", "fork", "hourly", "old", "--run", 2, *six_runs.where) == 0
    assert six_runs.run_here("--to", "2013-01-04", "--branch", "old") == 0
    assert here("publish", "hourly", "old", *six_runs.where) == 2
    assert told in new_output()
    assert published(six_runs) == before
    assert here("verify", "hourly", 2, *six_runs.where) == 0
    assert "upkeep has dropped history up to run 4" in new_output()
    assert here("verify", "hourly", 5, *six_runs.where) == 0
    assert "dropped" not in new_output()


@pytest.mark.slow
def test_history_that_a_branch_may_need_stays_until_it_is_dropped(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    assert here("state", "fork", "hourly", "old", "--run", 1, *six_runs.where) == 0
    assert maintain(six_runs, new_output) == dict.fromkeys(TABLES, 0), "run 1 had collected no window"
    assert here("branches", "drop", "hourly", "old", *six_runs.where) == 0
    assert min(maintain(six_runs, new_output).values()) > 0


def test_a_run_is_remembered_also_where_it_has_a_smaller_number(tmp_path: Path) -> None:
    """After a restatement the live runs are 1, 5, 3: a horizon moves from 5 to 3."""
    folder = Folder(str(tmp_path), pa.schema([("n", pa.int64())]))
    for seq in (5, 3):
        folder.commit_files([], transaction=Transaction(HORIZON, seq))
        assert DeltaTable(folder.uri).transaction_version(HORIZON) == seq
    DeltaTable(folder.uri).create_checkpoint()
    assert DeltaTable(folder.uri).transaction_version(HORIZON) == 3


def test_it_is_for_windows_of_event_time_alone() -> None:
    with pytest.raises(PipelineError, match="keep_history is for windows of event time"):
        replace(
            departures,
            window=TumblingProcessingTimeWindows.of(timedelta(hours=1)),
            allowed_lateness=timedelta(0),
            keep_history=timedelta(days=1),
        )
    with pytest.raises(PipelineError, match="keep_history is 7"):
        replace(departures, keep_history=7)
