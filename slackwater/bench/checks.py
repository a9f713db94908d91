"""Checks that contenders agree: each must have put every row of the source into the same windows, once.

The reference is a group-by over the source in DuckDB, and counts and sums of windows are compared. The
project differs from it in two ways that are right: it drops late rows, and it keeps windows open at the end.

    tumbling, sliding  newest panes + parked windows              =  group-by over rows that were not late
    sessions, by key   newest panes + parked windows + late rows  =  group-by over all rows

Sessions are compared by key because each dropped row moves the borders of sessions. A workload that repeats
itself has more windows than a group-by holds: those of all keys together that are closed at the end are
compared with what is published.
"""

from typing import Any

import duckdb
from deltalake import DeltaTable

from slackwater.bench import nexmark, own_code
from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders import floor
from slackwater.bench.contenders.duckdb_group_by import query
from slackwater.bench.own_code import FUNCTIONS
from slackwater.bench.workloads import BOUND_MS, TICK_MS, Workload
from slackwater.errors import PermanentError
from slackwater.inspection.inspection import Inspection
from slackwater.tables.errors import NoRuns

# Flink emits watermarks by the pace of its own source, so it judges some rows otherwise than a replay does:
# few of all panes, and up to half of those that late rows make fire again.
_FLINK_TOLERANCE = 0.02
_FLINK_LATE_TOLERANCE = 0.5


class ResultsDiffer(PermanentError):
    """Two contenders gave different results on the same rows. Facts: workload, contender, differing."""


def check(case: BenchmarkCase, contender: str, run: dict[str, Any]) -> str:
    """Compare the results of `contender` with the source, or, for Flink, its number of panes with the
    project's, which ran before it. Returns what is equal, such as "3,600 windows equal"; raises
    ResultsDiffer.
    """
    with duckdb.connect() as connection:
        if contender == floor.NAME:
            return _check_floor(case, connection)
        if contender == "flink" and not case.workload.function:
            return _check_flink(case, run["panes"], connection)
        columns, rows = nexmark.columns(case.workload), nexmark.rows(case.workload)
        connection.execute(
            f"CREATE VIEW source AS SELECT {columns} FROM read_parquet({case.files()!r}) WHERE {rows}"
        )
        if case.workload.function and contender == "flink":
            return _check_flinks_own_code(case, run["panes"], connection)
        if case.workload.function:
            return _check_own_code(case, contender, connection)
        if case.workload.repeats > 1:
            return _check_closed_windows(case, connection)
        if not contender.startswith("slackwater"):
            reference, results = query(case.workload, "source"), _anchor_results(case, contender)
        else:
            _create_views_of_project(case, connection)
            if case.workload.kind == "session":
                reference, results = query(case.workload, "source"), _PROJECT_SESSIONS
            else:
                reference, results = _rows_on_time(case.workload), _PROJECT_WINDOWS
        connection.execute(f"CREATE TABLE reference AS {reference}")
        return _compare(case, contender, connection, results)


def _compare(case: BenchmarkCase, contender: str, connection: Any, results: str) -> str:
    """Require the counts and sums of the table `reference` for each window, or for each key of sessions."""
    where = "key" if case.workload.kind == "session" else "key, window_start_us"
    totals = f"SELECT {where}, sum(n) AS n, sum(total) AS total FROM"
    difference = f"""
        SELECT count(*), (SELECT count(*) FROM ({totals} reference GROUP BY {where})) FROM (
            ({totals} reference GROUP BY {where} EXCEPT {totals} ({results}) GROUP BY {where})
            UNION ALL ({totals} ({results}) GROUP BY {where} EXCEPT {totals} reference GROUP BY {where}))"""
    differing, places = connection.execute(difference).fetchone()
    if differing or not places:
        raise ResultsDiffer(
            f"{case.label}: {contender} has other counts or sums than a group-by over the source in "
            f"{differing:,} of {places:,} places. "
            f"What it wrote is below {case.folder}.",
            workload=case.label,
            contender=contender,
            differing=differing,
        )
    return f"{places:,} {'keys' if case.workload.kind == 'session' else 'windows'} equal"


