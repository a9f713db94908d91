"""The contender Spark with its own stateful streaming: transformWithStateInPandas with one timer for each
window and RocksDB, on a small prefix of the rows.

The prefix is shorter than the delay of its watermark, so no window would fire and there would be nothing to
compare. A last row, a day later, makes all of them fire.
"""

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.bench.cases import BenchmarkCase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, BATCHES = 200_000, 3
COLUMNS = ["key", "event_time", "value"]
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class TransformWithState:
    """Tumbling windows only. One micro-batch for each file of the prefix; results are appended as Parquet."""

    _spark: "SparkSession"

    def start(self, case: BenchmarkCase) -> None:
        from slackwater.runtime.session import session

        self._spark = session(
            "transform with state", **{"spark.sql.streaming.stateStore.providerClass": STORE}
        )

    def prepare(self, case: BenchmarkCase) -> None:
        folder = case.folder / "transform_with_state"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "source").mkdir(parents=True)
        rows = case.read(COLUMNS).slice(0, ROWS)
        self._rows = rows.num_rows
        bounds = [self._rows * i // BATCHES for i in range(BATCHES + 1)]
        parts = [rows.slice(start, end - start) for start, end in pairwise(bounds)]
        after = pc.max(rows.column("event_time")).as_py() + timedelta(days=1)
        parts.append(pa.table({"key": [-1], "event_time": [after], "value": [0]}, rows.schema))
        for i, part in enumerate(parts):
            path = folder / "source" / f"part-{i}.parquet"
            pq.write_table(part, path)
            os.utime(path, (1_000_000_000 + 10 * i,) * 2)  # a stream takes files by age

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        folder = case.folder / "transform_with_state"
        windows = _windows(self._source(case), case.workload.size_ms)
        writer = windows.writeStream.outputMode("append").trigger(availableNow=True)
        writer = (
            writer.option("checkpointLocation", str(folder / "checkpoint"))
            .format("parquet")
            .option("path", str(folder / "out"))
        )
        writer.start().awaitTermination()
        return {"rows": self._rows}

    def _source(self, case: BenchmarkCase) -> "DataFrame":
        source = self._spark.readStream.schema("key long, event_time timestamp, value long").option(
            "maxFilesPerTrigger", 1
        )
        delay = f"{3_000 + case.workload.lateness_ms} milliseconds"
        return source.parquet(str(case.folder / "transform_with_state" / "source")).withWatermark(
            "event_time", delay
        )


def _windows(rows: "DataFrame", size_ms: int) -> "DataFrame":
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Windows(StatefulProcessor):
        """State: window start → (count, sum)."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._windows = handle.getMapState("windows", "start long", "n long, total long")

        def handleInputRows(
            self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
        ) -> Iterator[pd.DataFrame]:
            for batch in rows:
                ms = batch["event_time"].astype("int64") // 1_000_000
                for start, values in batch["value"].groupby(ms - ms % size_ms):
                    window, n, total = (int(start),), 0, 0
                    if self._windows.containsKey(window):
                        n, total = map(int, self._windows.getValue(window) or (0, 0))
                    else:
                        self._handle.registerTimer(int(start) + size_ms)
                    self._windows.updateValue(window, (n + len(values), total + int(values.sum())))
            return iter([])

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[pd.DataFrame]:
            start = expiredTimerInfo.getExpiryTimeInMs() - size_ms
            if self._windows.containsKey((start,)):
                n, total = self._windows.getValue((start,)) or (0, 0)
                self._windows.removeKey((start,))
                yield pd.DataFrame(
                    {"key": [key[0]], "window_start_us": [start * 1000], "n": [n], "total": [total]}
                )

        def close(self) -> None:
            """Nothing to release."""

    columns = "key long, window_start_us long, n long, total long"
    return rows.groupBy("key").transformWithStateInPandas(Windows(), columns, "Append", "EventTime")
