"""A snapshot that a branch or main continues is in the log, whatever upkeep or another process does with its
files, and whenever.
"""

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.warehouse import Warehouse
from tests.cli.conftest import Hourly
from tests.cli.test_maintain import SNAPSHOT_TABLES, a_week_passes, kept, maintain
from tests.cli.test_maintain import six_runs as six_runs
from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published

pytestmark = pytest.mark.usefixtures("without_spark")


def drop(hourly: Hourly, run_id: str) -> None:
    """What upkeep does to a run that nothing needs."""
    tables = Warehouse.at(str(hourly.stored.warehouse)).stored_tables("hourly")
    for name in SNAPSHOT_TABLES:
        TableUpkeep(tables[name]).drop_partitions("run_id", [run_id])


def run_id_of(hourly: Hourly, seq: int) -> str:
    return next(row["run_id"] for row in hourly.stored.ledger() if row["seq"] == seq)


def assert_goes_on(hourly: Hourly, to: str = "2013-01-05") -> None:
    """Main goes on after a week in which all files have been deleted that no table has."""
    a_week_passes(hourly.stored)
    assert hourly.run_here("--to", to, "--all") == 0
    assert_as_model(hourly.stored, to)
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
def test_what_is_restored_after_upkeep_dropped_it_stays(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    maintain(six_runs, new_output)
    assert 3 not in kept(six_runs.stored, "window_state")
    assert here("state", "restore", "hourly", 3, *six_runs.where) == 0
    assert {3} < kept(six_runs.stored, "window_state")
    assert_goes_on(six_runs)


@pytest.mark.slow
def test_what_a_branch_is_forked_from_after_upkeep_dropped_it_stays(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    maintain(six_runs, new_output)
    assert here("state", "fork", "hourly", "side", "--run", 3, *six_runs.where) == 0
    a_week_passes(six_runs.stored)
    assert six_runs.run_here("--branch", "side", "--to", "2013-01-04") == 0
    assert here("publish", "hourly", "side", *six_runs.where) == 0
    assert_goes_on(six_runs)


@pytest.mark.slow
def test_what_is_restored_between_upkeeps_choice_and_its_drop_is_put_back(
    six_runs: Hourly, new_output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, restores = TableUpkeep.drop_partitions, iter([3])

    def late(table: TableUpkeep, *arguments: Any) -> None:
        for seq in restores:
            assert here("state", "restore", "hourly", seq, *six_runs.where) == 0
        original(table, *arguments)

    monkeypatch.setattr(TableUpkeep, "drop_partitions", late)
    assert here("maintain", "hourly", *six_runs.where) == 0
    assert {3} < kept(six_runs.stored, "window_state") and {3} < kept(six_runs.stored, "source_progress")
    assert_goes_on(six_runs)


@pytest.mark.slow
def test_what_upkeep_drops_while_it_is_restored_is_put_back(
    six_runs: Hourly, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = LedgerWriter.commit

    def late(ledger: LedgerWriter, *arguments: Any, **named: Any) -> Any:
        drop(six_runs, run_id_of(six_runs, 3))
        return original(ledger, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(LedgerWriter, "commit", late)
        assert here("state", "restore", "hourly", 3, *six_runs.where) == 0
    assert_goes_on(six_runs)


@pytest.mark.slow
def test_a_staged_run_whose_state_upkeep_dropped_is_published_with_it(six_runs: Hourly) -> None:
    """Its claim was believed dead."""
    assert six_runs.run_here("--to", "2013-01-04T12:00", "--no-publish") == 0
    drop(six_runs, next(row["run_id"] for row in six_runs.attempts().values() if row["outcome"] == "staged"))
    assert six_runs.publish() == 0
    assert_goes_on(six_runs)


@pytest.mark.slow
def test_a_staged_run_whose_state_is_deleted_is_not_published_and_may_be_run_again(
    six_runs: Hourly, new_output: Callable[[], str]
) -> None:
    assert six_runs.run_here("--to", "2013-01-04T12:00", "--no-publish") == 0
    drop(six_runs, next(row["run_id"] for row in six_runs.attempts().values() if row["outcome"] == "staged"))
    a_week_passes(six_runs.stored)
    new_output()
    assert six_runs.publish() == 3
    assert "can't be published" in (text := new_output()) and "Nothing was changed" in text
    assert [row["seq"] for row in six_runs.stored.ledger()] == [1, 2, 3, 4, 5, 6]
    assert_goes_on(six_runs)


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("engine", ["columnar", "operator"])
def test_state_that_somebody_has_optimized_and_vacuumed_is_read_where_it_is(
    six_runs: Hourly, new_output: Callable[[], str], engine: str
) -> None:
    before = {table: len(six_runs.stored.rows(table)) for table in SNAPSHOT_TABLES}
    recorded = [path for row in six_runs.stored.ledger() for path in dict(row["files"])["window_state"]]
    for table, column in {"window_state": "key_group", "timers": "time", "source_progress": "clock"}.items():
        DeltaTable(six_runs.stored.uri(table)).optimize.z_order([column])
        DeltaTable(six_runs.stored.uri(table)).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False
        )
    assert {table: len(six_runs.stored.rows(table)) for table in SNAPSHOT_TABLES} == before
    assert not any(
        (six_runs.stored.warehouse / "hourly" / "window_state" / path).exists() for path in recorded
    )
    assert here("state", "windows", "hourly", "--run", 3, *six_runs.where) == 0
    assert here("verify", "hourly", 4, *six_runs.where) == 0
    assert here("state", "restore", "hourly", 3, *six_runs.where) == 0
    assert six_runs.run_here("--to", "2013-01-05", "--all", "--engine", engine) == 0
    assert_as_model(six_runs.stored, "2013-01-05")
