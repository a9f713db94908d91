"""Counts the windows that rows touch, in the snapshot and in `published`, by key and time: a join in
DuckDB, without the windows' own code.

Exact for windows that take an element by its time alone; a lower bound where only the window's code can
say more.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.schemas import TIME
from slackwater.jobs.tables.sql import connect

TIME_COLUMN = "__time"


def points(pipeline: Pipeline, rows: pa.Table) -> pa.Table:
    """The distinct points of `rows`: the key columns, and the time by which windows take a row. Rows without
    that time are left out.
    """
    source = pipeline.roles
    takes_event_time = pipeline.window is None or pipeline.window.is_event_time
    time = rows.column(source.event_time if takes_event_time else source.arrival_time).cast(TIME, safe=False)
    key_times = rows.select(list(pipeline.keys)).append_column(TIME_COLUMN, time)
    return key_times.filter(pc.is_valid(time)).group_by(key_times.column_names).aggregate([])


def windows_between(folder: Folder, columns: Sequence[str], times: pa.Table, reach_ms: int) -> pa.Table:
    """Windows of `published` that points of these `times` may touch, whatever their keys. `columns`: the key
    columns and those of windows.
    """
    bounds = pc.min_max(times.column(TIME_COLUMN)).as_py()
    start, end = pc.field("window_start"), pc.field("window_end")
    if bounds["min"] is None:
        return folder.read(list(columns), start.is_null() & start.is_valid())
    low, high = (pa.scalar(bounds[side], TIME) for side in ("min", "max"))
    reach = pa.scalar(reach_ms * 1000, pa.duration("us"))
    where = start.is_null() | ((start < pc.add(high, reach)) & (end > low))
    return folder.read(list(columns), where)


def count(keys: Sequence[str], windows: pa.Table, parts: Iterable[pa.Table], reach_ms: int) -> int:
    """How many of `windows` (columns of the key and the window) the points in `parts` touch; each window
    counts once.

    A window [start, end) takes a point of its key in (start - reach, end); one without bounds any point of
    its key. `reach_ms` is the gap of sessions, which an element opens before it merges.
    """
    names = ", ".join(f'"{name}"' for name in windows.column_names)
    same_key = "".join(f'w."{key}" = p."{key}" AND ' for key in keys)
    low = f"coalesce(window_start - INTERVAL {int(reach_ms)} MILLISECOND, TIMESTAMPTZ '-infinity')"
    touch = f"""
        SELECT w.__number FROM (
            SELECT *, {low} AS __low, coalesce(window_end, TIMESTAMPTZ 'infinity') AS __high FROM windows) w
        ASOF JOIN points p ON {same_key}w.__low {"<" if reach_ms else "<="} p.{TIME_COLUMN}
        WHERE p.{TIME_COLUMN} < w.__high
    """
    with connect() as connection:
        connection.register("all_windows", windows)
        distinct = f"SELECT DISTINCT {names} FROM all_windows"
        connection.execute(
            f"CREATE TEMP TABLE windows AS SELECT *, row_number() OVER () AS __number FROM ({distinct})"
        )
        connection.execute("CREATE TEMP TABLE touched (number BIGINT)")
        for part in parts:
            connection.register("points", part)
            connection.execute(f"INSERT INTO touched {touch}")
            connection.unregister("points")
        count_row = connection.execute("SELECT count(DISTINCT number) FROM touched").fetchone()
    assert count_row is not None
    return int(count_row[0])