def _check_floor(case: BenchmarkCase, connection: Any) -> str:
    ours, floor_rows = (
        {
            name: connection.execute(f"SELECT count(*) FROM read_parquet({files!r})").fetchone()[0]
            for name, files in floor.tables_below(folder)
        }
        for folder in (case.folder / case.workload.pipeline, case.folder / floor.NAME)
    )
    if ours != floor_rows:
        raise ResultsDiffer(
            f"{case.label}: the floor wrote other numbers of rows than the project: {floor_rows} and {ours}.",
            workload=case.label,
            contender=floor.NAME,
            differing=sum(ours.values()) - sum(floor_rows.values()),
        )
    return f"{sum(ours.values()):,} rows of {len(ours)} tables written again"


def _check_closed_windows(case: BenchmarkCase, connection: Any) -> str:
    """Compare counts and sums in `published` with the rows that were not late, for each window of all keys
    together that nothing could change any more.
    """
    workload = case.workload
    files = DeltaTable(str(case.folder / workload.pipeline / "published")).file_uris()
    open_ms = _open_ms(workload)
    connection.execute("ALTER VIEW source RENAME TO rows_by_key")
    connection.execute("CREATE VIEW source AS SELECT * REPLACE (0 AS key) FROM rows_by_key")
    connection.execute(f"""
        CREATE TABLE reference AS SELECT * FROM ({_rows_on_time(workload)}) WHERE window_start_us
            < (SELECT max(epoch_us(event_time)) FROM source) - {open_ms * 1000}""")
    results = f"""
        SELECT 0 AS key, epoch_us(window_start) AS window_start_us, sum(n) AS n, sum(total) AS total
        FROM read_parquet({files!r}) WHERE window_start < (SELECT max(event_time) FROM source)
            - INTERVAL {open_ms} MILLISECOND GROUP BY ALL"""
    return _compare(case, "slackwater", connection, results)


def _open_ms(workload: Workload) -> int:
    return workload.size_ms + workload.lateness_ms + BOUND_MS + 10 * TICK_MS


# A timer of a row that arrives after the newest event waits for a watermark that never comes.
_BEFORE_LAST_WATERMARK = f"""epoch_ms(arrival_time) // {TICK_MS}
    <= (SELECT epoch_ms(arg_max(arrival_time, event_time)) // {TICK_MS} FROM source)"""


def _check_own_code(case: BenchmarkCase, contender: str, connection: Any) -> str:
    workload, function = case.workload, FUNCTIONS[case.workload.function]
    if contender.startswith("slackwater"):
        files = DeltaTable(str(case.folder / workload.pipeline / "published")).file_uris()
        start = "start_ms * 1000" if workload.function == "timers" else "epoch_us(window_start)"
        results = f"SELECT key, {start} AS window_start_us, n, total FROM read_parquet({files!r})"
    else:
        results = f"SELECT * FROM read_parquet('{case.folder / contender}/*.parquet')"
    if not contender.startswith("slackwater") or function.by_arrival:
        reference = own_code.windows(workload, "source")
    elif function.takes_late_rows:
        reference = own_code.windows(workload, f"(SELECT * FROM source WHERE {_BEFORE_LAST_WATERMARK})")
    else:
        reference = _rows_on_time(workload)
    is_closed = (
        f"window_start_us < (SELECT max(epoch_us(event_time)) FROM source) - {_open_ms(workload) * 1000}"
    )
    connection.execute(f"CREATE TABLE reference AS SELECT * FROM ({reference}) WHERE {is_closed}")
    return _compare(case, contender, connection, f"SELECT * FROM ({results}) WHERE {is_closed}")


def _check_flinks_own_code(case: BenchmarkCase, flink_rows: int, connection: Any) -> str:
    rows, results = connection.execute(f"""
        SELECT (SELECT count(*) FROM source), count(*)
        FROM ({own_code.windows(case.workload, "source")})""").fetchone()
    late = case.workload.late_share * rows
    if not (1 - _FLINK_TOLERANCE) * results <= flink_rows <= (1 + _FLINK_TOLERANCE) * results + late:
        raise ResultsDiffer(
            f"{case.label}: Flink emitted {flink_rows:,} results, and a group-by over the source has "
            f"{results:,}.",
            workload=case.label,
            contender="flink",
            differing=flink_rows,
        )
    return f"{flink_rows:,} results, a group-by {results:,}"


