"""Chooses the files of `published` that may hold rows of given days, or of given windows, by the log's
statistics.

Reads the log alone; the day of a row is its partition. Of each file the log has the bounds of key groups and
of window starts; a window can be in a file only if it lies between both.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.runs.publishing.corrections import days_of
from slackwater.runs.publishing.portions import KEY_GROUP
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.sql import query

_DAY = "partition.window_date"
# The columns that say where a window may be published.
WINDOW_PLACE = (KEY_GROUP, "window_start", "window_end", "timestamp")
# A log may cut a time to milliseconds.
_FILES_OF_WINDOWS = """
    SELECT DISTINCT number FROM files JOIN windows
    ON files.day IS NOT DISTINCT FROM windows.day
    AND coalesce(windows.key_group BETWEEN files.least_group AND files.greatest_group, true)
    AND (windows.without_start > 0 OR coalesce(windows.last_start >= files.least_start
        AND windows.first_start <= files.greatest_start + INTERVAL 999 MICROSECOND, true))
    ORDER BY number
"""


def files_of_days(files: StoredFiles, days: Collection[date | None]) -> StoredFiles:
    """The files of `published` with rows of `days`; None: rows without a window and a timestamp."""
    dates = sorted(day for day in days if day is not None)
    if None not in days and dates:
        files = files.within(Within("window_date", dates[0], dates[-1]))
    if not files.actions.num_rows:
        return files
    is_of_days = pc.is_in(files.actions.column(_DAY), value_set=pa.array(days, pa.date32()))
    return replace(files, actions=files.actions.filter(is_of_days))


def files_of_windows(files: StoredFiles, windows: pa.Table) -> StoredFiles:
    """The files of `published` that may hold rows of `windows`, panes or corrections with the columns
    `WINDOW_PLACE`. `files` are of the days of the windows, see `files_of_days`.
    """
    starts = windows.column("window_start")
    if windows.num_rows and not starts.null_count:
        files = files.within(*bounds_of_starts(least_and_greatest(starts)))
    if files.actions.num_rows < 1:
        return files
    places = pa.table(
        {"day": days_of(windows), "key_group": windows.column(KEY_GROUP), "start": starts}
    ).group_by(["day", "key_group"])
    nulls = pc.CountOptions(mode="only_null")
    places = places.aggregate([("start", "min"), ("start", "max"), ("start", "count", nulls)]).rename_columns(
        ["day", "key_group", "first_start", "last_start", "without_start"]
    )
    numbers = query(_FILES_OF_WINDOWS, files=_places_of_files(files.actions), windows=places)
    return replace(files, actions=files.actions.take(numbers.column("number")))


def _places_of_files(actions: pa.Table) -> pa.Table:
    columns = {
        "day": (_DAY, pa.date32()),
        "least_group": (f"min.{KEY_GROUP}", pa.int32()),
        "greatest_group": (f"max.{KEY_GROUP}", pa.int32()),
        "least_start": ("min.window_start", pa.timestamp("us", "UTC")),
        "greatest_start": ("max.window_start", pa.timestamp("us", "UTC")),
    }
    count = actions.num_rows
    return pa.table(
        {"number": pa.array(range(count), pa.int64())}
        | {
            name: actions.column(column).cast(kind)
            if column in actions.column_names
            else pa.nulls(count, kind)
            for name, (column, kind) in columns.items()
        }
    )


def bounds_of_starts(starts: list[datetime]) -> list[Within]:
    """The bounds of window starts for the log; none where there are no starts, as in the global window."""
    return [Within("window_start", min(starts), max(starts))] if starts else []


def least_and_greatest(column: pa.ChunkedArray) -> list[Any]:
    return [bound for bound in pc.min_max(column).as_py().values() if bound is not None]
