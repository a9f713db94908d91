"""The contender Spark with its own windows: one groupBy over `window` or `session_window`, written as
Parquet. It knows no lateness, no state and no late rows.
"""

import shutil
from typing import TYPE_CHECKING, Any

from slackwater.bench.cases import BenchmarkCase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkNative:
    """A batch query in a warm session."""

    _spark: "SparkSession"

    def start(self, case: BenchmarkCase) -> None:
        from slackwater.runtime.session import session

        self._spark = session("spark native")

    def prepare(self, case: BenchmarkCase) -> None:
        shutil.rmtree(case.folder / "spark_native", ignore_errors=True)

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        from pyspark.sql import functions as f

        workload = case.workload
        size, slide = f"{workload.size_ms} milliseconds", f"{workload.slide_ms} milliseconds"
        window = (
            f.session_window("event_time", size)
            if workload.kind == "session"
            else f.window("event_time", size, slide)
        )
        rows_by_window = self._spark.read.parquet(*case.files()).groupBy("key", window.alias("w"))
        results = rows_by_window.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
        columns = (
            "key",
            f.col("w.start").alias("window_start"),
            f.col("w.end").alias("window_end"),
            "n",
            "total",
        )
        results.select(*columns).write.parquet(str(case.folder / "spark_native"))
        return {"rows": case.facts["rows"]}
