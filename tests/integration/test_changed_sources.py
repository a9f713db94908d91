"""Sources with deletion vectors and mapped columns that Spark changes under a lineage: what is published is
what Spark reads.

What is right is told by Spark's own read of the source, row by row; no row comes too late for its window.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.engine.source.pinning import pin
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.runs.lineage.erasure import Erasure, person_of_key
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.run import Runner
from tests.runs.world import SCHEMA, START, Event, World, every_hour, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Results = dict[int, tuple[int, int]]


@dataclass
class SparkWorld(World):
    """A world whose source Spark writes, changes and scans."""

    spark: "SparkSession | None" = None

    def runner(self, **changes: Any) -> Runner:
        assert self.spark is not None
        return super().runner(transport=OnSpark(self.spark), **changes)

    def sql(self, statement: str) -> None:
        assert self.spark is not None
        self.spark.sql(statement.replace("SOURCE", f"delta.`{self.source}`"))

    def insert(self, events: list[Event], **more: str) -> None:
        """One commit with one file; `more` are values of further columns, as SQL."""
        rows = ", ".join(
            f"(timestamp'{moment(event.event).isoformat()}', "
            f"timestamp'{moment(event.arrival or 0).isoformat()}', "
            f"{event.row}, '{event.key}', {', '.join([str(event.x), *more.values()])})"
            for event in events
        )
        self.sql(
            f"INSERT INTO SOURCE ({', '.join([*SCHEMA.names, *more])}) SELECT /*+ COALESCE(1) */ * FROM "
            f"VALUES {rows}"
        )

    def published_until(self, hours: int) -> Results:
        """(rows, sum) of each published window that ends by then, by the hour of its start."""
        rows = ((int((row["window_start"] - START) / timedelta(hours=1)), row) for row in self.published())
        return {start: (row["n"], row["total"]) for start, row in rows if start + 2 <= hours}

    def read_by_spark_until(self, hours: int) -> Results:
        """The same of the rows that Spark reads."""
        assert self.spark is not None
        found: dict[int, list[int]] = defaultdict(list)
        for row in (
            self.spark.read.format("delta").load(self.source).selectExpr("cast(e as long) at", "x").collect()
        ):
            found[(row["at"] - int(START.timestamp())) // 7200 * 2].append(row["x"])
        return {start: (len(values), sum(values)) for start, values in found.items() if start + 2 <= hours}


@pytest.fixture
def world(spark: "SparkSession", tmp_path: Path) -> SparkWorld:
    return SparkWorld(tmp_path, spark=spark)


def test_what_is_published_of_a_source_with_deletion_vectors_is_what_spark_reads(world: SparkWorld) -> None:
    world.sql(
        "CREATE TABLE SOURCE (e timestamp, a timestamp, row bigint, k string, x bigint) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    world.insert(every_hour(0, 24))
    world.insert(every_hour(24, 48))
    world.run(24)
    # Nobody has read the rows that are deleted and updated; row 99 comes after the slice of its arrival.
    world.sql("DELETE FROM SOURCE WHERE row >= 24 AND row % 5 = 0")
    world.sql("UPDATE SOURCE SET x = 10 WHERE row IN (31, 32)")
    world.insert([Event(23, 23.6, 99)])
    assert pin(world.pipeline.source, world.source).why_not_direct is None
    world.run(48)
    assert world.published_until(44) == world.read_by_spark_until(44)
    assert [(row.rows_read, row.rows_folded) for row in world.ledger.rows()] == [(24, 0), (19 + 1, 1)]
    world.sql("UPDATE SOURCE SET x = 5 WHERE row = 31")
    with pytest.raises(
        SourceRewritten, match=r"\(1 row, .*--from 2013-01-02T07:30:00Z --to 2013-01-02T07:30:00.001Z"
    ):
        world.run(72)


@pytest.mark.parametrize("has_vectors", [True, False])
def test_a_deletion_that_is_recorded_as_an_erasure_is_no_change_and_brings_nothing_back(
    world: SparkWorld, has_vectors: bool
) -> None:
    world.sql(
        "CREATE TABLE SOURCE (e timestamp, a timestamp, row bigint, k string, x bigint) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(has_vectors).lower()}')"
    )
    theirs = [Event(hour, hour + 0.5, 100 + hour, "b") for hour in range(24)]
    world.insert([*every_hour(0, 24), *theirs])
    world.run(24)
    world.sql("MERGE INTO SOURCE s USING (SELECT 'b' AS k) gone ON s.k = gone.k WHEN MATCHED THEN DELETE")
    world.insert([Event(23, 23.6, 99), *every_hour(24, 48)])
    with pytest.raises(SourceRewritten, match="slackwater erase daily"):
        world.run(48)
    tables = world.warehouse.stored_tables("daily")
    forward = RollForward.from_stored(world.pipeline, tables)
    row = Erasure(world.warehouse, world.pipeline, tables, forward).run(
        [person_of_key(world.pipeline, "b")], "asked for"
    )
    assert row is not None and [item.version for item in row.inputs] == [2]
    world.run(48)
    assert world.published_until(44) == world.read_by_spark_until(44)
    assert [(row.rows_read, row.rows_folded) for row in world.ledger.rows() if row.kind == "run"] == [
        (48, 0),
        (24 + 1, 1),
    ]
    assert {row["k"] for row in world.published()} == {"a"}


def test_what_is_published_of_a_source_whose_columns_are_renamed_dropped_and_added_is_what_spark_reads(
    world: SparkWorld,
) -> None:
    world.sql(
        "CREATE TABLE SOURCE (e timestamp, a timestamp, row bigint, k string, x bigint, note string, junk "
        "int) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    world.insert(every_hour(0, 24), note="'first'", junk="1")
    world.run(24)
    world.sql("ALTER TABLE SOURCE RENAME COLUMN note TO remark")
    world.sql("ALTER TABLE SOURCE DROP COLUMN junk")
    world.sql("ALTER TABLE SOURCE ADD COLUMNS (junk int, extra int)")
    world.insert([Event(23, 23.6, 99), *every_hour(24, 48)], remark="'second'", junk="3", extra="2")
    world.run(48)
    assert world.published_until(44) == world.read_by_spark_until(44)
    assert [row.rows_folded for row in world.ledger.rows()] == [0, 1]
    assert [row.rows_read for row in world.ledger.rows()] == [24, 25]
    world.sql("DELETE FROM SOURCE WHERE row = 2")
    with pytest.raises(SourceRewritten, match=r"\(1 row, .*--from 2013-01-01T02:30:00Z"):
        world.run(72)
