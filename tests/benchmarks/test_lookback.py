"""The benchmark of reopening against rebuilding runs, and both publish the same; no figure is asserted."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import lookback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_both_publish_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    costs = lookback.measure(spark, tmp_path, 3, 2_000, None)
    assert len(costs) == 3 and min(min(cost[:3]) for cost in costs) > 0
    assert all(0 < sum(cost.phases.values()) < cost.reopening for cost in costs)


def test_other_results_are_noticed(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookback, "LOOKBACK", 1)
    with pytest.raises(AssertionError, match="they differ"):
        lookback.measure(spark, tmp_path, 3, 2_000, None)
