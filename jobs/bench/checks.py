"""Whether contenders agree: every row of the source stands in exactly the windows that the others put it
into, once.

The project drops late rows and keeps windows open, the anchors do neither. So its newest panes and its parked
windows are compared with a group-by over the source that leaves out what Flink's rule calls late; of
sessions, whose borders move with each such row, its late rows are counted in.
"""

from typing import Any

import duckdb

from slackwater.jobs.bench import nexmark
from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.contenders.duckdb_group_by import query
from slackwater.jobs.bench.contenders.transform_with_state import ROWS
from slackwater.jobs.bench.workloads import BOUND_MS, TICK_MS, Workload
from slackwater.jobs.errors import PermanentError
from slackwater.jobs.tables.errors import NoRuns
from slackwater.jobs.tables.inspection.inspection import Inspection

_FLINK_TOLERANCE = 0.02  # two live sources judge lateness by their own pace,
_FLINK_LATE_TOLERANCE = (
    0.5  # and how many late rows still find their window fired, and not gone, depends on it most
)
_STREAM_TOLERANCE = 0.02  # rows later than the stream's own watermark


class ResultsDiffer(PermanentError):
    """Two contenders gave different results on the same rows. Facts: workload, contender, differing."""


def check(case: Case, contender: str, run: dict[str, Any]) -> str:
    """Compare what `contender` has left with the source, or, for Flink, its number of panes with that of the
    project, which ran before it.

    Returns what was found equal, in a few words. Raises ResultsDiffer.
    """
    with duckdb.connect() as connection:
        if contender == "flink":
            return _check_flink(case, run["panes"], connection)
        columns, rows = nexmark.columns(case.workload), nexmark.rows(case.workload)
        connection.execute(
            f"CREATE VIEW source AS SELECT {columns} FROM read_parquet({case.files()!r}) WHERE {rows}"
        )
        if contender == "transform_with_state":
            return _check_stream(case, connection)
        if not contender.startswith("slackwater"):
            expected, found = query(case.workload, "source"), _grouped(case, contender)
        else:
            _register(case, connection)
            if case.workload.kind == "session":
                expected, found = query(case.workload, "source"), _ACCOUNTED_SESSIONS
            else:
                expected, found = _on_time(case.workload), _ACCOUNTED
        connection.execute(f"CREATE TABLE expected AS {expected}")
        return _compare(case, contender, connection, found)


def _compare(case: Case, contender: str, connection: Any, found: str) -> str:
    """For each window, or each key of sessions (whose borders move with each row that is dropped), count and
    sum must be equal.
    """
    where = "key" if case.workload.kind == "session" else "key, window_start_us"
    totals = f"SELECT {where}, sum(n) AS n, sum(total) AS total FROM"
    difference = f"""
        SELECT count(*), (SELECT count(*) FROM ({totals} expected GROUP BY {where})) FROM (
            ({totals} expected GROUP BY {where} EXCEPT {totals} ({found}) GROUP BY {where})
            UNION ALL ({totals} ({found}) GROUP BY {where} EXCEPT {totals} expected GROUP BY {where}))"""
    differing, compared = connection.execute(difference).fetchone()
    if differing:
        raise ResultsDiffer(
            f"{case.label}: {contender} has other counts or sums than a group-by over the source in "
            f"{differing:,} of {compared:,} places. "
            f"What it wrote stands below {case.folder}.",
            workload=case.label,
            contender=contender,
            differing=differing,
        )
    return f"{compared:,} {'keys' if case.workload.kind == 'session' else 'windows'} equal"


def _grouped(case: Case, contender: str) -> str:
    start = "window_start_us" if contender == "duckdb" else "epoch_us(window_start) AS window_start_us"
    columns = "key, n, total" if case.workload.kind == "session" else f"key, {start}, n, total"
    return f"SELECT {columns} FROM read_parquet('{case.folder / contender}/*.parquet')"


# Parked windows hold all of their rows, fired or not; a window that is gone has its newest pane.
_NEWEST = """
    SELECT key, window_start, window_end, arg_max(n, firing) AS n, arg_max(total, firing) AS total
    FROM panes GROUP BY key, window_start, window_end HAVING arg_max(kind, firing) <> 'withdrawn'"""
