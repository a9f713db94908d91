"""`slackwater plan` and `backfill --dry-run` predict the files, rows and windows that DuckDB counts in the
source and in the tables.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import environment, here
from tests.integration.stored import ROOT, StoredTables


@pytest.fixture
def plan_of(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., dict[str, Any]]:
    """The plan of a command line, from its JSON, on a machine where nothing was calibrated."""
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path_factory.mktemp("cache")))

    def run(*arguments: object) -> dict[str, Any]:
        capsys.readouterr()
        assert here(*arguments, "--output", "json") == 0
        [plan] = json.loads(capsys.readouterr().out)
        return dict(plan)

    return run


def source(warehouse: Path) -> pa.Table:
    return DeltaTable(str(warehouse / "sources" / "departures")).to_pyarrow_dataset().to_table()


def count(query: str, **tables: pa.Table) -> int:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return int(connection.sql(query).fetchall()[0][0])


def in_range(warehouse: Path, low: str, high: str) -> int:
    return count(
        f"SELECT count(*) FROM s WHERE arrival_time >= '{low} 00:00:00+00' AND arrival_time < '{high} "
        "00:00:00+00'",
        s=source(warehouse),
    )


def count_touched(warehouse: Path, windows: pa.Table, low: str, high: str) -> int:
    return count(
        f"""SELECT count(*) FROM (SELECT DISTINCT origin, window_start, window_end FROM w) w
            WHERE EXISTS (SELECT 1 FROM s
        WHERE s.origin = w.origin AND arrival_time >= '{low} 00:00:00+00'
            AND arrival_time < '{high} 00:00:00+00'
        AND event_time >= window_start AND event_time < window_end)""",
        s=source(warehouse),
        w=windows,
    )


def parked_windows(stored: StoredTables, seq: int) -> pa.Table:
    [run_id] = [row["run_id"] for row in stored.ledger() if row["seq"] == seq]
    rows = DeltaTable(stored.uri("window_state")).to_pyarrow_dataset().to_table()
    return rows.filter(pa.compute.equal(rows.column("run_id"), run_id))


def test_before_the_first_run_the_plan_begins_the_lineage_and_writes_nothing(
    warehouse: Path, plan_of: Callable[..., dict[str, Any]]
) -> None:
    plan = plan_of("plan", "departures", "--to", "2013-01-03", "--warehouse", warehouse)
    assert [(item["from"], item["rows_used"], item["files"]) for item in plan["slices"]] == [
        ("2013-01-01T00:00:00Z", in_range(warehouse, "2013-01-01", "2013-01-02"), 1),
        ("2013-01-02T00:00:00Z", in_range(warehouse, "2013-01-02", "2013-01-03"), 1),
    ]
    assert (plan["command"], plan["continues"], plan["stragglers"], plan["seconds"]) == (
        "run",
        None,
        [],
        None,
    )
    assert not (warehouse / "departures").exists()


def test_the_next_run_is_foretold_with_the_windows_that_it_touches(
    replayed: StoredTables, plan_of: Callable[..., dict[str, Any]]
) -> None:
    plan = plan_of("plan", "departures", "--warehouse", replayed.warehouse)
    low, high = "2013-01-04", "2013-01-05"
    assert [(item["from"], item["to"]) for item in plan["slices"]] == [
        (f"{low}T00:00:00Z", f"{high}T00:00:00Z")
    ]
    assert plan["slices"][0]["rows_used"] == in_range(replayed.warehouse, low, high)
    assert plan["slices"][0]["rows_read"] >= plan["slices"][0]["rows_used"]
    assert (plan["command"], plan["continues"]) == ("run", 3)
    windows, published_rows = (
        parked_windows(replayed, 3),
        DeltaTable(replayed.uri("published")).to_pyarrow_dataset().to_table(),
    )
    assert plan["windows_parked"] == windows.num_rows
    assert plan["windows_parked_touched"] == count_touched(replayed.warehouse, windows, low, high) > 0
    assert (
        plan["windows_published_touched"] == count_touched(replayed.warehouse, published_rows, low, high) > 0
    )
    assert plan["seconds"] > 0 and plan["prediction"]["runs"] == [1, 2, 3]
    assert "recorded seconds and rows of 3 runs, 1 to 3" in plan["prediction"]["basis"]


def test_a_range_that_was_run_is_foretold_as_a_restatement_also_by_its_dry_run(
    replayed: StoredTables, plan_of: Callable[..., dict[str, Any]]
) -> None:
    before = len(replayed.rows("attempts")), len(replayed.ledger())
    plan = plan_of(
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
    assert (plan["command"], plan["continues"], plan["slices_at_most"]) == ("backfill", 1, 2)
    assert [item["rows_used"] for item in plan["slices"]] == [in_range(replayed.warehouse, low, high)]
    published_rows = DeltaTable(replayed.uri("published")).to_pyarrow_dataset().to_table()
    assert plan["windows_parked_touched"] == count_touched(
        replayed.warehouse, parked_windows(replayed, 1), low, high
    )
    assert plan["windows_published_touched"] == count_touched(replayed.warehouse, published_rows, low, high)
    assert plan["said"] == [
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
    assert plan_of("backfill", "departures", *arguments) == plan
    finer = plan_of("backfill", "departures", "--slice", "12h", *arguments)
    assert [item["from"] for item in finer["slices"]] == ["2013-01-02T00:00:00Z", "2013-01-02T12:00:00Z"]
    assert (len(replayed.rows("attempts")), len(replayed.ledger())) == before


def test_stragglers_and_waste_are_told_where_they_are(
    replayed: StoredTables,
    tmp_path: Path,
    new_output: Callable[[], str],
    plan_of: Callable[..., dict[str, Any]],
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    rows = source(warehouse)
    first_three_days = rows.filter(
        pa.compute.less(
            rows.column("arrival_time"), pa.scalar(1_357_200_000_000_000, pa.timestamp("us", tz="UTC"))
        )
    )
    write_deltalake(str(warehouse / "sources" / "departures"), first_three_days, mode="append")
    plan = plan_of("plan", "departures", "--warehouse", warehouse)
    by_day = [
        count(
            f"SELECT count(*) FROM s WHERE date_trunc('day', arrival_time AT TIME ZONE 'UTC') = '{day}'",
            s=first_three_days,
        )
        for day in ("2013-01-01", "2013-01-02", "2013-01-03")
    ]
    assert [(item["from"], item["rows"]) for item in plan["stragglers"]] == [
        (f"{day}T00:00:00Z", rows_of)
        for day, rows_of in zip(("2013-01-01", "2013-01-02", "2013-01-03"), by_day, strict=True)
        if rows_of
    ]
    assert [text for text in plan["said"] if text.startswith("it would read ")]
    assert here("plan", "departures", "--warehouse", warehouse) == 0
    text = " ".join(new_output().split())
    assert (
        f"stragglers {sum(by_day):,} rows appeared after the slice of their arrival was run: {by_day[0]:,} "
        "in 2013-01-01" in text
    )
    assert "warning it would read " in text


def test_a_source_that_was_rewritten_is_foretold_as_the_refusal_that_it_is(
    replayed: StoredTables, tmp_path: Path, plan_of: Callable[..., dict[str, Any]]
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    DeltaTable(str(warehouse / "sources" / "departures")).delete("arrival_time < '2013-01-02T00:00:00Z'")
    plan = plan_of("plan", "departures", "--warehouse", warehouse)
    assert [
        text
        for text in plan["said"]
        if text.startswith("it would be refused: ") and "Restate them, from 2013-01-01T" in text
    ]
    restatement = plan_of(
        "plan", "departures", "--from", "2013-01-01", "--to", "2013-01-02", "--warehouse", warehouse
    )
    assert (restatement["command"], restatement["said"]) == ("backfill", [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "2013-01-05", "--to", "2013-01-06"), "would leave a gap"),
        (("--from", "2013-01-02", "--to", "2013-01-02"), "is not before"),
    ],
)
def test_a_range_that_can_be_neither_run_nor_restated_is_refused(
    replayed: StoredTables, new_output: Callable[[], str], options: tuple[str, ...], message: str
) -> None:
    assert here("plan", "departures", *options, "--warehouse", replayed.warehouse) == 2
    assert message in new_output()


@pytest.mark.parametrize("end", ["2013-01-02", "2013-01-04"])
def test_a_plan_up_to_what_was_run_already_says_that_alone(
    replayed: StoredTables, new_output: Callable[[], str], end: str
) -> None:
    assert here("plan", "departures", "--to", end, "--warehouse", replayed.warehouse) == 0
    assert new_output().split("\n") == [
        "departures: nothing to do; the lineage covers everything up to there.",
        "",
    ]


def test_a_plan_starts_no_spark(replayed: StoredTables) -> None:
    code = (
        "import sys; from slackwater.cli import command_line as c; "
        "code = c.run(lambda: c.slackwater.main(sys.argv[1:], standalone_mode=False)); "
        "assert not {'pyspark', 'pandas', 'great_expectations'} & set(sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "plan", "departures", "--warehouse", str(replayed.warehouse)]
    process = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_corrected_rows_of_a_large_file_are_counted_in_their_slices(
    replayed: StoredTables, tmp_path: Path, plan_of: Callable[..., dict[str, Any]]
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    table = DeltaTable(str(warehouse / "sources" / "departures"))
    where = "arrival_time >= '2013-01-02T10:00:00Z' AND arrival_time < '2013-01-02T12:00:00Z'"
    rows_corrected = count(f"SELECT count(*) FROM s WHERE {where}", s=source(warehouse))
    table.update(updates={"dep_delay": "dep_delay + 1"}, predicate=f"{where} AND dep_delay IS NOT NULL")
    plan = plan_of("plan", "departures", "--warehouse", warehouse)
    [told] = plan["stragglers"]
    assert (told["from"], 0 < told["rows"] <= rows_corrected) == ("2013-01-02T00:00:00Z", True)
    [refusal] = [text for text in plan["said"] if text.startswith("it would be refused: ")]
    assert f"({told['rows']:,} rows, arrivals from 2013-01-02T1" in refusal
    assert "Restate them, from 2013-01-02T1" in refusal and " to 2013-01-02T1" in refusal
