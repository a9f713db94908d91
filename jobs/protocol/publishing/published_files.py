"""Chooses the files of `published` that may hold rows of given days and window starts, by the log's
statistics.

Reads the log alone; the day of a row is its partition.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within, files_within

_DAY = "partition.window_date"


def files_of_days(folder: Folder, days: set[date | None], table: DeltaTable | None = None) -> StoredFiles:
    """The files of `published` with rows of `days`; None stands for rows without a window and a timestamp.

    `table`: the version to choose from; None: the newest.
    """
    dates = sorted(day for day in days if day is not None)
    bounds = [] if None in days or not dates else [Within("window_date", dates[0], dates[-1])]
    files = folder.files(*bounds, table=table)
    if not files.actions.num_rows:
        return files
    is_of_days = pc.is_in(files.actions.column(_DAY), value_set=pa.array(days, pa.date32()))
    return replace(files, actions=files.actions.filter(is_of_days))


def files_of_starts(
    folder: Folder, starts_by_day: Mapping[date | None, list[datetime]], table: DeltaTable
) -> StoredFiles:
    """The files of `published` with rows of these days whose windows may start between the least and the
    greatest start of the day. Without starts all files of a day are chosen.
    """
    files = files_of_days(folder, set(starts_by_day), table)
    actions_by_day = [
        files_within(_of_day(files.actions, day), *bounds_of_starts(starts))
        for day, starts in starts_by_day.items()
    ]
    return replace(files, actions=pa.concat_tables(actions_by_day) if actions_by_day else files.actions)


def bounds_of_starts(starts: list[datetime]) -> list[Within]:
    """The bounds of window starts for the log; none where there are no starts, as in the global window."""
    return [Within("window_start", min(starts), max(starts))] if starts else []


def least_and_greatest(column: pa.ChunkedArray) -> list[Any]:
    """The bounds of a column; none where it has no values."""
    return [bound for bound in pc.min_max(column).as_py().values() if bound is not None]


def _of_day(actions: pa.Table, day: date | None) -> pa.Table:
    if not actions.num_rows:
        return actions
    column = actions.column(_DAY)
    return actions.filter(
        pc.is_null(column) if day is None else pc.equal(column, pa.scalar(day, column.type))
    )