_WINDOWS = f"""
    SELECT key, window_start, n__count AS n, total__sum AS total FROM parked
    UNION ALL SELECT key, window_start, n, total FROM ({_NEWEST}) newest
        ANTI JOIN parked USING (key, window_start, window_end)"""
_ACCOUNTED = f"SELECT key, epoch_us(window_start) AS window_start_us, n, total FROM ({_WINDOWS})"
_ACCOUNTED_SESSIONS = f"""
    SELECT key, n, total FROM ({_WINDOWS}) UNION ALL SELECT key, 1, value FROM late WHERE len(windows) > 0"""


def _on_time(workload: Workload) -> str:
    """SQL over `source`: as `query`, without the rows that came when their window was gone. The watermark
    that judges a row follows the greatest event time of all ticks before its own; a window is gone when it
    has reached the window's end and the allowed lateness."""
    judged = f"""(
        SELECT source.*, before_us FROM source JOIN (
            SELECT tick, max(max(epoch_us(event_time))) OVER (
                ORDER BY tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_us
            FROM (SELECT *, epoch_ms(arrival_time) // {TICK_MS} AS tick FROM source) GROUP BY tick
        ) ticks ON epoch_ms(arrival_time) // {TICK_MS} = tick)"""
    stays_us = (workload.size_ms - 1 + workload.lateness_ms) * 1000
    return query(
        workload,
        judged,
        f"before_us IS NULL OR window_start_us + {stays_us} > before_us - {(BOUND_MS + 1) * 1000}",
    )


def _register(case: Case, connection: Any) -> None:
    """The project's live panes, parked windows and late rows."""
    tables = Inspection.of(case.workload.pipeline, str(case.folder))
    for name, rows in (
        ("panes", tables.live("panes").rows),
        ("parked", tables.snapshot("window_state", None)),
        ("late", tables.live("late_events").rows),
    ):
        connection.register(f"{name}_left", rows)
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {nexmark.columns_left(case.workload, name)} FROM {name}_left"
        )


def _check_flink(case: Case, found: int, connection: Any) -> str:
    """Flink fires what is open when its source ends, so windows that are parked unfired count as panes."""
    try:
        _register(case, connection)
    except NoRuns:
        return f"{found:,} panes, not compared: the project's own run was measured earlier"
    first, late = connection.execute("""
        SELECT (SELECT count(*) FROM panes WHERE kind NOT IN ('withdrawn', 'late'))
            + (SELECT count(*) FROM parked WHERE firings = 0),
            (SELECT count(*) FROM panes WHERE kind = 'late')""").fetchone()
    expected = first + late
    if abs(found - expected) > _FLINK_TOLERANCE * max(expected, 50) + _FLINK_LATE_TOLERANCE * late:
        raise ResultsDiffer(
            f"{case.label}: Flink emitted {found:,} panes, we {expected:,}, {late:,} of them late.",
            workload=case.label,
            contender="flink",
            differing=found,
        )
    return f"{found:,} panes, ours {expected:,}"


def _check_stream(case: Case, connection: Any) -> str:
    """The stream's windows against all of the same prefix: none holds more rows than it should, and together
    few are missing.
    """
    prefix = query(case.workload, f"(SELECT * FROM source ORDER BY row LIMIT {ROWS})")
    found = f"read_parquet('{case.folder}/transform_with_state/out/*.parquet')"
    totals = f"""
        SELECT count(*), sum(expected.n), coalesce(sum(found.n), 0),
            coalesce(bool_or(found.n > expected.n), false)
        FROM ({prefix}) expected LEFT JOIN {found} found USING (key, window_start_us)"""
    windows, expected, seen, has_more = connection.execute(totals).fetchone()
    if has_more or expected - seen > _STREAM_TOLERANCE * expected:
        raise ResultsDiffer(
            f"{case.label}: transformWithState counted {seen:,} of {expected:,} rows in {windows:,} windows.",
            workload=case.label,
            contender="transform_with_state",
            differing=expected - seen,
        )
    return f"{windows:,} windows, {seen:,} of {expected:,} rows"
