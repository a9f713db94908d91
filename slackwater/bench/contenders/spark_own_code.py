"""Spark's contenders for own code: a function of each window's rows by `applyInArrow` and `applyInPandas`,
and a stateful processor with timers by `transformWithStateInPandas` in a batch query. None knows lateness or
state that stays.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.own_code import FUNCTIONS, KEPT, TOP

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "key long, window_start_us long, n long, total long"


class _SparkOwnCode(ABC):
    """A batch query in a warm session, whose results are written as Parquet to the folder called `name`."""

    name: str
    _spark: "SparkSession"

    def start(self, case: BenchmarkCase) -> None:
        from slackwater.runtime.session import session

        # `transformWithState` wants this store; the others have no state.
        self._spark = session(self.name, **{"spark.sql.streaming.stateStore.providerClass": STORE})

    def prepare(self, case: BenchmarkCase) -> None:
        shutil.rmtree(case.folder / self.name, ignore_errors=True)

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        rows = self._spark.read.parquet(*case.files())
        self._results(rows, case).write.parquet(str(case.folder / self.name))
        return {"rows": case.facts["rows"]}

    @abstractmethod
    def _results(self, rows: "DataFrame", case: BenchmarkCase) -> "DataFrame":
        """Columns as in `SCHEMA`."""

    @staticmethod
    def _with_windows(rows: "DataFrame", case: BenchmarkCase) -> "DataFrame":
        """Key, start of the window in microseconds, value and row."""
        from pyspark.sql import functions as f

        size = case.workload.size_ms * 1000
        by_arrival = FUNCTIONS[case.workload.function].by_arrival
        us = f.unix_micros("arrival_time" if by_arrival else "event_time")
        return rows.select("key", (us - us % size).alias("window_start_us"), "value", "row")


class ApplyInArrow(_SparkOwnCode):
    """The function gets an Arrow table of each window."""

    name = "apply_in_arrow"

    def _results(self, rows: "DataFrame", case: BenchmarkCase) -> "DataFrame":
        function = ARROW[case.workload.function]

        def results_of_window(window: pa.Table) -> pa.Table:
            n, totals = function(window)
            where = {name: pa.repeat(window.column(name)[0], len(n)) for name in ("key", "window_start_us")}
            return pa.table({**where, "n": pa.array(n, pa.int64()), "total": pa.array(totals, pa.int64())})

        groups = self._with_windows(rows, case).groupBy("key", "window_start_us")
        return groups.applyInArrow(results_of_window, SCHEMA)


class ApplyInPandas(_SparkOwnCode):
    """The function gets a pandas frame of each window."""

    name = "apply_in_pandas"

    def _results(self, rows: "DataFrame", case: BenchmarkCase) -> "DataFrame":
        function = PANDAS[case.workload.function]

        def results_of_window(window: "pd.DataFrame") -> "pd.DataFrame":
            import pandas as pd

            n, totals = function(window)
            key, start = window["key"].iloc[0], window["window_start_us"].iloc[0]
            return pd.DataFrame({"key": key, "window_start_us": start, "n": n, "total": totals})

        groups = self._with_windows(rows, case).groupBy("key", "window_start_us")
        return groups.applyInPandas(results_of_window, SCHEMA)


class BatchWithState(_SparkOwnCode):
    """A stateful processor in a batch query. No timer is ever due there, so it gives what its state holds
    when the rows of a key have ended.
    """

    name = "transform_with_state_batch"

    def start(self, case: BenchmarkCase) -> None:
        super().start(case)
        # Starts what coordinates state stores, which a batch query does not.
        self._spark.streams.active  # noqa: B018

    def _results(self, rows: "DataFrame", case: BenchmarkCase) -> "DataFrame":
        groups = self._with_windows(rows, case).groupBy("key")
        return groups.transformWithStateInPandas(_windows_in_state(), SCHEMA, "Append", "None")


def _windows_in_state() -> Any:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class WindowsOfKey(StatefulProcessor):
        """State: window start → (count, sum)."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._windows = handle.getMapState("windows", "start long", "n long, total long")

        def handleInputRows(
            self, key: Any, rows: Iterator["pd.DataFrame"], timerValues: Any
        ) -> Iterator["pd.DataFrame"]:
            for batch in rows:
                for start, values in batch["value"].groupby(batch["window_start_us"]):
                    window, n, total = (int(start),), 0, 0
                    if self._windows.containsKey(window):
                        n, total = map(int, self._windows.getValue(window) or (0, 0))
                    self._windows.updateValue(window, (n + len(values), total + int(values.sum())))
            results = [(key[0], start[0], *numbers) for start, numbers in self._windows.iterator()]
            yield pd.DataFrame(results, columns=["key", "window_start_us", "n", "total"])

        def close(self) -> None:
            """Nothing to release."""

    return WindowsOfKey()


Numbers = tuple[list[int], list[int]]


def _arrow_median(window: pa.Table) -> Numbers:
    value = window.column("value")
    return [window.num_rows], [value.take(pc.sort_indices(value))[(window.num_rows - 1) // 2].as_py()]


def _arrow_top(window: pa.Table) -> Numbers:
    value = window.column("value")
    greatest = value.take(pc.select_k_unstable(value, TOP, [("", "descending")]))
    return [len(greatest)], [pc.sum(greatest).as_py()]


def _arrow_last(window: pa.Table) -> Numbers:
    last = window.sort_by([("row", "descending")]).slice(0, KEPT)
    return [last.num_rows], [pc.sum(last.column("value")).as_py()]


def _pandas_median(window: "pd.DataFrame") -> Numbers:
    return [len(window)], [int(window["value"].sort_values().iloc[(len(window) - 1) // 2])]


def _pandas_top(window: "pd.DataFrame") -> Numbers:
    greatest = window["value"].nlargest(TOP)
    return [len(greatest)], [int(greatest.sum())]


def _pandas_last(window: "pd.DataFrame") -> Numbers:
    last = window.sort_values("row")["value"].tail(KEPT)
    return [len(last)], [int(last.sum())]


def _pandas_sum(window: "pd.DataFrame") -> Numbers:
    return [len(window)], [int(window["value"].sum())]


ARROW: dict[str, Callable[[pa.Table], Numbers]] = {
    "median": _arrow_median,
    "top": _arrow_top,
    "evictor": _arrow_last,
    "arrivals": _arrow_median,
}
PANDAS: dict[str, Callable[["pd.DataFrame"], Numbers]] = {
    "median": _pandas_median,
    "top": _pandas_top,
    "evictor": _pandas_last,
    "arrivals": _pandas_median,
    "timers": _pandas_sum,
}
