"""The contender DuckDB: one GROUP BY, written as Parquet; sessions by two window functions. It knows no
lateness, no state and no late rows.
"""

import shutil
from typing import Any

import duckdb

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import FROM_JSON, Workload


def query(workload: Workload, rows: str, condition: str = "true") -> str:
    """SQL over the relation `rows` (key, event_time, value): key, window_start_us, n, total. In tumbling and
    sliding windows rows count for which `condition` holds (it may name `window_start_us`); in sessions all.
    """
    size, slide = workload.size_ms * 1000, workload.slide_ms * 1000
    if workload.kind == "session":
        rows_with_opens = (
            f"SELECT *, us - lag(us) OVER (PARTITION BY key ORDER BY us) > {size} AS opens FROM timed"
        )
        session_numbers = (
            "SELECT *, sum(coalesce(opens, true)::int) OVER (PARTITION BY key ORDER BY us ROWS UNBOUNDED "
            "PRECEDING) AS session"
        )
        rows_with_session = f"{session_numbers} FROM ({rows_with_opens})"
        statement = (
            "SELECT key, min(us) AS window_start_us, count(*) AS n, sum(value)::bigint AS total FROM "
            f"({rows_with_session}) GROUP BY key, session"
        )
    else:
        panes = size // slide
        start = f"us - us % {slide}" + (f" - unnest(range(0, {panes})) * {slide}" if panes > 1 else "")
        statement = (
            "SELECT key, window_start_us, count(*) AS n, sum(value)::bigint AS total FROM (SELECT *, "
            f"{start} AS window_start_us "
            f"FROM timed) WHERE {condition} GROUP BY key, window_start_us"
        )
    return f"WITH timed AS (SELECT *, epoch_us(event_time) AS us FROM {rows}) {statement}"


class DuckDb:
    """In this process, with as many threads as there are cores."""

    def start(self, case: BenchmarkCase) -> None:
        self._connection = duckdb.connect(config={"temp_directory": str(case.work / "duckdb")})

    def prepare(self, case: BenchmarkCase) -> None:
        shutil.rmtree(case.folder / "duckdb", ignore_errors=True)
        (case.folder / "duckdb").mkdir()

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        rows = f"read_parquet({case.files()!r})"
        if case.workload.is_json:
            columns = ", ".join(f"{text} AS {name}" for name, text in FROM_JSON.items())
            rows = f"(SELECT {columns} FROM {rows})"
        statement = query(case.workload, rows)
        self._connection.execute(
            f"COPY ({statement}) TO '{case.folder}/duckdb/part-0.parquet' (FORMAT parquet)"
        )
        return {"rows": case.facts["rows"]}
