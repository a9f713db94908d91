"""polars and Spark give the rows of every view that DuckDB gives, in warehouses of today and of earlier
formats.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater import polars_views, spark_views
from slackwater.errors import UsageError
from slackwater.inspection.sql.views import LineageViews
from tests.integration.stored import plain
from tests.warehouses.earlier import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = [
    *(("readings", at) for at in ("main", "3", "trial")),
    *((pipeline, "main") for pipeline in ("peaks", "totals")),
]
FAST = [("readings", "3"), ("peaks", "main")]
RAW = ("panes", "late_events", "quarantine", "window_state", "timers", "keyed_state", "source_progress")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(unpacked(tmp_path_factory.mktemp("engines [a]")))


def ordered(rows: pa.Table) -> list[str]:
    """The rows as texts; maps as lists of pairs, in any order."""
    return sorted(repr([(name, _normal(value)) for name, value in row.items()]) for row in plain(rows))


def _normal(value: object) -> object:
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return sorted(map(repr, value))
    if isinstance(value, list) and all(
        isinstance(item, dict) and item.keys() == {"key", "value"} for item in value
    ):
        return sorted(repr((item["key"], item["value"])) for item in value)
    return value


def wanted(pipeline: str, warehouse: str, at: str) -> dict[str, list[str]]:
    with LineageViews.of(pipeline, warehouse, at=at) as views:
        names = [name for name in views.names if at == "main" or name != "published"]
        return {
            name: ordered(views.query(f"FROM {name}"))
            for name in names
            if name not in RAW and (not name.startswith("side_") or name.endswith("_live"))
        }


@pytest.mark.parametrize(
    ("pipeline", "at"),
    [pytest.param(*place, marks=[] if place in FAST else pytest.mark.slow) for place in PLACES],
)
def test_polars_gives_the_same_rows(warehouse: str, pipeline: str, at: str) -> None:
    frames = polars_views(pipeline, warehouse, at=at)
    answers = {name: ordered(frame.collect().to_arrow()) for name, frame in frames.items()}
    expected = wanted(pipeline, warehouse, at)
    assert answers.keys() == expected.keys()
    for name, rows in expected.items():
        assert answers[name] == rows, name
    assert answers["panes_live"] and answers["progress_now"]


@pytest.mark.slow
def test_spark_gives_the_same_rows(warehouse: str, spark: "SparkSession") -> None:
    for pipeline, at in PLACES:
        names = spark_views(spark, pipeline, warehouse, at=at)
        expected = wanted(pipeline, warehouse, at)
        assert set(names) == expected.keys()
        for name, rows in expected.items():
            assert ordered(spark.sql(f"SELECT * FROM {name}").toArrow()) == rows, (pipeline, at, name)


def test_what_is_not_there_is_said(warehouse: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no branch nowhere"):
        polars_views("readings", warehouse, at="nowhere")
    with pytest.raises(UsageError, match="never run"):
        polars_views("readings", str(tmp_path))
