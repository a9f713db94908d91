"""Counts the windows that rows touch, in the snapshot and in `published`, by key and time: a join in
DuckDB, without the windows' own code.

Exact for windows that take an element by its time alone; a lower bound where only the window's code can
say more. Of many rows or windows only some key groups are looked at, and counts are scaled up: a key's
group is a hash of it, so the keys of some groups are as good as drawn by lot, and files that are sorted by
groups are read in part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines import Pipeline
from slackwater.runs.publishing.portions import KEY_GROUP
from slackwater.tables.delta.statistics import widen_bounds
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.schemas import TIME
from slackwater.tables.sql import connect
from slackwater.windowing.columnar.arrays.key_hashes import key_groups
from slackwater.windowing.columnar.arrays.orders import distinct_values

IntArray = npt.NDArray[np.int64]

TIME_COLUMN = "__time"
# So many rows, or windows, are looked at; of more a sample.
SAMPLE_ROWS = 1 << 20
_ROWS_AT_ONCE = 1 << 18
_EVER_MIN, _EVER_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class KeyGroupSample:
    """The first `groups` of a pipeline's `max_parallelism` key groups, which represent all."""

    keys: tuple[str, ...]
    max_parallelism: int
    groups: int

    @classmethod
    def all_of(cls, pipeline: Pipeline) -> "KeyGroupSample":
        return cls(tuple(pipeline.keys), pipeline.max_parallelism, pipeline.max_parallelism)

    @property
    def is_whole(self) -> bool:
        return self.groups == self.max_parallelism

    def for_rows(self, rows: int) -> "KeyGroupSample":
        """This sample, or a smaller one with about `SAMPLE_ROWS` of so many rows of all groups. Rows
        without a key are of one group, so no sample is taken.
        """
        groups = self.groups
        while self.keys and groups > 1 and rows * groups > SAMPLE_ROWS * self.max_parallelism:
            groups //= 2
        return replace(self, groups=groups)

    def take(self, rows: pa.Table) -> pa.Table:
        if self.is_whole or not rows.num_rows:
            return rows
        for key in self.keys:
            if rows.column(key).null_count:
                rows = rows.filter(pc.is_valid(rows.column(key)))
        columns = [rows.column(key) for key in self.keys]
        return rows.filter(pa.array(key_groups(columns, self.max_parallelism) < self.groups))

    def files(self, files: StoredFiles) -> StoredFiles:
        return files if self.is_whole else files.within(Within(KEY_GROUP, 0, self.groups - 1))

    @property
    def where(self) -> pc.Expression | None:
        return None if self.is_whole else pc.field(KEY_GROUP) < self.groups

    def count_of_all(self, count: int) -> int:
        return round(count * self.max_parallelism / self.groups)


def points(pipeline: Pipeline, rows: pa.Table, sample: KeyGroupSample) -> pa.Table:
    """The distinct points of `rows` in the sample: keys and the time by which windows take a row, if any."""
    source = pipeline.roles
    takes_event_time = pipeline.window is None or pipeline.window.is_event_time
    time = rows.column(source.event_time if takes_event_time else source.arrival_time).cast(TIME, safe=False)
    key_times = rows.select(list(pipeline.keys)).append_column(TIME_COLUMN, time)
    key_times = sample.take(key_times.filter(pc.is_valid(time)))
    return key_times.group_by(key_times.column_names).aggregate([])


def times_of(parts: Iterable[pa.Table]) -> IntArray:
    """The distinct times of some tables of points, rising, in microseconds."""
    times = [part.column(TIME_COLUMN).cast(pa.int64()).to_numpy() for part in parts]
    return distinct_values(np.concatenate([*times, np.zeros(0, np.int64)]))


def windows_at(
    files: StoredFiles,
    columns: Sequence[str],
    times: IntArray,
    reach_ms: int,
    where: pc.Expression | None = None,
) -> pa.Table:
    """The windows in `files` (see `files_at`) that points at one of `times` may touch, whatever their
    keys, where the condition holds. Few rows are held at once.
    """
    parts = [pa.schema([files.read_schema.field(name) for name in columns]).empty_table()]
    for part in files.scan(columns, where, _ROWS_AT_ONCE):
        start, end = part.column("window_start"), part.column("window_end")
        parts.append(part.filter(_hold_one_of(times, start, end, reach_ms)))
    return pa.concat_tables(parts)


def files_at(files: StoredFiles, times: IntArray, reach_ms: int) -> StoredFiles:
    """Those of `files` that may hold windows which points at one of `times` touch, by their statistics."""
    names = ("min.window_start", "max.window_end", "null_count.window_start", "null_count.window_end")
    if not {*names} <= set(files.actions.column_names):
        return files
    start, end, *null_counts = (files.actions.column(name) for name in names)
    has_nulls = pc.greater(pc.add(*null_counts), 0)
    start, end = widen_bounds(start, end)
    may_hold = pc.or_(_hold_one_of(times, start, end, reach_ms), pc.fill_null(has_nulls, True))
    paths = (path for path, is_wanted in zip(files.paths, may_hold.to_pylist(), strict=True) if is_wanted)
    return files.among(paths)


def _hold_one_of(times: IntArray, start: pa.ChunkedArray, end: pa.ChunkedArray, reach_ms: int) -> pa.Array:
    """For each window [start, end), whether one of `times` touches it, see `count`."""
    low, high = _microseconds(start, _EVER_MIN), _microseconds(end, _EVER_MAX)
    # Snapshots are sorted by windows, so of many rows with one window only the first is looked at.
    is_first = np.ones(len(low), np.bool_)
    is_first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    low, high = low[is_first], high[is_first]
    if reach_ms:
        low = np.where(low == _EVER_MIN, low, low - reach_ms * 1000)
    first = np.searchsorted(times, low, "right" if reach_ms else "left")
    holds_one = first < np.searchsorted(times, high, "left")
    return pa.array(holds_one[np.cumsum(is_first) - 1])


def _microseconds(moments: pa.ChunkedArray, null_value: int) -> IntArray:
    numbers = moments.cast(TIME).cast(pa.int64())
    # To look for nulls takes as long as all else that is done with the numbers.
    return (pc.fill_null(numbers, null_value) if numbers.null_count else numbers).to_numpy()


def count(keys: Sequence[str], windows: pa.Table, parts: Iterable[pa.Table], reach_ms: int) -> int:
    """How many of `windows` (columns of key and window) the points in `parts` touch. A window [start, end)
    takes a point of its key in (start - reach, end); one without bounds any. `reach_ms` is the gap of
    sessions, which an element opens before it merges.
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
