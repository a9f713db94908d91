"""A shallow clone of a Delta table lists files of that table, and Spark alone reads it: a lineage over it is
as one over a table of the same rows, also where the arrival is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.source.pinning import pin
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.pipelines import DeltaSource
from slackwater.runs.staging.run import Runner
from tests.runs.world import DAILY, SCHEMA, Event, World, every_hour, ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

COMPUTED = DeltaSource(
    "raw", derive={"a": "epoch_ms(seen)"}, event_time="e", arrival_time="a", order_by="row"
)
STORED = replace(COMPUTED, derive={}, arrival_time="stored")
BEYOND_MS = 253_402_300_800_000  # the first millisecond of the year 10000

# In turn: rows of the first and the second day; then rows of the third with one that arrived on the first and
# nobody has read. Each time one row has no arrival, and one has an arrival in which no slice lies.
BATCHES = (
    [*every_hour(0, 30), Event(3, None, 800), Event(4, -1, 801)],
    [*every_hour(48, 72), Event(20, 20.5, 900, key="b"), Event(21, None, 901), Event(22, -1, 902)],
)


def rows_of(events: Sequence[Event]) -> pa.Table:
    """Events with their arrival as epoch milliseconds and as a time; an arrival below 0 is `BEYOND_MS`."""
    arrivals = [
        None if one.arrival is None else BEYOND_MS if one.arrival < 0 else ms(one.arrival) for one in events
    ]
    seen = pa.array(arrivals, pa.int64())
    rows = pa.Table.from_pylist([replace(one, arrival=0).values() for one in events], schema=SCHEMA)
    stored = seen.cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
    return rows.drop_columns(["a"]).append_column("seen", seen).append_column("stored", stored)


@dataclass
class CloneWorld(World):
    """A world whose source Spark scans."""

    spark: "SparkSession | None" = None

    def runner(self, **changes: Any) -> Runner:
        assert self.spark is not None
        return super().runner(transport=OnSpark(self.spark), **changes)


def quarantined(world: World) -> list[tuple[object, object]]:
    rows = world.live("quarantine")
    return sorted((row["reason_code"], row["row_json"]) for row in rows)


@pytest.mark.parametrize("source", [COMPUTED, STORED], ids=["computed arrival", "stored arrival"])
def test_a_lineage_over_a_shallow_clone_is_as_one_over_the_rows(
    spark: "SparkSession", tmp_path: Path, source: DeltaSource
) -> None:
    pipeline = replace(DAILY, source=source)
    plain = World(tmp_path / "plain", pipeline, engine=ColumnarEngine())
    clone = CloneWorld(tmp_path / "clone", pipeline, engine=ColumnarEngine(), spark=spark)
    original = str(tmp_path / "original")
    write_deltalake(original, rows_of(BATCHES[0]))
    write_deltalake(plain.source, rows_of(BATCHES[0]))
    spark.sql(f"CREATE TABLE delta.`{clone.source}` SHALLOW CLONE delta.`{original}`")
    assert pin(source, clone.source).why_not_direct == "files of another table"
    for world in (plain, clone):
        world.run(48)
    for world in (plain, clone):  # to the clone this is a file of its own
        write_deltalake(world.source, rows_of(BATCHES[1]), mode="append")
        world.run(96)

    counts = [(row.rows_read, row.rows_folded, row.rows_quarantined) for row in plain.ledger.rows()]
    assert counts == [(26, 0, 2), (6, 0, 0), (27, 1, 2), (0, 0, 0)]
    assert [(row.rows_read, row.rows_folded, row.rows_quarantined) for row in clone.ledger.rows()] == counts
    assert quarantined(clone) == quarantined(plain)
    assert [row["n"] for row in sorted(clone.published(), key=repr)] == [
        row["n"] for row in sorted(plain.published(), key=repr)
    ]
    assert (clone.main.state_hash, clone.main.output_hash) == (plain.main.state_hash, plain.main.output_hash)
