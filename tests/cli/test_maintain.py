"""`slackwater maintain` drops what no run, branch or reader needs and leaves everything else; a verb that
asks for a dropped snapshot is told that it is gone.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.warehouse import Warehouse
from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published, facts_of_tables
from tests.integration.stored import StoredTables
from tests.runs.doubling import double

pytestmark = pytest.mark.usefixtures("without_spark")

SNAPSHOT_TABLES = ("window_state", "timers", "source_progress")
# Twelve hours a run: of three days there are the runs 1 to 6, of which 2, 4 and 6 end a day.
SETTINGS = "'keep_snapshots': 2, 'keep_snapshot_every': timedelta(days=1), 'slice': timedelta(hours=12)"


@pytest.fixture
def six_runs(hourly: Hourly) -> Hourly:
    hourly.declare(settings=SETTINGS)
    hourly.begin("2013-01-04")
    return hourly


def maintain(hourly: Hourly, new_output: Callable[[], str], *options: str) -> dict[str, dict[str, Any]]:
    new_output()
    assert (
        here("maintain", "hourly", *options, "--output", "json", "--log-format", "json", *hourly.where) == 0
    )
    text = new_output()
    return {row["table"]: row for row in json.loads(text[: text.rindex("]") + 1])}


def kept(stored: StoredTables, table: str) -> set[int]:
    """Seqs whose rows a snapshot table holds."""
    seqs = {row["run_id"]: row["seq"] for row in stored.ledger()}
    return {seqs[row["run_id"]] for row in stored.rows(table)}


def versions(stored: StoredTables) -> dict[str, int]:
    return {
        folder.name: DeltaTable(str(folder)).version()
        for folder in (stored.warehouse / stored.pipeline).glob("[!_]*")
    }


def a_week_passes(stored: StoredTables) -> None:
    """Files of snapshot tables that no version names any more go, as the vacuum of a later day would delete
    them.
    """
    for table in SNAPSHOT_TABLES:
        live = {Path(path) for path in DeltaTable(stored.uri(table)).file_uris()}
        for file in Path(stored.uri(table)).rglob("*.parquet"):
            if file not in live and "_delta_log" not in file.parts:
                file.unlink()


@pytest.mark.slow
def test_state_tables_hold_the_open_windows_of_the_retained_snapshots_and_no_more(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    stored = six_runs.stored
    before, unchanged = facts_of_tables(stored), versions(stored)
    planned = maintain(six_runs, new_output, "--dry-run")
    assert versions(stored) == unchanged and kept(stored, "window_state") == {1, 2, 3, 4, 5, 6}
    upkeep = maintain(six_runs, new_output)
    counted = ("snapshots", "rows", "bytes", "kept", "compacted")
    planned["attempts"]["compacted"] += 1  # the claim of the upkeep itself
    assert [[row[name] for name in counted] for row in planned.values()] == [
        [row[name] for name in counted] for row in upkeep.values()
    ]
    opened = {row["seq"]: row["windows_open"] for row in stored.ledger()}
    assert upkeep["window_state"]["rows"] == opened[1] + opened[3] > 0
    for table in SNAPSHOT_TABLES:
        assert kept(stored, table) == {2, 4, 5, 6}
        assert (upkeep[table]["snapshots"], upkeep[table]["kept"]) == (2, 4)
    assert len(stored.rows("window_state")) == sum(opened[seq] for seq in (2, 4, 5, 6))
    assert facts_of_tables(stored) == before
    again = maintain(six_runs, new_output)
    assert {(row["snapshots"], row["compacted"]) for name, row in again.items() if name != "attempts"} == {
        (0, 0)
    }


@pytest.mark.slow
def test_runs_go_on_after_it_as_if_nothing_had_been(six_runs: Hourly, new_output: Callable[[], str]) -> None:
    rows = six_runs.stored.ledger()
    assert maintain(six_runs, new_output)["runs"]["compacted"] == 5
    assert six_runs.stored.ledger() == rows
    assert len(DeltaTable(six_runs.stored.uri("runs")).file_uris()) == 1
    assert six_runs.run_here("--to", "2013-01-05") == 0
    assert_as_model(six_runs.stored, "2013-01-05")
    assert_corrections_make_published(six_runs.stored)


@pytest.mark.slow
def test_files_of_what_runs_have_emitted_do_not_grow_with_the_number_of_runs(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    stored, tables = six_runs.stored, ("panes", "late_events", "quarantine")
    before = facts_of_tables(stored)
    counts = {table: len(DeltaTable(stored.uri(table)).file_uris()) for table in tables}
    assert counts["panes"] == 5 and counts["late_events"] > 1
    upkeep = maintain(six_runs, new_output)
    assert {table: upkeep[table]["compacted"] + 1 for table in tables} == {
        table: max(1, count) for table, count in counts.items()
    }
    assert all(len(DeltaTable(stored.uri(table)).file_uris()) <= 1 for table in tables)
    assert facts_of_tables(stored) == before
    [path] = DeltaTable(stored.uri("panes")).file_uris()
    run_ids = pq.read_table(path).column("run_id").to_pylist()
    assert run_ids == sorted(run_ids) and len(set(run_ids)) == 5
    for seq in (1, 3, 6):
        assert here("verify", "hourly", seq, *six_runs.where) == 0
    assert here("backfill", "hourly", "--from", "2013-01-03", "--to", "2013-01-04", *six_runs.where) == 0
    assert six_runs.run_here("--to", "2013-01-05") == 0
    assert_as_model(stored, "2013-01-05")
    assert_corrections_make_published(stored)


@pytest.mark.slow
def test_what_is_gone_is_said_with_what_is_kept(six_runs: Hourly, new_output: Callable[[], str]) -> None:
    maintain(six_runs, new_output)
    assert here("verify", "hourly", 2, *six_runs.where) == 0, (
        "dropped files are readable until they are vacuumed"
    )
    a_week_passes(six_runs.stored)
    new_output()
    assert here("verify", "hourly", 3, *six_runs.where) == 0
    assert here("verify", "hourly", 4, *six_runs.where) == 2
    assert (
        "the snapshot of run 3 is gone" in (text := new_output())
        and "that of run 2, which ends at 2013-01-02T00:00:00Z" in text
    )
    assert here("state", "windows", "hourly", "--run", 1, *six_runs.where) == 2
    assert "is gone: `slackwater maintain` drops snapshots" in new_output()
    assert here("state", "windows", "hourly", *six_runs.where) == 0
    assert here("state", "fork", "hourly", "side", "--run", 3, *six_runs.where) == 0
    assert "begins behind run 2, the nearest whose snapshot is kept before 3" in new_output()


@pytest.mark.slow
def test_a_restatement_starts_from_the_nearest_snapshot_that_is_kept(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    maintain(six_runs, new_output)
    a_week_passes(six_runs.stored)
    assert (
        here(
            "backfill",
            "hourly",
            "--from",
            "2013-01-02T12:00",
            "--to",
            "2013-01-03",
            "--no-publish",
            *six_runs.where,
        )
        == 0
    )
    assert (
        "from 2013-01-02T12:00:00Z moved to 2013-01-02T00:00:00Z, the last boundary with a snapshot; that of "
        "run 3" in new_output()
    )


@pytest.mark.slow
def test_what_a_branch_or_a_staged_run_continues_stays(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    assert here("state", "fork", "hourly", "side", "--run", 1, *six_runs.where) == 0
    assert six_runs.run_here("--to", "2013-01-04T12:00", "--no-publish") == 0
    staged = {row["run_id"] for row in six_runs.attempts().values() if row["outcome"] == "staged"}
    assert len(staged) == 1
    maintain(six_runs, new_output)
    seqs = {row["run_id"]: row["seq"] for row in six_runs.stored.ledger()}
    assert {seqs.get(row["run_id"], "staged") for row in six_runs.stored.rows("source_progress")} == {
        1,
        2,
        4,
        5,
        6,
        "staged",
    }
    assert six_runs.publish() == 0
    assert_as_model(six_runs.stored, "2013-01-04T12:00")
    assert here("branches", "drop", "hourly", "side", *six_runs.where) == 0
    maintain(six_runs, new_output)
    assert 1 not in kept(six_runs.stored, "source_progress")


def test_a_roll_forward_that_is_open_is_finished_first(
    six_runs: Hourly, new_output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        for way in ("finish", "finish_known"):
            patched.setattr(RollForward, way, lambda self: [])
        assert six_runs.run_here("--to", "2013-01-04T12:00") == 0
    assert six_runs.stored.rolled_forward() == 6
    maintain(six_runs, new_output)
    assert six_runs.stored.rolled_forward() == 7


# The tests of rebuilding show it of each table.
@pytest.mark.slow
@pytest.mark.parametrize("table", ["runs", "corrections", "published"])
def test_a_doubled_table_is_refused_by_name_until_it_is_rebuilt(
    six_runs: Hourly, new_output: Callable[[], str], table: str
) -> None:
    before = facts_of_tables(six_runs.stored)
    assert double(Warehouse.at(str(six_runs.stored.warehouse)).stored_tables("hourly")[table]) > 0
    assert here("doctor", "--output", "json", *six_runs.where) == 1
    assert f"rows too many: {table} " in new_output()
    for verb in (
        ("maintain", "hourly"),
        ("run", "hourly", "--to", "2013-01-05"),
        ("publish", "hourly"),
        ("state", "restore", "hourly", 3),
    ):
        new_output()
        assert here(*verb, *six_runs.where) == 1
        assert (
            f"rows too many: {table} " in (text := new_output())
            and "`slackwater publish hourly --rebuild`" in text
        )
    assert here("publish", "hourly", "--rebuild", *six_runs.where) == 0
    assert f"rows of {table} were there more than once" in new_output()
    assert facts_of_tables(six_runs.stored) == before
    assert here("doctor", *six_runs.where) == 0
    assert here("publish", "hourly", "--rebuild", *six_runs.where) == 0
    assert "nothing to do; every row is there once" in new_output()
    maintain(six_runs, new_output)
    assert six_runs.run_here("--to", "2013-01-05") == 0
    assert_as_model(six_runs.stored, "2013-01-05")
    assert_corrections_make_published(six_runs.stored)