def _anchor_results(case: BenchmarkCase, contender: str) -> str:
    start = "window_start_us" if contender == "duckdb" else "epoch_us(window_start) AS window_start_us"
    columns = "key, n, total" if case.workload.kind == "session" else f"key, {start}, n, total"
    return f"SELECT {columns} FROM read_parquet('{case.folder / contender}/*.parquet')"


# A parked window holds all of its rows, fired or not; of a window that was cleaned up the newest pane tells.
_NEWEST_PANES = """
    SELECT key, window_start, window_end, arg_max(n, firing) AS n, arg_max(total, firing) AS total
    FROM panes GROUP BY key, window_start, window_end HAVING arg_max(kind, firing) <> 'withdrawn'"""
_WINDOWS = f"""
    SELECT key, window_start, n__count AS n, total__sum AS total FROM parked
    UNION ALL SELECT key, window_start, n, total FROM ({_NEWEST_PANES}) newest
        ANTI JOIN parked USING (key, window_start, window_end)"""
_PROJECT_WINDOWS = f"SELECT key, epoch_us(window_start) AS window_start_us, n, total FROM ({_WINDOWS})"
_PROJECT_SESSIONS = f"""
    SELECT key, n, total FROM ({_WINDOWS}) UNION ALL SELECT key, 1, value FROM late WHERE len(windows) > 0"""


def _rows_on_time(workload: Workload) -> str:
    """SQL over `source`: as `query`, without the rows that arrived after their window's cleanup time. A row's
    watermark follows the greatest event time of all ticks before its own; a window is cleaned up when it
    reaches window end + allowed lateness.
    """
    rows_with_watermark = f"""(
        SELECT source.*, before_us FROM source JOIN (
            SELECT tick, max(max(epoch_us(event_time))) OVER (
                ORDER BY tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_us
            FROM (SELECT *, epoch_ms(arrival_time) // {TICK_MS} AS tick FROM source) GROUP BY tick
        ) ticks ON epoch_ms(arrival_time) // {TICK_MS} = tick)"""
    stays_us = (workload.size_ms - 1 + workload.lateness_ms) * 1000
    make_query = own_code.windows if workload.function else query
    return make_query(
        workload,
        rows_with_watermark,
        f"before_us IS NULL OR window_start_us + {stays_us} > before_us - {(BOUND_MS + 1) * 1000}",
    )


def _create_views_of_project(case: BenchmarkCase, connection: Any) -> None:
    tables = Inspection.of(case.workload.pipeline, str(case.folder))
    for name, rows in (
        ("panes", tables.live("panes").rows),
        ("parked", tables.snapshot("window_state", None)),
        ("late", tables.live("late_events").rows),
    ):
        connection.register(f"{name}_rows", rows)
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {nexmark.result_columns(case.workload, name)} FROM {name}_rows"
        )


def _check_flink(case: BenchmarkCase, flink_panes: int, connection: Any) -> str:
    """Compare numbers of panes. Flink fires all open windows when its source ends, so the project's parked
    windows that have not fired count as panes.
    """
    try:
        _create_views_of_project(case, connection)
    except NoRuns:
        return f"{flink_panes:,} panes, not compared: the project's own run was measured earlier"
    first_panes, late_panes = connection.execute("""
        SELECT (SELECT count(*) FROM panes WHERE kind NOT IN ('withdrawn', 'late'))
            + (SELECT count(*) FROM parked WHERE firings = 0),
            (SELECT count(*) FROM panes WHERE kind = 'late')""").fetchone()
    our_panes = first_panes + late_panes
    tolerance = _FLINK_TOLERANCE * max(our_panes, 50) + _FLINK_LATE_TOLERANCE * late_panes
    if abs(flink_panes - our_panes) > tolerance:
        raise ResultsDiffer(
            f"{case.label}: Flink emitted {flink_panes:,} panes, we {our_panes:,}, {late_panes:,} of them "
            "late. Repeat the run with --keep; if they differ again, compare the panes of both.",
            workload=case.label,
            contender="flink",
            differing=flink_panes,
        )
    return f"{flink_panes:,} panes, ours {our_panes:,}"
