"""`slackwater plan` and `backfill --dry-run`: what they foretell is what the source and the tables hold,
counted by DuckDB.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.jobs.engines.transport import small_slices
from slackwater.jobs.engines.transport.in_process import InProcess
from slackwater.jobs.examples.departures import departures
from slackwater.jobs.protocol import opened_pipeline
from slackwater.jobs.protocol.planning import trial
from slackwater.jobs.protocol.planning.calibration import Calibration
from tests.integration.command import environment, here, slackwater
from tests.integration.conftest import great_expectations as great_expectations
from tests.integration.stored import ROOT, Stored


@pytest.fixture
def planned(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., dict[str, Any]]:
    """The plan of a command line, from its JSON, on a machine where nothing was calibrated."""
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path_factory.mktemp("cache")))

    def run(*arguments: object) -> dict[str, Any]:
        capsys.readouterr()
        assert here(*arguments, "--output", "json") == 0
        [found] = json.loads(capsys.readouterr().out)
        return dict(found)

    return run


def source(warehouse: Path) -> pa.Table:
    return DeltaTable(str(warehouse / "sources" / "departures")).to_pyarrow_dataset().to_table()


def counted(query: str, **tables: pa.Table) -> int:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return int(connection.sql(query).fetchall()[0][0])


def in_range(warehouse: Path, low: str, high: str) -> int:
    return counted(
        f"SELECT count(*) FROM s WHERE arrival_time >= '{low} 00:00:00+00' AND arrival_time < '{high} "
        "00:00:00+00'",
        s=source(warehouse),
    )


def touched(warehouse: Path, windows: pa.Table, low: str, high: str) -> int:
    return counted(
        f"""SELECT count(*) FROM (SELECT DISTINCT origin, window_start, window_end FROM w) w
            WHERE EXISTS (SELECT 1 FROM s
        WHERE s.origin = w.origin AND arrival_time >= '{low} 00:00:00+00'
            AND arrival_time < '{high} 00:00:00+00'
        AND event_time >= window_start AND event_time < window_end)""",
        s=source(warehouse),
        w=windows,
    )


def parked(stored: Stored, seq: int) -> pa.Table:
    [run_id] = [row["run_id"] for row in stored.ledger() if row["seq"] == seq]
    rows = DeltaTable(stored.uri("window_state")).to_pyarrow_dataset().to_table()
    return rows.filter(pa.compute.equal(rows.column("run_id"), run_id))


def test_before_the_first_run_the_plan_begins_the_lineage_and_writes_nothing(
    warehouse: Path, planned: Callable[..., dict[str, Any]]
) -> None:
    found = planned("plan", "departures", "--to", "2013-01-03", "--warehouse", warehouse)
    assert [(item["from"], item["rows_used"], item["files"]) for item in found["slices"]] == [
        ("2013-01-01T00:00:00Z", in_range(warehouse, "2013-01-01", "2013-01-02"), 1),
        ("2013-01-02T00:00:00Z", in_range(warehouse, "2013-01-02", "2013-01-03"), 1),
    ]
    assert (found["command"], found["continues"], found["stragglers"], found["seconds"]) == (
        "run",
        None,
        [],
        None,
    )
    assert not (warehouse / "departures").exists()


def test_a_calibration_predicts_where_nothing_is_recorded_and_leaves_the_pipeline_alone(
    warehouse: Path,
    planned: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    great_expectations: None,
) -> None:
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    where = ("plan", "departures", "--to", "2013-01-04", "--warehouse", warehouse)
    before = planned(*where)
    assert before["seconds"] is None and before["memory_mb"] > 0
    found = planned(*where, "--calibrate")
    assert not (warehouse / "departures").exists()
    rows = in_range(warehouse, "2013-01-01", "2013-01-04")
    assert found["prediction"]["calibrated"][1] == rows
    assert found["prediction"]["calibrated"][0] == pytest.approx(rows / 2, rel=0.05)
    assert found["seconds"] > 0 and "on this machine, engine columnar" in found["prediction"]["basis"]
    assert f"as {rows:,} of the rows took here" in found["memory_basis"]
    assert planned(*where)["seconds"] == pytest.approx(found["seconds"]), "it is kept"
    assert here(*where[:2], "--to", "2013-01-02", "--warehouse", warehouse, "--calibrate") == 2, (
        "842 rows are too few"
    )
    kept = Calibration.load(departures, "columnar")
    assert kept is not None
    replace(kept, start=9.0).store()
    small = planned(*where)["seconds"]
    monkeypatch.setattr(small_slices, "SMALL_BYTES", 0)
    assert planned(*where)["seconds"] == pytest.approx(small + 9.0), (
        "only slices that are not small wait for Spark to start"
    )


@pytest.mark.slow
@pytest.mark.spark
def test_a_calibration_from_the_command_line_replays_on_spark(warehouse: Path, tmp_path: Path) -> None:
    where = ("plan", "departures", "--to", "2013-01-04", "--warehouse", warehouse)
    done = slackwater(*where, "--calibrate", env=environment(SLACKWATER_CACHE=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert "of the rows took on this machine, engine columnar" in done.stdout


def test_what_is_timed_reaches_where_as_many_windows_close_as_open(
    warehouse: Path, planned: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    monkeypatch.setattr(trial, "LONG_ENOUGH_S", 0.0)
    monkeypatch.setattr(trial, "_FIRST_ROWS", 2)
    found = planned("plan", "departures", "--to", "2013-01-04", "--warehouse", warehouse, "--calibrate")
    # The watermark is an hour behind, windows are an hour long, and they wait four more.
    until = counted(
        "SELECT count(*) FROM s WHERE arrival_time < (SELECT min(arrival_time) FROM s) + INTERVAL 6 HOURS",
        s=source(warehouse),
    )
    assert found["prediction"]["calibrated"] == pytest.approx([until, 2 * until], rel=0.05)


def test_the_next_run_is_foretold_with_the_windows_that_it_touches(
    replayed: Stored, planned: Callable[..., dict[str, Any]]
) -> None:
    found = planned("plan", "departures", "--warehouse", replayed.warehouse)
    low, high = "2013-01-04", "2013-01-05"
    assert [(item["from"], item["to"]) for item in found["slices"]] == [
        (f"{low}T00:00:00Z", f"{high}T00:00:00Z")
    ]
    assert found["slices"][0]["rows_used"] == in_range(replayed.warehouse, low, high)
    assert found["slices"][0]["rows_read"] >= found["slices"][0]["rows_used"]
    assert (found["command"], found["continues"]) == ("run", 3)
    state, published = (
        parked(replayed, 3),
        DeltaTable(replayed.uri("published")).to_pyarrow_dataset().to_table(),
    )
    assert found["windows_parked"] == state.num_rows
    assert found["windows_parked_touched"] == touched(replayed.warehouse, state, low, high) > 0
    assert found["windows_published_touched"] == touched(replayed.warehouse, published, low, high) > 0
    assert found["seconds"] > 0 and found["prediction"]["runs"] == [1, 2, 3]
    assert "recorded seconds and rows of 3 runs, 1 to 3" in found["prediction"]["basis"]


def test_a_range_that_was_run_is_foretold_as_a_restatement_also_by_its_dry_run(
    replayed: Stored, planned: Callable[..., dict[str, Any]]
) -> None:
    before = len(replayed.rows("attempts")), len(replayed.ledger())
    found = planned(
        "plan",
        "departures",
        "--from",
        "2013-01-02T03:00",
        "--to",
        "2013-01-03",
        "--warehouse",
        replayed.warehouse,
    )
    low, high = "2013-01-02", "2013-01-03"
    assert (found["command"], found["continues"], found["slices_at_most"]) == ("backfill", 1, 2)
    assert [item["rows_used"] for item in found["slices"]] == [in_range(replayed.warehouse, low, high)]
    published = DeltaTable(replayed.uri("published")).to_pyarrow_dataset().to_table()
    assert found["windows_parked_touched"] == touched(replayed.warehouse, parked(replayed, 1), low, high)
    assert found["windows_published_touched"] == touched(replayed.warehouse, published, low, high)
    assert found["said"] == [
        "from 2013-01-02T03:00:00Z moved to 2013-01-02T00:00:00Z, the last boundary of a slice before it"
    ]
    arguments = (
        "--from",
        "2013-01-02T03:00",
        "--to",
        "2013-01-03",
        "--dry-run",
        "--warehouse",
        replayed.warehouse,
    )
    assert planned("backfill", "departures", *arguments) == found
    finer = planned("backfill", "departures", "--slice", "12h", *arguments)
    assert [item["from"] for item in finer["slices"]] == ["2013-01-02T00:00:00Z", "2013-01-02T12:00:00Z"]
    assert (len(replayed.rows("attempts")), len(replayed.ledger())) == before


def test_stragglers_and_waste_are_told_where_they_are(
    replayed: Stored, tmp_path: Path, said: Callable[[], str], planned: Callable[..., dict[str, Any]]
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    rows = source(warehouse)
    some = rows.filter(
        pa.compute.less(
            rows.column("arrival_time"), pa.scalar(1_357_200_000_000_000, pa.timestamp("us", tz="UTC"))
        )
    )
    write_deltalake(
        str(warehouse / "sources" / "departures"), some, mode="append"
    )  # arrivals of the first three days, once more
    found = planned("plan", "departures", "--warehouse", warehouse)
    by_day = [
        counted(
            f"SELECT count(*) FROM s WHERE date_trunc('day', arrival_time AT TIME ZONE 'UTC') = '{day}'",
            s=some,
        )
        for day in ("2013-01-01", "2013-01-02", "2013-01-03")
    ]
    assert [(item["from"], item["rows"]) for item in found["stragglers"]] == [
        (f"{day}T00:00:00Z", rows_of)
        for day, rows_of in zip(("2013-01-01", "2013-01-02", "2013-01-03"), by_day, strict=True)
        if rows_of
    ]
    assert [text for text in found["said"] if text.startswith("it would read ")]
    assert here("plan", "departures", "--warehouse", warehouse) == 0
    text = said()
    assert (
        f"stragglers: {sum(by_day):,} rows appeared after the slice of their arrival was run: {by_day[0]:,} "
        "in [2013-01-01" in text
    )
    assert "warning: it would read " in text


def test_a_source_that_was_rewritten_is_foretold_as_the_refusal_that_it_is(
    replayed: Stored, tmp_path: Path, planned: Callable[..., dict[str, Any]]
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    DeltaTable(str(warehouse / "sources" / "departures")).delete("arrival_time < '2013-01-02T00:00:00Z'")
    found = planned("plan", "departures", "--warehouse", warehouse)
    assert [
        text
        for text in found["said"]
        if text.startswith("it would be refused: ") and "Restate them, from 2013-01-01T" in text
    ]
    again = planned(
        "plan", "departures", "--from", "2013-01-01", "--to", "2013-01-02", "--warehouse", warehouse
    )
    assert (again["command"], again["said"]) == ("backfill", [])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--from", "2013-01-05", "--to", "2013-01-06"), "would leave a gap"),
        (("--from", "2013-01-02", "--to", "2013-01-02"), "is not before"),
    ],
)
def test_a_range_that_can_be_neither_run_nor_restated_is_refused(
    replayed: Stored, said: Callable[[], str], options: tuple[str, ...], told: str
) -> None:
    assert here("plan", "departures", *options, "--warehouse", replayed.warehouse) == 2
    assert told in said()


def test_a_plan_starts_no_spark(replayed: Stored) -> None:
    code = (
        "import sys; from slackwater.jobs import command_line as c; "
        "code = c.run(lambda: c.slackwater.main(sys.argv[1:], standalone_mode=False)); "
        "assert not {'pyspark', 'pandas', 'great_expectations'} & set(sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "plan", "departures", "--warehouse", str(replayed.warehouse)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
