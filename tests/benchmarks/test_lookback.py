"""The benchmark of reopening against rebuilding runs, and both publish the same; no figure is asserted."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import lookback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_both_publish_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    seconds = lookback.measure(spark, tmp_path, 3, 2_000, None)
    assert len(seconds) == 3 and min(min(pair) for pair in seconds) > 0


def test_other_results_are_noticed(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookback, "LOOKBACK", 1)
    with pytest.raises(AssertionError, match="they differ"):
        lookback.measure(spark, tmp_path, 3, 2_000, None)
