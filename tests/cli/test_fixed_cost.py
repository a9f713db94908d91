"""What a command that works loads before it works: `run` without anything to do asks for nothing heavy, and a
small slice not for Spark, nor for Great Expectations where the pipeline has no suite.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import REPLAYED_TO
from tests.cli.test_inspection import MEASURED
from tests.integration.command import environment
from tests.integration.stored import ROOT, StoredTables

HEAVY = {"pyspark", "py4j", "great_expectations", "pandas", "rich", "openlineage", "rocksdict"}
WITH_PANDAS = """
import pandas
import pyarrow

from slackwater.examples.departures import departures

assert pyarrow.table({"a": [1]}).to_pandas().a.tolist() == [1]
"""


def modules_of(*arguments: object) -> set[str]:
    """The top-level modules that a command has loaded when it ends well."""
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    measured = json.loads(process.stderr.splitlines()[-1])
    assert measured["code"] == 0, process.stderr
    return set(measured["loaded"])


def test_a_run_that_has_nothing_to_do_loads_nothing_heavy(replayed: StoredTables) -> None:
    modules = modules_of("run", "departures", "--to", REPLAYED_TO, "--warehouse", replayed.warehouse)
    assert "pyarrow" in modules
    assert modules & (HEAVY | {"duckdb"}) == set()


WITHOUT_SUITE = """
from dataclasses import replace

from slackwater.examples.departures import departures

departures = replace(departures, expect=[item for item in departures.expect if item not in departures.suites])
"""


@pytest.mark.slow
def test_a_small_slice_needs_no_spark_and_without_a_suite_no_great_expectations(
    replayed: StoredTables, tmp_path: Path
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    (tmp_path / "mine.py").write_text(WITHOUT_SUITE)
    where = ("--warehouse", warehouse, "--pipelines", tmp_path / "mine.py")
    modules = modules_of("run", "departures", "--to", "2013-01-05", *where)
    assert modules & HEAVY == set()
    assert StoredTables(warehouse, "departures").ledger()[-1]["verdict"] == "passed"
    assert "great_expectations" in modules_of(
        "run", "departures", "--to", "2013-01-06", "--warehouse", warehouse
    )


def test_a_file_of_the_user_that_wants_pandas_has_it(replayed: StoredTables, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WITH_PANDAS)
    where = ("--warehouse", replayed.warehouse, "--pipelines", tmp_path / "mine.py")
    assert "pandas" in modules_of("run", "departures", "--to", REPLAYED_TO, *where)
