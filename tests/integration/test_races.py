"""Two drivers at once: one commits, the other ends with exit code 5, and no reader ever sees a row of it. The
lease only saves work.

Drivers are real command lines in processes of their own that meet at one moment; see
`tests.integration.driver`.
"""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter, owner_of, this_process
from slackwater.tables.warehouse import Warehouse
from tests.integration.command import CommandResult, driver, here, start_driver
from tests.integration.driver import Plan
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.fork_server import ForkedDriver
from tests.integration.stored import ROOT, StoredTables

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
DAY_1, DAY_2 = "2013-01-02", "2013-01-03"


@pytest.fixture(scope="module")
def after_one_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse in which the first day has been run."""
    warehouse = tmp_path_factory.mktemp("flights") / "warehouse"
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-05",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    done = driver(Plan(), "run", "hourly", "--to", DAY_1, "--warehouse", warehouse, "--pipelines", PIPELINES)
    assert done.returncode == 0, done.stderr
    return warehouse


@pytest.fixture
def hourly(after_one_day: Path, tmp_path: Path) -> StoredTables:
    return StoredTables(shutil.copytree(after_one_day, tmp_path / "warehouse"), "hourly")


def race(
    hourly: StoredTables, plan: Plan, meet: Path, *verb: str, other: tuple[str, ...] | None = None
) -> list[CommandResult]:
    """Two drivers that do the same, or one of them `other`, and meet at a moment; the one that won first."""
    meet.mkdir()
    where = ("--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    started = [
        start_driver(replace(plan, meet=str(meet)), *command, *where) for command in (verb, other or verb)
    ]
    ended = []
    for process in started:
        out, err = process.communicate(timeout=120)
        ended.append(subprocess.CompletedProcess(process.args, process.poll(), out, err))
    assert len(list(meet.iterdir())) == 2, "both came to the moment"
    return sorted(ended, key=lambda done: done.returncode)


def assert_one_won(hourly: StoredTables, ended: list[CommandResult], staged: int, codes: list[int]) -> None:
    """One committed, the other ended with its code, and of `staged` runs that left rows behind only one can
    be seen.
    """
    assert [done.returncode for done in ended] == codes, [done.stderr for done in ended]
    assert [row["seq"] for row in hourly.ledger()] == [1, 2]
    assert_as_model(hourly, DAY_2)
    assert_corrections_make_published(hourly)
    second_day = {
        row["run_id"] for row in hourly.rows("panes") if row["run_id"] != hourly.ledger()[0]["run_id"]
    }
    assert len(second_day) == staged


@pytest.mark.slow
def test_without_the_lease_both_stage_and_the_compare_and_swap_decides(
    hourly: StoredTables, tmp_path: Path
) -> None:
    ended = race(
        hourly,
        Plan(at="before the ledger commit", lease=False),
        tmp_path / "meet",
        "run",
        "hourly",
        "--to",
        DAY_2,
    )
    assert_one_won(hourly, ended, staged=2, codes=[0, 5])
    assert "another run committed first" in ended[1].stderr
    outcomes = {
        row["run_id"]: row["outcome"] for row in sorted(hourly.rows("attempts"), key=lambda row: row["at"])
    }
    assert sorted(outcomes.values()) == ["committed", "committed", "lost"]


@pytest.mark.slow
def test_with_the_lease_the_second_gives_up_before_it_works(hourly: StoredTables, tmp_path: Path) -> None:
    ended = race(hourly, Plan(at="before the claim"), tmp_path / "meet", "run", "hourly", "--to", DAY_2)
    assert_one_won(hourly, ended, staged=1, codes=[0, 5])
    assert "another run is alive" in ended[1].stderr


@pytest.mark.slow
def test_two_that_publish_the_same_staged_run_publish_it_once(hourly: StoredTables, tmp_path: Path) -> None:
    done = driver(
        Plan(),
        "run",
        "hourly",
        "--to",
        DAY_2,
        "--no-publish",
        "--warehouse",
        hourly.warehouse,
        "--pipelines",
        PIPELINES,
    )
    assert done.returncode == 0, done.stderr
    ended = race(hourly, Plan(at="before the ledger commit"), tmp_path / "meet", "publish", "hourly")
    assert_one_won(hourly, ended, staged=1, codes=[0, 0])  # what both wanted is live
    assert {row["outcome"] for row in hourly.rows("attempts")} == {"claimed", "staged", "committed"}


@pytest.mark.slow
def test_of_a_branch_and_a_run_one_moves_main_and_the_loser_may_try_again(
    hourly: StoredTables, tmp_path: Path
) -> None:
    where = ("--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    assert here("state", "fork", "hourly", "fix", *where) == 0
    assert driver(Plan(), "run", "hourly", "--to", DAY_2, "--branch", "fix", *where).returncode == 0
    verbs = {"publish": ("publish", "hourly", "fix"), "run": ("run", "hourly", "--to", DAY_2)}
    ended = race(
        hourly, Plan(at="before the ledger commit"), tmp_path / "meet", *verbs["publish"], other=verbs["run"]
    )
    assert [done.returncode for done in ended] == [0, 5], [done.stderr for done in ended]
    assert "another run committed first" in ended[1].stderr
    on_main = [row for row in hourly.ledger() if row["branch"] == "main"]
    assert len(on_main) == 2 and on_main[1]["kind"] in verbs
    assert_as_model(hourly, DAY_2)
    loser = next(verb for kind, verb in verbs.items() if kind != on_main[1]["kind"])
    assert here(*loser, *where) == 0
    assert_as_model(hourly, DAY_2)
    assert_corrections_make_published(hourly)


@pytest.mark.slow
def test_two_that_roll_forward_the_same_run_do_each_step_once(hourly: StoredTables, tmp_path: Path) -> None:
    command = ("run", "hourly", "--to", DAY_2, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    assert driver(Plan(at="after the ledger commit"), *command).returncode == -signal.SIGKILL
    ended = race(hourly, Plan(at="between the roll-forward commits"), tmp_path / "meet", "publish", "hourly")
    assert [done.returncode for done in ended] == [0, 0], [done.stderr for done in ended]
    assert_as_model(hourly, DAY_2)
    assert_corrections_make_published(hourly)


def wait_for_one(meet: Path, driver: ForkedDriver) -> None:
    """Until `driver`, which alone has been started, has come to the moment and waits there."""
    while not any(meet.iterdir()):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)


def test_a_slice_that_another_run_covers_between_two_looks_is_not_run_again(
    hourly: StoredTables, tmp_path: Path
) -> None:
    """One driver has looked at the lineage and meets the other, which has committed meanwhile; then it
    claims.
    """
    meet = tmp_path / "meet"
    meet.mkdir()
    command = ("run", "hourly", "--to", DAY_2, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    slow = start_driver(Plan(at="after the look at the lineage", meet=str(meet)), *command)
    wait_for_one(meet, slow)  # else the fast one may have committed before the slow one has even looked
    fast = driver(Plan(at="after the roll-forward", meet=str(meet)), *command)
    assert fast.returncode == 0, fast.stderr
    _, said = slow.communicate(timeout=120)
    assert slow.poll() == 5, said
    assert [row["seq"] for row in hourly.ledger()] == [1, 2]
    assert_as_model(hourly, DAY_2)


# --- the lease, as the next command finds it


def leave_claim(hourly: StoredTables, owner: str, ends_in: timedelta) -> None:
    """A claim that `owner` took a while ago and that ends so long from now."""
    attempts = AttemptsWriter(Warehouse.at(str(hourly.warehouse)).stored_tables("hourly")["attempts"])
    now = datetime.now(UTC)
    day = datetime(2013, 1, 2, tzinfo=UTC)
    claim = Attempt(
        run_id="other", parent_seq=1, slice_start=day, slice_end=day + timedelta(days=1), owner=owner, at=now
    )
    attempts.record(claim, now, claimed_at=now - timedelta(minutes=1), expires_at=now + ends_in)


def test_a_live_lease_ends_the_second_run_at_once(hourly: StoredTables) -> None:
    leave_claim(hourly, this_process(), timedelta(minutes=2))
    command = ("run", "hourly", "--to", DAY_2, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    done = driver(Plan(), *command, timeout=20)
    assert done.returncode == 5
    assert "another run is alive" in done.stderr
    assert f"/{os.getpid()}/" in done.stderr
    assert [row["seq"] for row in hourly.ledger()] == [1]


def test_a_live_lease_of_another_host_counts_too(hourly: StoredTables) -> None:
    leave_claim(hourly, "elsewhere/1/1", timedelta(minutes=2))
    command = ("run", "hourly", "--to", DAY_2, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    done = driver(Plan(), *command, timeout=20)
    assert done.returncode == 5


def dead_process() -> str:
    """The owner that a process of this host was, which has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return owner_of(process.pid, "1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "ends_in"),
    [(dead_process(), timedelta(minutes=2)), ("elsewhere/1/1", timedelta(seconds=-1))],
    ids=["of a dead process", "expired"],
)
def test_a_lease_that_nobody_holds_is_taken_over_at_once(
    hourly: StoredTables, owner: str, ends_in: timedelta
) -> None:
    leave_claim(hourly, owner, ends_in)
    command = ("run", "hourly", "--to", DAY_2, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    done = driver(Plan(), *command, timeout=60)
    assert done.returncode == 0, done.stderr
    assert_as_model(hourly, DAY_2)
