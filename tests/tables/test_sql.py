"""Queries share one database and nothing else: no table, and no answer that depends on who asked before or at
the same time.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context

import duckdb
import pyarrow as pa
import pytest

from slackwater.tables.sql import query


def query_double(n: int) -> int:
    [row] = query("SELECT sum(n) * ? AS total FROM numbers", [2], numbers=pa.table({"n": [n]})).to_pylist()
    return int(row["total"])


def test_a_query_sees_its_own_tables_alone() -> None:
    assert query_double(1) == 2
    with pytest.raises(duckdb.CatalogException, match="numbers"):
        query("SELECT * FROM numbers")


def test_queries_at_once_see_no_tables_of_each_other() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(query_double, range(40))) == [2 * n for n in range(40)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_has_a_database_of_its_own() -> None:
    assert query_double(1) == 2
    with get_context("fork").Pool(1) as pool:
        assert pool.apply_async(query_double, [5]).get(60) == 10


def day_of_new_year_s_eve() -> int:
    moments = pa.table(
        {"moment": pa.array([datetime(2012, 12, 31, 23, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))}
    )
    [row] = query("SELECT day(moment) AS day FROM moments", moments=moments).to_pylist()
    return int(row["day"])


def test_days_are_those_of_utc_wherever_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(day_of_new_year_s_eve).get(60) == 31
