"""Tables whose rows Spark tracks: each row arrives with the commit that Spark says has written it last, after
OPTIMIZE, VACUUM, UPDATE, DELETE and RESTORE, and a run reads each once.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.engine.source.pinned_source import SourceRewritten
from tests.engine.source.commit_logs import arrivals_of
from tests.runs.commit_worlds import Table, by_column, left, world_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


class SparkTable(Table):
    """A table that Spark writes."""

    def __init__(
        self, folder: Path, spark: "SparkSession", *, has_vectors: bool, tracks_rows: bool = True
    ) -> None:
        super().__init__(folder)
        self.spark = spark
        properties = {
            "delta.enableRowTracking": tracks_rows,
            "delta.enableDeletionVectors": has_vectors,
            "delta.enableInCommitTimestamps": False,
        }
        texts = ", ".join(f"'{name}' = '{str(value).lower()}'" for name, value in properties.items())
        columns = "e timestamp, a timestamp, row bigint, k string, x bigint"
        self.sql(0, f"CREATE TABLE TABLE_ ({columns}) USING delta TBLPROPERTIES ({texts})")

    def sql(self, hour: float, statement: str) -> None:
        """A statement, whose commits are made at `hour`."""
        before = self.version if Path(self.uri).exists() else -1
        self.spark.sql(statement.replace("TABLE_", f"delta.`{self.uri}`"))
        for version in range(before + 1, self.version + 1):
            self.stamp(hour, version)
            # Hadoop's checksum of what was written over.
            (self.path(version).parent / f".{self.path(version).name}.crc").unlink()

    def append(self, hour: float | None, numbers: Iterable[int], **options: object) -> None:
        assert hour is not None
        rows = self.rows(hour, numbers)
        values = ", ".join(
            "(" + ", ".join("NULL" if value is None else f"'{value}'" for value in row.values()) + ")"
            for row in rows.to_pylist()
        )
        self.sql(hour, f"INSERT INTO TABLE_ SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    def update(self, hour: float, number: int, number_now: int) -> None:
        a = self.rows(hour, [number]).column("a")[0].as_py()
        self.sql(hour, f"UPDATE TABLE_ SET row = {number_now}, a = '{a}' WHERE row = {number}")

    def optimize(self, hour: float) -> None:
        self.sql(hour, "OPTIMIZE TABLE_")

    def vacuum(self, hour: float) -> None:
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.sql(hour, "VACUUM TABLE_ RETAIN 0 HOURS")

    def check_arrivals(self) -> None:
        """Compare them with what Spark says of each row."""
        rows = self.spark.sql(
            f"SELECT row, _metadata.row_commit_version version, a FROM delta.`{self.uri}` ORDER BY row"
        ).collect()
        versions = [(row["row"], row["version"]) for row in rows]
        hours = {row: hour for row, hour, _ in arrivals_of(self.pin())}
        assert [(row, version) for row, _, version in arrivals_of(self.pin())] == versions
        zero = self.rows(0, [1]).column("a")[0].as_py().timestamp()
        assert hours == {row["row"]: (row["a"].timestamp() - zero) / 3600 for row in rows}
        assert self.pin().files_dated_as_a_whole() == []


@pytest.mark.parametrize("has_vectors", [False, True])
def test_each_row_arrives_with_the_commit_that_spark_says(
    spark: "SparkSession", tmp_path: Path, has_vectors: bool
) -> None:
    table = SparkTable(tmp_path, spark, has_vectors=has_vectors)
    for hour, numbers in ((1, [1, 2]), (2, [3, 4]), (3, [5])):
        table.append(hour, numbers)
    table.optimize(4)
    optimized_version = table.version
    table.update(5, 3, 30)
    table.sql(6, "DELETE FROM TABLE_ WHERE row = 2")
    table.append(7, [6])
    table.check_arrivals()
    table.sql(8, f"RESTORE TABLE TABLE_ TO VERSION AS OF {optimized_version}")
    table.check_arrivals()
    table.update(9, 4, 40)
    table.append(10, [7])
    table.optimize(11)
    table.vacuum(12)
    table.check_arrivals()
    table.append(13, [8])
    table.optimize(14)
    table.vacuum(15)
    table.check_arrivals()


@pytest.mark.parametrize("has_vectors", [False, True])
def test_upkeep_between_runs_changes_nothing_and_an_update_of_read_rows_is_refused(
    spark: "SparkSession", tmp_path: Path, has_vectors: bool
) -> None:
    table = SparkTable(tmp_path / "source", spark, has_vectors=has_vectors)
    world = world_of(tmp_path / "w", table)
    table.append(2, [1, 2, 3])
    table.append(3, [4, 5, 6])
    table.append(30, [8, 9, 10])
    table.optimize(31)
    table.vacuum(32)
    world.run(24)
    table.update(33, 9, 19)
    world.run(48)
    table.append(50, [11, 12])
    table.optimize(51)
    table.vacuum(52)
    world.run(72)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [6, 3, 2]
    assert left(world) == by_column(tmp_path / "c", table, 72)
    table.update(73, 5, 15)
    with pytest.raises(SourceRewritten, match=r"1 row, arrivals from 2013-01-01T03:00:00Z to 2013-01-01T03"):
        world.run(96)


def test_rows_from_before_row_tracking_was_enabled_keep_their_arrivals(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = SparkTable(tmp_path, spark, has_vectors=False, tracks_rows=False)
    table.append(1, [1, 2])
    table.append(2, [3])
    expected = [(1, 1.0, 1), (2, 1.0, 1), (3, 2.0, 2)]
    table.sql(3, "ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    assert arrivals_of(table.pin()) == expected
    table.append(4, [4])
    expected.append((4, 4.0, table.version))
    table.optimize(5)
    assert arrivals_of(table.pin()) == expected
