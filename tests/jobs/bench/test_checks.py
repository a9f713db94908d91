"""What a stream has written passes only if it holds the rows of its prefix: not half of them, not none, not
some twice.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slackwater.jobs.bench import checks
from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.workloads import WORKLOADS


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case("a", WORKLOADS["a"], 20_000, tmp_path)
    case.make()
    return case


def check(case: Case, twice: bool = False, every: int = 1) -> str:
    """The check of one window for each (key, 10 s), counted here once more; of every so many windows, all
    rows twice if asked.
    """
    rows = case.read(["key", "event_time", "value"])
    times = rows.column("event_time").cast(pa.int64())
    starts = pc.multiply(pc.divide(times, 10_000_000), 10_000_000)
    counted = pa.table({"key": rows.column("key"), "window_start_us": starts, "value": rows.column("value")})
    counted = counted.group_by(["key", "window_start_us"]).aggregate([("value", "count"), ("value", "sum")])
    counted = counted.rename_columns(["key", "window_start_us", "n", "total"])
    if twice:
        counted = counted.set_column(2, "n", pc.multiply(counted.column("n"), 2))
    kept = counted.take(list(range(0, counted.num_rows, every)))
    out = case.folder / "transform_with_state" / "out"
    out.mkdir(parents=True)
    pq.write_table(kept if every < counted.num_rows else counted.slice(0, 0), out / "part-0.parquet")
    return checks.check(case, "transform_with_state", {})


def test_all_rows_pass(case: Case) -> None:
    assert check(case).endswith(f"{case.facts['rows']:,} of {case.facts['rows']:,} rows")


@pytest.mark.parametrize(
    ("twice", "every"), [(True, 1), (False, 2), (False, 1 << 30)], ids=["twice", "half", "none"]
)
def test_others_do_not(case: Case, twice: bool, every: int) -> None:
    with pytest.raises(checks.ResultsDiffer, match="transformWithState counted"):
        check(case, twice, every)
