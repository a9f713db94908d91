"""The SQL of the guide to the tables, taken from it: plain Spark, DuckDB and polars give the panes, windows
and timers that count, and no other row.

What reads here knows the tables by their paths alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from tests.integration.command import driver, here
from tests.integration.driver import Plan
from tests.integration.facts import COUNTS, assert_as_model
from tests.integration.stored import (
    ROOT,
    TABLES,
    Row,
    StoredTables,
    guide_statements,
    live_statement,
    parked_statement,
    plain,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ask = Callable[[str], list[Row]]

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
TO = "2013-01-04"
IMPOSSIBLE = """
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater.pipelines import expect

hourly = replace(departures, name="hourly", expect=[expect.between("flights", min=1000)])
"""
QUESTIONS = {
    **{table: live_statement(table) for table in ("panes", "late_events", "quarantine")},
    **{table: parked_statement(table) for table in ("window_state", "timers")},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    """Three days run and published, the second of them twice: its second run counts, between the first day's
    and the third's.

    A rejected run of the fourth; the fourth and a half of the fifth staged and not published.
    """
    warehouse = tmp_path_factory.mktemp("readers")
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-06",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    impossible = warehouse / "impossible.py"
    impossible.write_text(IMPOSSIBLE)
    for verb, options, pipelines, code in (
        ("run", ("--to", TO), PIPELINES, 0),
        ("state fork", ("again", "--run", "1"), PIPELINES, 0),
        ("run", ("--to", "2013-01-03", "--branch", "again"), PIPELINES, 0),
        ("publish", ("again",), PIPELINES, 0),
        ("run", ("--to", "2013-01-05"), impossible, 4),
        ("run", ("--to", "2013-01-05T12:00", "--no-publish"), PIPELINES, 0),
    ):
        done = driver(
            Plan(), *verb.split(), "hourly", *options, "--warehouse", warehouse, "--pipelines", pipelines
        )
        assert done.returncode == code, done.stderr
    return StoredTables(warehouse, "hourly")


LIVE = [1, 5, 3]  # in slice order


def live_ids(stored: StoredTables) -> list[str]:
    """Run ids of the live runs, in slice order."""
    ledger = {row["seq"]: row for row in stored.ledger()}
    assert [row["kind"] for row in ledger.values()] == ["run"] * 3 + ["fork", "run", "publish", "drop"]
    assert [ledger[seq]["slice_start"] for seq in LIVE] == sorted(
        row["slice_start"] for row in list(ledger.values())[:3]
    )
    return [ledger[seq]["run_id"] for seq in LIVE]


def on_polars(stored: StoredTables) -> Ask:
    context = polars.SQLContext({table: polars.scan_delta(stored.uri(table)) for table in TABLES})
    return lambda statement: plain(
        context.execute(statement.replace("explode", "unnest")).collect().to_arrow()
    )


def on_spark(stored: StoredTables, spark: "SparkSession") -> Ask:
    for table in TABLES:
        spark.read.format("delta").load(stored.uri(table)).createOrReplaceTempView(table)
    return lambda statement: plain(spark.sql(statement).toArrow())


@pytest.fixture(scope="module", params=[pytest.param("spark", marks=pytest.mark.slow), "duckdb", "polars"])
def ask(request: pytest.FixtureRequest, stored: StoredTables) -> Ask:
    if request.param == "spark":
        return on_spark(stored, request.getfixturevalue("spark"))
    return stored.ask if request.param == "duckdb" else on_polars(stored)


def test_the_guide_has_one_statement_for_what_stands_and_one_for_what_is_parked() -> None:
    assert guide_statements().keys() == {"panes", "window_state"}
    assert "explode" in live_statement("late_events") and "panes" not in live_statement("late_events")


@pytest.mark.slow
def test_what_counts_is_what_the_model_says(stored: StoredTables) -> None:
    assert_as_model(stored, TO)


def test_rows_that_do_not_count_stand_in_the_tables(stored: StoredTables) -> None:
    """Else the other tests would prove nothing."""
    live = set(live_ids(stored))
    others = {table: len({row["run_id"] for row in stored.rows(table)} - live) for table in QUESTIONS}
    assert others["panes"] == others["window_state"] == others["timers"] == 4
    assert others["late_events"] and others["quarantine"]


@pytest.mark.slow
@pytest.mark.parametrize("table", QUESTIONS)
def test_every_reader_gives_the_rows_that_count(stored: StoredTables, ask: Ask, table: str) -> None:
    live = live_ids(stored)
    counted = live if table in ("panes", "late_events", "quarantine") else live[-1:]
    wanted = [row for row in stored.rows(table) if row["run_id"] in counted]
    assert wanted and sorted(ask(QUESTIONS[table]), key=repr) == sorted(wanted, key=repr)


@pytest.mark.slow
def test_every_reader_reads_published_as_it_is(stored: StoredTables, spark: "SparkSession") -> None:
    uri = stored.uri("published")
    by_spark = plain(spark.read.format("delta").load(uri).toArrow())
    by_polars = plain(polars.read_delta(uri).to_arrow())
    with duckdb.connect() as connection:
        by_duckdb = plain(connection.from_arrow(DeltaTable(uri).to_pyarrow_dataset()).to_arrow_table())
    there = sorted(stored.rows("published"), key=repr)
    assert there and [sorted(rows, key=repr) for rows in (by_spark, by_polars, by_duckdb)] == [there] * 3


@pytest.mark.slow
def test_spark_reads_the_ledger_and_every_other_table(stored: StoredTables, spark: "SparkSession") -> None:
    for table in (*TABLES, "attempts", "validations", "corrections", "overrides"):
        assert spark.read.format("delta").load(stored.uri(table)).count() == len(stored.rows(table)), table
    sums = (
        spark.read.format("delta")
        .load(stored.uri("runs"))
        .selectExpr(*(f"sum({name})" for name, _ in COUNTS))
        .first()
    )
    assert list(sums) == [sum(row[name] for row in stored.ledger()) for name, _ in COUNTS]
