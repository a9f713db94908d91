"""Sources whose files no task may read by itself: Spark scans them, and the tables hold the same as over a
plain source.

Sources are written by Spark, as users' tables are.
"""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from slackwater.engine.source.pinning import pin
from slackwater.examples.departures import departures
from tests.integration.command import here
from tests.integration.facts import Facts, assert_equal, facts_of_model, facts_of_tables
from tests.integration.stored import StoredTables
from tests.model import brute_force
from tests.model.flights import departures_rules, flights
from tests.model.records import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

FROM, TO = "2013-01-01", "2013-01-03"


def removed(row: int) -> bool:
    """Which rows are deleted from the sources before they are replayed."""
    return row % 7 == 3


@pytest.fixture(scope="module")
def rows(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "DataFrame":
    """The flights that arrived in the first days, as the example loads them."""
    warehouse = tmp_path_factory.mktemp("loaded")
    assert (
        here("examples", "load", "departures", "--from", FROM, "--to", "2013-01-04", "--warehouse", warehouse)
        == 0
    )
    return spark.read.format("delta").load(str(warehouse / "sources" / "departures"))


def write_with_deletion_vectors(spark: "SparkSession", rows: "DataFrame", uri: str) -> None:
    rows.repartition(2).sortWithinPartitions("row").write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(uri)
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE row % 7 = 3")


def write_with_mapped_columns(spark: "SparkSession", rows: "DataFrame", uri: str) -> None:
    named_before = rows.where("row % 7 <> 3").withColumnRenamed("dep_delay", "delay")
    named_before.write.format("delta").option("delta.columnMapping.mode", "name").save(uri)
    spark.sql(f"ALTER TABLE delta.`{uri}` RENAME COLUMN delay TO dep_delay")


def write_with_columns_mapped_by_numbers(spark: "SparkSession", rows: "DataFrame", uri: str) -> None:
    remaining_rows = rows.where("row % 7 <> 3")
    remaining_rows.write.format("delta").option("delta.columnMapping.mode", "id").save(uri)


def write_plainly(spark: "SparkSession", rows: "DataFrame", uri: str) -> None:
    rows.where("row % 7 <> 3").write.format("delta").save(uri)


WRITERS = {
    "plain": write_plainly,
    "deletion vectors": write_with_deletion_vectors,
    "column mapping": write_with_mapped_columns,
    "column mapping by numbers": write_with_columns_mapped_by_numbers,
}


def expected() -> Outcome:
    """What the model makes of the rows that are left."""
    return brute_force.replay(
        [event for event in flights(FROM, TO) if not removed(event.order)], departures_rules(FROM, TO)
    )


def without_null_arrivals(facts: Facts) -> Facts:
    """The model can't know in which run a row without an arrival is found."""
    kept = Counter({fact: count for fact, count in facts["quarantine"].items() if fact[0] != "null_arrival"})
    counts = facts["counts"] - Counter(
        dict.fromkeys(("rows_read", "rows_quarantined"), (facts["quarantine"] - kept).total())
    )
    return {**facts, "quarantine": kept, "counts": counts}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_source_gives_what_the_model_says(
    spark: "SparkSession", rows: "DataFrame", tmp_path: Path, kind: str
) -> None:
    uri = str(tmp_path / "sources" / "departures")
    WRITERS[kind](spark, rows, uri)
    assert pin(departures.source, uri).why_not_direct == (
        kind if kind == "column mapping by numbers" else None
    )
    if kind == "deletion vectors":
        log = sorted((tmp_path / "sources" / "departures" / "_delta_log").glob("*.json"))
        actions = [json.loads(line) for file in log for line in file.read_text().splitlines()]
        assert any(action.get("add", {}).get("deletionVector") for action in actions), (
            "the deleted rows are still in their files"
        )
    assert here("run", "departures", "--to", TO, "--partitions", "2", "--warehouse", tmp_path) == 0
    assert_equal(facts_of_tables(StoredTables(tmp_path, "departures")), facts_of_model(expected()))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_row_without_an_arrival_is_quarantined_by_the_first_run_that_sees_it(
    spark: "SparkSession", rows: "DataFrame", tmp_path: Path, kind: str
) -> None:
    uri = str(tmp_path / "sources" / "departures")
    WRITERS[kind](spark, rows, uri)
    lost = rows.limit(1).selectExpr(
        "event_time", "cast(null as timestamp) as arrival_time", *rows.columns[2:]
    )
    for number, day in enumerate(["2013-01-02", TO], 1):
        lost.selectExpr("*", f"{-number} as replaced").drop("row").withColumnRenamed(
            "replaced", "row"
        ).selectExpr(*(f"cast({name} as {kind_}) as {name}" for name, kind_ in rows.dtypes)).write.format(
            "delta"
        ).mode("append").save(uri)
        assert here("run", "departures", "--to", day, "--warehouse", tmp_path) == 0
    stored = StoredTables(tmp_path, "departures")
    found = [
        (json.loads(row["row_json"])["row"], row["run_id"])
        for row in stored.live("quarantine")
        if row["reason_code"] == "null_arrival"
    ]
    assert sorted(found, reverse=True) == [
        (-1, stored.ledger()[0]["run_id"]),
        (-2, stored.ledger()[1]["run_id"]),
    ]
    assert_equal(without_null_arrivals(facts_of_tables(stored)), facts_of_model(expected()))


def test_the_ledger_names_the_version_that_was_read(
    spark: "SparkSession", rows: "DataFrame", tmp_path: Path
) -> None:
    uri = str(tmp_path / "sources" / "departures")
    write_with_deletion_vectors(spark, rows, uri)
    assert here("run", "departures", "--to", "2013-01-02", "--warehouse", tmp_path) == 0
    [row] = StoredTables(tmp_path, "departures").ledger()
    assert [(item["table"], item["version"], item["rows"]) for item in row["inputs"]] == [
        (
            "sources/departures",
            DeltaTable(uri).version(),
            sum(not removed(event.order) for event in flights(FROM, "2013-01-02")),
        )
    ]
