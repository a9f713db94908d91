"""The PySpark applications that schedulers submit do what the commands of the same names do: spark-submit
starts each on one of two equal warehouses, and the command is run on the other one.
"""

import json
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from tests.integration.command import environment, here
from tests.integration.stored import ROOT, Row, StoredTables

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
LIVE_TO, STAGED_TO = "2013-01-03", "2013-01-04"
# Columns that differ from one run of the same command to the next (renewals of a lease make versions of
# `attempts`), and those that say where it was run.
EPHEMERAL = {"run_id", "started_at", "committed_at", "at", "phase_seconds", "files", "table_versions"}
EPHEMERAL |= {"place", "place_reason"}


class Pair(NamedTuple):
    """Two warehouses that were equal: of the commands and of the applications."""

    by_command: StoredTables
    by_application: StoredTables


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two days are live and a third is staged; then delays of the second are corrected in the source."""
    folder = tmp_path_factory.mktemp("pair")
    first = StoredTables(folder / "by_command", "hourly")
    days = ("--from", "2013-01-01", "--to", STAGED_TO, "--warehouse", first.warehouse)
    assert here("examples", "load", "departures", *days) == 0
    command(first, "run", "--to", LIVE_TO)
    command(first, "run", "--to", STAGED_TO, "--no-publish")
    second_day = "arrival_time >= '2013-01-02T00:00:00Z' AND arrival_time < '2013-01-03T00:00:00Z'"
    source = DeltaTable(first.warehouse / "sources" / "departures")
    assert source.update(predicate=second_day, updates={"dep_delay": "dep_delay + 9"})["num_updated_rows"] > 0
    shutil.copytree(first.warehouse, folder / "by_application")
    return Pair(first, StoredTables(folder / "by_application", "hourly"))


def command(stored: StoredTables, verb: str, *arguments: str) -> None:
    assert here(verb, "hourly", *arguments, *places(stored)) == 0


def application(stored: StoredTables, verb: str, *arguments: str) -> str:
    """The same by an application of the folder `submit`; gives what it prints."""
    spark_submit = [sys.executable, "-m", "slackwater.runtime.spark_submit", "--master", "local[2]"]
    file = ROOT / "jobs" / f"{verb}.py"
    process = subprocess.run(
        list(map(str, [*spark_submit, file, "hourly", *arguments, *places(stored)])),
        cwd=stored.warehouse,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def places(stored: StoredTables) -> list[object]:
    return ["--warehouse", stored.warehouse, "--pipelines", PIPELINES]


def rows(stored: StoredTables, table: str) -> list[Row]:
    """The lasting columns of a table's rows, in an order of their own."""
    lasting = [
        {name: value for name, value in row.items() if name not in EPHEMERAL} for row in stored.rows(table)
    ]
    return sorted(lasting, key=repr)


def assert_equal(pair: Pair) -> None:
    for table in ("runs", "published", "corrections", "panes", "late_events", "window_state", "timers"):
        assert rows(pair.by_application, table) == rows(pair.by_command, table), table


def test_publish_makes_live_what_is_staged(pair: Pair) -> None:
    """With `--on spark` tasks of Spark write `published` and `corrections`, and in this process its session
    is that of spark-submit.
    """
    before = len(pair.by_command.ledger())
    command(pair.by_command, "publish")
    application(pair.by_application, "publish", "--on", "spark")
    assert len(pair.by_command.ledger()) == before + 1
    assert_equal(pair)


def test_backfill_restates_a_range(pair: Pair) -> None:
    before = rows(pair.by_command, "published")
    range_ = ("--from", "2013-01-02", "--to", "2013-01-03")
    command(pair.by_command, "backfill", *range_)
    application(pair.by_application, "backfill", *range_, "--on", "spark")
    assert rows(pair.by_command, "published") != before, "the correction is published"
    assert_equal(pair)
    replays = [
        row for row in pair.by_application.ledger() if row["kind"] == "run" and row["branch"] != "main"
    ]
    assert {row["place"] for row in replays} == {"spark"}


def test_maintain_does_the_same_to_each_table(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows(pair.by_command, "published")
    capsys.readouterr()
    command(pair.by_command, "maintain", "--output", "json")
    upkeep = upkeep_of(capsys.readouterr().out)
    assert upkeep_of(application(pair.by_application, "maintain", "--output", "json")) == upkeep
    assert any(table["compacted"] for table in upkeep)
    assert rows(pair.by_application, "published") == before
    assert_equal(pair)


def upkeep_of(output: str) -> list[dict[str, Any]]:
    """What was done to each table, without the sizes of files, in which run ids are, and without `attempts`,
    which has a file for each renewal of a lease. Before that spark-submit prints the log, too.
    """
    tables = json.loads(output[output.index("[\n") :])
    return [
        {name: value for name, value in table.items() if name != "bytes"}
        for table in tables
        if table["table"] != "attempts"
    ]
