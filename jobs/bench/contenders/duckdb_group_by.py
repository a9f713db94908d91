"""DuckDB: one GROUP BY, written as Parquet. Sessions by two window functions. No lateness, no state, no late
rows.
"""

import shutil
from typing import Any

import duckdb

from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.workloads import Workload


def query(workload: Workload, rows: str, kept: str = "true") -> str:
    """SQL over the relation `rows` (key, event_time, value): key, window_start_us, n, total. Sessions have no
    start of a grid; of other windows those rows count for which the condition `kept`, on a row and
    `window_start_us`, holds."""
    size, slide = workload.size_ms * 1000, workload.slide_ms * 1000
    if workload.kind == "session":
        marked = f"SELECT *, us - lag(us) OVER (PARTITION BY key ORDER BY us) > {size} AS opens FROM timed"
        numbered = (
            "SELECT *, sum(coalesce(opens, true)::int) OVER (PARTITION BY key ORDER BY us ROWS UNBOUNDED "
            "PRECEDING) AS session"
        )
        grouped = f"{numbered} FROM ({marked})"
        statement = (
            "SELECT key, min(us) AS window_start_us, count(*) AS n, sum(value)::bigint AS total FROM "
            f"({grouped}) GROUP BY key, session"
        )
    else:
        panes = size // slide
        start = f"us - us % {slide}" + (f" - unnest(range(0, {panes})) * {slide}" if panes > 1 else "")
        statement = (
            "SELECT key, window_start_us, count(*) AS n, sum(value)::bigint AS total FROM (SELECT *, "
            f"{start} AS window_start_us "
            f"FROM timed) WHERE {kept} GROUP BY key, window_start_us"
        )
    return f"WITH timed AS (SELECT *, epoch_us(event_time) AS us FROM {rows}) {statement}"


class DuckDb:
    """In this process, with as many threads as there are cores."""

    def start(self, case: Case) -> None:
        self._connection = duckdb.connect(config={"temp_directory": str(case.work / "duckdb")})

    def prepare(self, case: Case) -> None:
        shutil.rmtree(case.folder / "duckdb", ignore_errors=True)
        (case.folder / "duckdb").mkdir()

    def run(self, case: Case) -> dict[str, Any]:
        statement = query(case.workload, f"read_parquet({case.files()!r})")
        self._connection.execute(
            f"COPY ({statement}) TO '{case.folder}/duckdb/part-0.parquet' (FORMAT parquet)"
        )
        return {"rows": case.facts["rows"]}
