"""`kill -9` of the driver at every moment that matters: readers see whole runs only, and the next command
repairs or repeats.

Each driver is a real command line in a process of its own, which kills itself; see
`tests.integration.driver`.
"""

import json
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.integration.command import CommandResult, driver, environment, here
from tests.integration.driver import STARTED_SPARK, Plan
from tests.integration.facts import assert_as_model, assert_corrections_make_published, assert_whole
from tests.integration.stored import ROOT, StoredTables

TO = "2013-01-04"
PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
BEFORE_COMMIT = ["before the panes are staged", "before the ledger commit"]
AFTER_COMMIT = ["after the ledger commit", "between the roll-forward commits", "after the roll-forward"]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the flights of four days, where nothing has run yet."""
    warehouse = tmp_path_factory.mktemp("flights")
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
    return warehouse


@pytest.fixture
def hourly(flights: Path, tmp_path: Path) -> StoredTables:
    return StoredTables(shutil.copytree(flights, tmp_path / "warehouse"), "hourly")


@pytest.fixture(scope="module")
def killed(flights: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], StoredTables]:
    """What a driver leaves that was to run three slices and died in the second, at a moment; checked for what
    readers see then.
    """

    @cache
    def left_by(at: str) -> Path:
        warehouse = tmp_path_factory.mktemp("killed") / "warehouse"
        hourly = StoredTables(shutil.copytree(flights, warehouse), "hourly")
        done = run(hourly, Plan(at=at, nth=2))
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert_whole(hourly)
        return warehouse

    return lambda at: StoredTables(
        shutil.copytree(left_by(at), tmp_path_factory.mktemp("copy") / "warehouse"), "hourly"
    )


def run(hourly: StoredTables, plan: Plan, *options: str, **variables: str) -> CommandResult:
    arguments = (
        "run",
        "hourly",
        "--to",
        TO,
        *options,
        "--warehouse",
        hourly.warehouse,
        "--pipelines",
        PIPELINES,
    )
    return driver(plan, *arguments, env=environment(**variables) if variables else None)


def assert_finished(hourly: StoredTables) -> None:
    assert_as_model(hourly, TO)
    assert_corrections_make_published(hourly)
    assert [row["seq"] for row in hourly.ledger()] == [1, 2, 3]
    assert hourly.rolled_forward() == 3


@pytest.mark.slow
@pytest.mark.parametrize("at", BEFORE_COMMIT)
def test_a_run_killed_before_its_commit_never_was_and_the_next_repeats_it(
    killed: Callable[[str], StoredTables], at: str
) -> None:
    hourly = killed(at)
    assert [row["seq"] for row in hourly.ledger()] == [1]
    done = run(hourly, Plan())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows ") == 2, "the slice that was killed and the one after it"
    assert_finished(hourly)
    attempts = {row["run_id"]: row["attempt"] for row in hourly.rows("attempts")}
    assert sorted(attempts.values()) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "at", [AFTER_COMMIT[0], *(pytest.param(at, marks=pytest.mark.slow) for at in AFTER_COMMIT[1:])]
)
def test_a_run_killed_after_its_commit_stands_and_the_next_finishes_it(
    killed: Callable[[str], StoredTables], at: str
) -> None:
    hourly = killed(at)
    assert [row["seq"] for row in hourly.ledger()] == [1, 2]
    assert hourly.rolled_forward() == (2 if at == "after the roll-forward" else 1)
    done = run(hourly, Plan())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows ") == 1, "only the slice after the one that was committed"
    assert_finished(hourly)


@pytest.mark.first_fast
@pytest.mark.parametrize("at", AFTER_COMMIT)
def test_publish_alone_finishes_what_a_killed_run_has_committed(
    killed: Callable[[str], StoredTables], at: str
) -> None:
    hourly = killed(at)
    done = driver(Plan(), "publish", "hourly", "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    assert (done.returncode, "nothing to publish" in done.stdout) == (0, True), done.stderr
    assert hourly.rolled_forward() == 2
    assert_as_model(hourly, "2013-01-03")
    assert_corrections_make_published(hourly)


@pytest.mark.slow
def test_a_no_op_run_finishes_the_roll_forward_of_a_killed_one(hourly: StoredTables) -> None:
    assert run(hourly, Plan(at="between the roll-forward commits", nth=3)).returncode == -signal.SIGKILL
    assert_whole(hourly)
    assert hourly.rolled_forward() == 2
    done = run(hourly, Plan())
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True), done.stderr
    assert_finished(hourly)


def test_inspection_says_that_a_roll_forward_is_open_and_leaves_it_open(
    killed: Callable[[str], StoredTables],
) -> None:
    hourly = killed("after the ledger commit")
    done = driver(Plan(), "runs", "hourly", "--warehouse", hourly.warehouse, "--output", "json")
    assert [row["seq"] for row in json.loads(done.stdout)] == [1, 2]
    assert "`published` is as of run 1, the ledger at 2" in done.stderr
    assert "slackwater publish hourly" in done.stderr
    assert hourly.rolled_forward() == 1


@pytest.mark.slow
def test_a_slice_that_was_staged_before_the_kill_can_be_published_as_it_is(
    killed: Callable[[str], StoredTables],
) -> None:
    hourly = killed("before the ledger commit")
    done = driver(Plan(), "publish", "hourly", "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
    assert (done.returncode, "published run 2 " in done.stdout) == (0, True), done.stderr
    assert_as_model(hourly, "2013-01-03")
    assert_corrections_make_published(hourly)


@pytest.mark.slow
def test_publish_of_a_chain_killed_at_any_moment_publishes_all_of_it_or_nothing(hourly: StoredTables) -> None:
    assert run(hourly, Plan(), "--no-publish").returncode == 0
    for at in ("before the ledger commit", "after the ledger commit", "between the roll-forward commits"):
        arguments = ("publish", "hourly", "--warehouse", hourly.warehouse, "--pipelines", PIPELINES)
        nth = 2 if at == "between the roll-forward commits" else 1
        done = driver(Plan(at=at, nth=nth), *arguments)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert_whole(hourly)
        assert len(hourly.ledger()) == (0 if at == "before the ledger commit" else 3)
    assert hourly.rolled_forward() == 1, "killed between the roll-forward commits of the second slice"
    assert driver(Plan(), *arguments).returncode == 0
    assert_finished(hourly)


@pytest.mark.slow
@pytest.mark.parametrize("at", ["before the ledger commit", "between the roll-forward commits"])
def test_a_driver_killed_with_its_spark_leaves_no_process_and_the_next_repairs(
    hourly: StoredTables, at: str
) -> None:
    done = run(hourly, Plan(at=at, nth=2, spark=True), SLACKWATER_TEST=str(hourly.warehouse))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert STARTED_SPARK in done.stderr
    assert_whole(hourly)
    for _ in range(60):
        if not processes_of(hourly):
            break
        time.sleep(1)
    assert processes_of(hourly) == []
    done = run(hourly, Plan(spark=True))
    assert done.returncode == 0, done.stderr
    assert_finished(hourly)


def processes_of(hourly: StoredTables) -> list[str]:
    """Living processes, a JVM among them, that inherited the killed driver's environment."""
    marker = f"SLACKWATER_TEST={hourly.warehouse}\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes():
                found.append((process / "comm").read_text().strip())
        except OSError:  # it has ended, or is another user's
            continue
    return found
