"""Warehouse and source on an S3 server: every verb of the protocol does there what it does on a disk.

What the tables hold is read from the server's files, not by S3.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.command import environment
from tests.integration.driver import Plan
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.stored import ROOT
from tests.object_store.conftest import HourlyOnS3

DAY_3, DAY_4, DAY_5 = "2013-01-04", "2013-01-05", "2013-01-06"


def test_a_slice_leaves_what_the_model_does(hourly: HourlyOnS3) -> None:
    assert hourly.here("run", "--to", DAY_3) == 0
    assert_as_model(hourly.stored, DAY_3)
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
def test_every_verb_that_writes_does_its_work(hourly: HourlyOnS3) -> None:
    steps = (
        ("run", "--to", DAY_3, "--no-publish"),
        ("publish",),
        ("state fork", "fix", "--run", "2"),
        ("run", "--to", DAY_3, "--branch", "fix"),
        ("publish", "fix"),
        ("state restore", "2"),
        ("run", "--to", DAY_4),
        ("state fork", "other"),
        ("branches drop", "other"),
        ("backfill", "--from", "2013-01-02", "--to", "2013-01-04"),
        ("maintain",),
        ("run", "--to", DAY_5),
        ("verify", "--tables"),
    )
    for step in steps:
        assert hourly.here(*step) == 0, step
    kinds = [row["kind"] for row in hourly.stored.ledger()]
    assert kinds[:9] == ["run", "run", "run", "fork", "run", "publish", "drop", "restore", "run"]
    assert_as_model(hourly.stored, DAY_5)
    assert_corrections_make_published(hourly.stored)
    assert hourly.here("verify", str(len(kinds))) == 0
    assert hourly.here("state close") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--to", DAY_5),
        ("runs",),
        ("branches list",),
        ("state windows",),
        ("state timers",),
        ("state watermarks",),
        ("state diff", "1", "2"),
        ("health",),
        ("late list",),
        ("late report",),
        ("quarantine list",),
        ("sql", "SELECT count(*) FROM published"),
        ("maintain", "--dry-run"),
        ("erase", "--key", "EWR", "--reason", "asked", "--dry-run"),
    ],
    ids=" ".join,
)
def test_every_verb_that_looks_sees_the_tables(hourly: HourlyOnS3, words: tuple[str, ...]) -> None:
    verb, *others = words
    assert hourly.here(verb, *others, "--output", "json") == 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before the panes are staged", "after the ledger commit"])
def test_a_driver_that_is_killed_is_followed_by_one_that_goes_on(hourly: HourlyOnS3, moment: str) -> None:
    assert hourly.driver(Plan(at=moment), "run", "--to", DAY_3).returncode == -signal.SIGKILL
    assert hourly.here("run", "--to", DAY_4) == 0
    assert_as_model(hourly.stored, DAY_4)
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
def test_of_two_drivers_one_commits(hourly: HourlyOnS3, tmp_path: Path) -> None:
    plan = Plan(at="before the ledger commit", lease=False, meet=str(tmp_path))
    command = (sys.executable, "-m", "tests.integration.driver", plan.text(), "run", "hourly", "--to", DAY_3)
    variables = environment(**hourly.store.variables, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    drivers = [
        subprocess.Popen(
            (*command, *hourly.where), cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in drivers]
    assert sorted(process.returncode for process in drivers) == [0, 5], errors
    assert len(list(tmp_path.iterdir())) == 2, "both came to the moment"
    assert "another run committed first" in "".join(errors)
    assert_as_model(hourly.stored, DAY_3)
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
def test_tasks_on_spark_read_and_write_there(hourly: HourlyOnS3) -> None:
    # With more ranges than threads have in two rounds, a slice is not small.
    many_ranges, two_cores = ("--partitions", "6"), {"SLACKWATER_MASTER": "local[2]"}
    done = hourly.driver(Plan(spark=True), "run", "--to", DAY_3, *many_ranges, variables=two_cores)
    assert done.returncode == 0, done.stderr
    assert_as_model(hourly.stored, DAY_3)
    assert_corrections_make_published(hourly.stored)
