"""Warehouses for the tests of the verbs, made once: the flights of a few days, and those days replayed.

Fixtures assert nothing about the output of verbs.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from tests.integration.command import CommandResult, driver, here
from tests.integration.driver import Plan
from tests.integration.stored import StoredTables
from tests.made_once import made_once

REPLAYED_TO = "2013-01-04"
# A pipeline of the same rules under the name `hourly`, with expectations of the test's choice.
FILE = """
from dataclasses import replace
from datetime import timedelta

from slackwater.examples.departures import departures
from slackwater.pipelines import expect

hourly = replace(departures, name="hourly", expect=[{expect}], **{{{settings}}})
"""


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the flights that arrived in the first five days; nothing has run. Not to be
    written.
    """

    def make(warehouse: Path) -> None:
        days = ("--from", "2013-01-01", "--to", "2013-01-06")
        assert here("examples", "load", "departures", *days, "--warehouse", warehouse) == 0

    return made_once(tmp_path_factory, "flights", make)


@pytest.fixture(scope="session")
def replayed(flights: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    """`departures` replayed over three days. Not to be written."""

    def make(warehouse: Path) -> None:
        shutil.copytree(flights, warehouse, dirs_exist_ok=True)
        process = driver(Plan(), "run", "departures", "--to", REPLAYED_TO, "--warehouse", warehouse)
        assert process.returncode == 0, process.stderr

    return StoredTables(made_once(tmp_path_factory, "replayed", make), "departures")


@pytest.fixture
def warehouse(flights: Path, tmp_path: Path) -> Path:
    """A warehouse of the test's own, with the flights."""
    return shutil.copytree(flights, tmp_path / "warehouse")


@pytest.fixture(scope="session")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which tests leave tables for others that begin with the same runs."""
    return tmp_path_factory.mktemp("first_runs")


@pytest.fixture
def hourly(warehouse: Path, tmp_path: Path, first_runs: Path) -> "Hourly":
    return Hourly(warehouse, tmp_path, first_runs)


class Hourly:
    """The pipeline `hourly` in a warehouse of its own, replayed by drivers without Spark."""

    def __init__(self, warehouse: Path, folder: Path, first_runs: Path) -> None:
        self.stored = StoredTables(warehouse, "hourly")
        self.first_runs = first_runs
        self.file = folder / "pipelines.py"
        self.declare()

    def declare(self, expect: str = "", settings: str = "") -> None:
        """Write the pipelines file anew."""
        self.file.write_text(FILE.format(expect=expect, settings=settings))

    @property
    def where(self) -> tuple[str, ...]:
        return ("--warehouse", str(self.stored.warehouse), "--pipelines", str(self.file))

    def run(self, *options: str, plan: Plan | None = None) -> CommandResult:
        """`slackwater run hourly OPTIONS` in a process of its own."""
        return driver(plan or Plan(), "run", "hourly", *options, *self.where)

    def run_here(self, *options: str) -> int:
        """The same in this process; asks for the fixture `without_spark`."""
        return here("run", "hourly", *options, *self.where)

    def begin(self, to: str) -> None:
        """Run to `to` from nothing. Runs of equal files are made once, and their tables copied; what the
        first of them printed is not repeated.
        """
        name = hashlib.sha256(f"{to} {self.file.read_text()}".encode()).hexdigest()
        tables, kept = self.stored.warehouse / self.stored.pipeline, self.first_runs / name
        if kept.exists():
            shutil.copytree(kept, tables)
        else:
            assert self.run_here("--to", to) == 0
            shutil.copytree(tables, kept)

    def publish(self, *arguments: str) -> int:
        """`slackwater publish hourly ARGUMENTS` in this process."""
        return here("publish", "hourly", *arguments, *self.where)

    def attempts(self) -> dict[str, dict]:
        """How each attempt stands, by run id, in the order in which they came."""
        newest: dict[str, dict] = {}
        if not DeltaTable.is_deltatable(self.stored.uri("attempts")):
            return newest
        for row in sorted(self.stored.rows("attempts"), key=lambda row: row["at"]):
            newest[row["run_id"]] = row
        return newest


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process need no Spark."""
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)


@pytest.fixture
def new_output(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """A function that returns what was printed since its last call, on both streams."""

    def both() -> str:
        out, err = capsys.readouterr()
        return out + err

    return both
