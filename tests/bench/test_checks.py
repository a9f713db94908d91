"""The windows that a stream has written pass only if they count every row of its prefix once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slackwater.bench import checks
from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS


@pytest.fixture
def case(tmp_path: Path) -> BenchmarkCase:
    case = BenchmarkCase("a", WORKLOADS["a"], 20_000, tmp_path)
    case.make()
    return case


def check(case: BenchmarkCase, twice: bool = False, every: int = 1) -> str:
    """Count the windows of the source here, write every `every`-th of them as the stream's results, with
    doubled counts if `twice`, and check them.
    """
    rows = case.read(["key", "event_time", "value"])
    times = rows.column("event_time").cast(pa.int64())
    starts = pc.multiply(pc.divide(times, 10_000_000), 10_000_000)
    windows = pa.table({"key": rows.column("key"), "window_start_us": starts, "value": rows.column("value")})
    windows = windows.group_by(["key", "window_start_us"]).aggregate([("value", "count"), ("value", "sum")])
    windows = windows.rename_columns(["key", "window_start_us", "n", "total"])
    if twice:
        windows = windows.set_column(2, "n", pc.multiply(windows.column("n"), 2))
    some_windows = windows.take(list(range(0, windows.num_rows, every)))
    out = case.folder / "transform_with_state" / "out"
    out.mkdir(parents=True)
    pq.write_table(some_windows if every < windows.num_rows else windows.slice(0, 0), out / "part-0.parquet")
    return checks.check(case, "transform_with_state", {})


def test_windows_with_all_rows_of_the_prefix_pass(case: BenchmarkCase) -> None:
    assert check(case).endswith(f"{case.facts['rows']:,} of {case.facts['rows']:,} rows")


@pytest.mark.parametrize(
    ("twice", "every"), [(True, 1), (False, 2), (False, 1 << 30)], ids=["twice", "half", "none"]
)
def test_windows_with_missing_or_doubled_rows_do_not_pass(
    case: BenchmarkCase, twice: bool, every: int
) -> None:
    with pytest.raises(checks.ResultsDiffer, match="transformWithState counted"):
        check(case, twice, every)
