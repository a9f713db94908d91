"""A trigger, an evictor and a process function from a user's file on Spark: what they leave is what they
leave without it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from tests.integration import facts_of_own_functions as facts
from tests.integration.command import here
from tests.integration.stored import Row, StoredTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FILE = Path(facts.__file__).with_name("own_functions.py")
COMPARED = (
    "slice_start",
    "slice_end",
    "output_hash",
    "state_hash",
    "rows_accepted",
    "rows_late",
    "windows_fired",
    "windows_open",
)


def replayed(warehouse: Path, state_memory: str, monkeypatch: pytest.MonkeyPatch) -> StoredTables:
    """Two days in two cuts and with another number of tasks for each."""
    monkeypatch.setenv("SLACKWATER_STATE_MEMORY_MB", state_memory)
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-04",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    where = ("--warehouse", warehouse, "--pipelines", FILE)
    assert (
        here("run", "latest", "--from", "2013-01-01", "--to", "2013-01-01T17:42", "--partitions", "1", *where)
        == 0
    )
    assert (
        here("run", "latest", "--from", "2013-01-01T17:42", "--to", "2013-01-03", "--partitions", "3", *where)
        == 0
    )
    return StoredTables(warehouse, "latest")


def test_spark_and_one_process_leave_the_same(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark = replayed(tmp_path / "spark", "0", monkeypatch)
    assert facts.published_in(on_spark) == facts.published("2013-01-03")
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    in_process = replayed(tmp_path / "process", "1024", monkeypatch)
    assert recorded(on_spark) == recorded(in_process)
    assert without_run(on_spark.live("side_records")) == without_run(in_process.live("side_records")) != []


def recorded(stored: StoredTables) -> list[Row]:
    return [{name: row[name] for name in COMPARED} for row in stored.ledger()]


def without_run(rows: list[Row]) -> list[str]:
    return sorted(
        repr(sorted((name, value) for name, value in row.items() if name != "run_id")) for row in rows
    )
