"""`--on` decides where slices are replayed; the ledger and the log say where. Results are the same."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.command import here, slackwater
from tests.integration.stored import Row, StoredTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = ("state_hash", "output_hash", "rows_read", "windows_fired", "windows_open", "watermark_out")


def ran(warehouse: Path, *options: str, file: Path | None = None, name: str = "departures") -> list[Row]:
    """The ledger after a run of two days."""
    own = () if file is None else ("--pipelines", file)
    assert here("run", name, "--to", "2013-01-03", *options, "--warehouse", warehouse, *own) == 0
    return StoredTables(warehouse, name).ledger()


def test_where_a_slice_was_replayed_stands_in_the_ledger_in_runs_and_in_the_log(
    warehouse: Path, new_output: Callable[[], str]
) -> None:
    rows = ran(warehouse, "--log-format", "json")
    assert [row["place"] for row in rows] == ["threads", "threads"]
    reasons = [row["place_reason"] for row in rows]
    assert all(reason.endswith("kB, at most 256 MB") for reason in reasons), reasons
    lines = [json.loads(line) for line in new_output().splitlines() if line.startswith("{")]
    said = [line["step"] for line in lines if "the slice is replayed" in line["step"]]
    assert said == [f"the slice is replayed by threads: {reason}" for reason in reasons]
    assert here("runs", "departures", "2", "--warehouse", warehouse) == 0
    assert f"threads: {reasons[1]}" in " ".join(new_output().split())


def test_a_plan_says_where_each_slice_would_be_replayed(
    warehouse: Path, new_output: Callable[[], str]
) -> None:
    where = ("departures", "--to", "2013-01-03", "--warehouse", warehouse, "--output", "json")
    for options, place in ((), "threads"), (("--on", "spark"), "spark"), (("--on", "here"), "threads"):
        assert here("plan", *options, *where) == 0
        [plan] = json.loads(new_output())
        assert [item["place"] for item in plan["slices"]] == [place, place]


@pytest.mark.slow
def test_a_pipeline_that_declares_on_spark_may_be_run_here_all_the_same(
    warehouse: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from slackwater.examples.departures import departures\n"
        'mine = replace(departures, name="mine", on="spark")\n'
    )
    rows = ran(warehouse, "--on", "here", file=file, name="mine")
    assert {(row["place"], row["place_reason"]) for row in rows} == {("threads", "asked for by on=here")}
    file.write_text(file.read_text().replace('on="spark"', 'on="elsewhere"'))
    process = slackwater("run", "mine", "--to", "2013-01-04", "--warehouse", warehouse, "--pipelines", file)
    assert process.returncode == 2
    assert "on is 'elsewhere'; it is 'auto', 'here' or 'spark'" in process.stderr


@pytest.mark.slow
def test_on_spark_its_tasks_replay_a_small_slice_to_the_same_results(
    spark: "SparkSession", flights: Path, tmp_path: Path
) -> None:
    copies = [shutil.copytree(flights, tmp_path / place) for place in ("here", "spark")]
    on_threads = ran(copies[0], "--on", "here")
    on_spark = ran(copies[1], "--on", "spark", "--partitions", "3")
    assert {(row["place"], row["place_reason"]) for row in on_spark} == {("spark", "asked for by on=spark")}
    assert [[row[name] for name in SAME] for row in on_spark] == [
        [row[name] for name in SAME] for row in on_threads
    ]
    assert here("verify", "departures", "2", "--on", "spark", "--warehouse", copies[0]) == 0
    assert here("verify", "departures", "2", "--on", "here", "--warehouse", copies[1]) == 0
