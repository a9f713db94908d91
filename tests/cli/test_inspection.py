"""The inspection verbs import neither Spark nor pandas, answer at once, and print JSON with the documented
columns.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.examples import EXAMPLES
from slackwater.tables.schemas import RUNS, Shape, table_columns
from tests.integration.command import environment, here, slackwater
from tests.integration.facts import facts_of_tables
from tests.integration.stored import ROOT, StoredTables

SHAPE = Shape(
    keys=(("origin", pa.string()),),
    results=(("flights", pa.int64()), ("mean_dep_delay", pa.float64()), ("max_dep_delay", pa.int32())),
    parts=(
        *(
            ("flights__count", pa.int64()),
            ("mean_dep_delay__sum", pa.decimal128(38, 0)),
            ("mean_dep_delay__count", pa.int64()),
        ),
        ("max_dep_delay__max", pa.int32()),
    ),
    source=(),
)
VERBS = [
    ("sources", "look", "sources/departures"),
    ("pipelines",),
    ("runs", "departures"),
    ("runs", "departures", "2"),
    ("state", "windows", "departures"),
    ("state", "timers", "departures"),
    ("state", "keyed", "departures"),
    ("state", "watermarks", "departures"),
    ("state", "diff", "departures", "1", "2"),
    ("branches", "list", "departures"),
    ("diff", "departures", "departures"),
    ("explain", "departures", "--key", "JFK", "--window", "2013-01-02T15:00"),
    ("late", "list", "departures"),
    ("late", "report", "departures"),
    ("sql", "departures", "FROM windows_now"),
    ("late", "advise", "departures"),
    ("examples", "list"),
    ("doctor",),
]
# Nothing differs from itself; there is no branch, and aggregates keep nothing beside their windows.
NOTHING = [
    ("diff", "departures", "departures"),
    ("state", "keyed", "departures"),
    ("branches", "list", "departures"),
]
# These ask nothing in SQL.
WITHOUT_DUCKDB = [
    ("pipelines",),
    ("runs", "departures"),
    ("runs", "departures", "2"),
    ("state", "watermarks", "departures"),
    ("branches", "list", "departures"),
    ("doctor",),
]
# Runs a command line in a process and says, after all output of the verb, what it took.
MEASURED = """
import json, os, resource, sys
from slackwater.cli import command_line
code = command_line.run(lambda: command_line.slackwater.main(sys.argv[1:], standalone_mode=False))
used = resource.getrusage(resource.RUSAGE_SELF)
loaded = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "cpu": used.ru_utime + used.ru_stime, "loaded": loaded}), file=sys.stderr)
sys.stdout.flush()
os._exit(0)
"""
# The libraries that a verb can't do without, imported by a process of their own.
LIBRARIES = """
import resource
import click, duckdb, pyarrow.dataset, rich.table
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def located(verb: tuple[str, ...], warehouse: Path) -> tuple[str, ...]:
    return verb if verb in (("pipelines",), ("examples", "list")) else (*verb, "--warehouse", str(warehouse))


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict]:
    capsys.readouterr()
    assert here(*arguments, "--output", "json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def libraries_cpu() -> float:
    """CPU seconds of a process that imports the libraries and does nothing: the median of five."""

    def seconds() -> float:
        return float(subprocess.check_output([sys.executable, "-c", LIBRARIES], env=environment()))

    return statistics.median(seconds() for _ in range(5))


@pytest.mark.first_fast
@pytest.mark.parametrize("output", [pytest.param("table", marks=pytest.mark.slow), "json"])
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_inspection_imports_neither_spark_nor_pandas_and_answers_at_once(
    replayed: StoredTables, libraries_cpu: float, verb: tuple[str, ...], output: str
) -> None:
    command = [sys.executable, "-c", MEASURED, *located(verb, replayed.warehouse), "--output", output]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    measured = json.loads(process.stderr.splitlines()[-1])
    assert measured["code"] == 0, process.stderr
    assert not {"pyspark", "py4j", "pandas", "great_expectations", "airflow"} & set(measured["loaded"])
    assert "slackwater" in measured["loaded"]
    assert verb not in WITHOUT_DUCKDB or "duckdb" not in measured["loaded"]
    assert measured["cpu"] < 2 * libraries_cpu, "little beside the imports of the libraries"
    assert process.stdout.strip()
    if output == "json":
        assert json.loads(process.stdout) or verb in NOTHING


def test_the_ledger_as_json_has_every_column_in_the_documented_order(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json_of(capsys, "runs", "departures", "--warehouse", replayed.warehouse)
    documented = [name for name, _ in RUNS]
    assert [list(row)[: len(documented)] for row in rows] == [documented] * 3
    assert [(row["seq"], row["slice_start"], row["slice_end"]) for row in rows] == [
        (1, "2013-01-01T00:00:00Z", "2013-01-02T00:00:00Z"),
        (2, "2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"),
        (3, "2013-01-03T00:00:00Z", "2013-01-04T00:00:00Z"),
    ]
    assert [row["rows_read"] for row in rows] == [row["rows_read"] for row in replayed.ledger()]
    assert [row["touched"][0] for row in rows] == ["2013-01-01", "2013-01-01", "2013-01-02"]


def test_one_run_as_json_has_its_checks(replayed: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = json_of(capsys, "runs", "departures", "2", "--warehouse", replayed.warehouse)
    assert row["seq"] == 2
    declared = {
        "1 <= flights",
        "-60 <= mean_dep_delay <= 1500",
        "-60 <= max_dep_delay <= 1500",
        "origin in ['EWR', 'JFK', 'LGA']",
    }
    assert {*declared, "rows are conserved"} <= {check["expectation"] for check in row["checks"]}
    assert all(check["passed"] for check in row["checks"])


@pytest.mark.parametrize(
    ("shown", "table"),
    [("windows", "window_state"), ("timers", "timers"), ("watermarks", "source_progress")],
    ids=lambda name: name,
)
def test_snapshots_as_json_have_the_documented_columns(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str], shown: str, table: str
) -> None:
    rows = json_of(capsys, "state", shown, "departures", "--warehouse", replayed.warehouse)
    documented = [name for name, _ in table_columns(SHAPE)[table] if name != "run_id"]
    assert {tuple(row) for row in rows} == {tuple(documented)}
    assert len(rows) == len(replayed.parked(table))


def test_late_rows_as_json_are_those_of_the_live_runs(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json_of(capsys, "late", "list", "departures", "--warehouse", replayed.warehouse)
    wanted = facts_of_tables(replayed)["late"]
    assert sorted(row["row"] for row in rows) == sorted(late[0] for late in wanted)
    assert {"origin", "event_time", "arrival_time", "windows", "late_by_ms", "watermark", "seq"} <= set(
        rows[0]
    )
    assert rows[0]["windows"][0].keys() == {"start", "end"}


def test_registered_pipelines_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, "pipelines")
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    [row] = [row for row in rows if row["name"] == "departures"]
    assert (row["name"], row["source"], row["key"], row["lateness"], row["schedule"]) == (
        *("departures", "sources/departures", "origin"),
        *("4:00:00", "@daily"),
    )
    assert row["results"] == ["flights", "mean_dep_delay", "max_dep_delay"]


def test_examples_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, "examples", "list")
    assert [row["name"] for row in rows] == list(EXAMPLES)
    [row] = [row for row in rows if row["name"] == "departures"]
    assert (row["name"], row["pipeline"], row["source"]) == ("departures", "departures", "sources/departures")


def test_windows_of_one_key_only(replayed: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    everything = json_of(capsys, "state", "windows", "departures", "--warehouse", replayed.warehouse)
    some = json_of(
        capsys, "state", "windows", "departures", "--key", "JFK", "--warehouse", replayed.warehouse
    )
    assert some == [row for row in everything if row["origin"] == "JFK"] and 0 < len(some) < len(everything)


def test_state_as_of_an_earlier_run(replayed: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    first = json_of(capsys, "state", "windows", "departures", "--run", "1", "--warehouse", replayed.warehouse)
    assert len(first) == replayed.ledger()[0]["windows_open"]
    assert {row["window_start"][:10] for row in first} == {"2013-01-01"}
    [whole, *_] = json_of(
        capsys, "state", "watermarks", "departures", "--run", "1", "--warehouse", replayed.warehouse
    )
    assert whole["clock"] == "2013-01-02T00:00:00Z"


def test_the_ledger_since_a_run(replayed: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, "runs", "departures", "--since", "2", "--warehouse", replayed.warehouse)
    assert [row["seq"] for row in rows] == [3]
    assert json_of(capsys, "runs", "departures", "--since", "3", "--warehouse", replayed.warehouse) == []


def test_tables_to_read_show_the_same_rows(replayed: StoredTables, new_output: Callable[[], str]) -> None:
    assert here("runs", "departures", "--warehouse", replayed.warehouse) == 0
    text = new_output()
    assert not any(row["run_id"] in text for row in replayed.ledger())
    assert here("runs", "departures", "--wide", "--warehouse", replayed.warehouse) == 0
    text = new_output()
    assert all(row["run_id"] in text for row in replayed.ledger())
    assert here("state", "windows", "departures", "--key", "JFK", "--warehouse", replayed.warehouse) == 0
    text = new_output()
    assert text.count("JFK") == sum(row["origin"] == "JFK" for row in replayed.parked("window_state"))
    assert "EWR" not in text


def test_nothing_to_show_is_said(replayed: StoredTables, new_output: Callable[[], str]) -> None:
    assert here("state", "timers", "departures", "--key", "nowhere", "--warehouse", replayed.warehouse) == 0
    assert "no timer is pending" in new_output()


def test_of_two_states_one_key_is_compared(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    diff = ("state", "diff", "departures", 2, 3)
    rows = json_of(capsys, *diff, "--warehouse", replayed.warehouse)
    of_key = json_of(capsys, *diff, "--key", "EWR", "--warehouse", replayed.warehouse)
    assert of_key == [row for row in rows if row["origin"] == "EWR"]
    assert {row["what"] for row in of_key} == {"window", "timer"}


@pytest.mark.parametrize(
    "verb", [("runs",), ("state", "windows"), ("state", "timers"), ("state", "watermarks"), ("late", "list")]
)
def test_a_pipeline_that_never_ran_is_told_with_the_next_step(
    flights: Path, new_output: Callable[[], str], verb: tuple[str, ...]
) -> None:
    assert here(*verb, "departures", "--warehouse", flights) == 2
    text = new_output()
    assert "has never run" in text and "slackwater run departures --to" in text and "--warehouse" in text


def test_a_run_that_is_not_there_is_told(replayed: StoredTables, new_output: Callable[[], str]) -> None:
    assert here("runs", "departures", "99", "--warehouse", replayed.warehouse) == 2
    assert "no row 99" in new_output()
    assert here("state", "windows", "departures", "--run", "99", "--warehouse", replayed.warehouse) == 2
    assert "no row 99" in new_output()


def test_the_warehouse_may_come_from_the_environment(replayed: StoredTables) -> None:
    variables = environment(SLACKWATER_WAREHOUSE=str(replayed.warehouse))
    process = slackwater("runs", "departures", "--output", "json", env=variables)
    assert process.returncode == 0 and len(json.loads(process.stdout)) == 3
