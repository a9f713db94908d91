"""The rows of the parent's snapshot for one range of keys, read from its files. Parked calendar windows are
refused whose bounds the calendar of this machine does not have any more: databases of time zones change,
and elements would go to a window beside the parked one.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.aggregates import unknown_in
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.rows.keys import Keys
from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.tables.delta.parquet import damaged_file, open_verified
from slackwater.tables.run_files.staging import with_columns
from slackwater.tables.stores import filesystem
from slackwater.windowing.calendars import Calendar
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.numbered_windows import CalendarWindows
from slackwater.windowing.times import to_datetime

# `contents` of a window without contents: the typed columns cannot say it, as an accumulator may be all
# nulls.
NO_CONTENTS: Final = "[]"
_KEY_GROUP = "key_group"
_ROWS_AT_ONCE = 1 << 17


def restored_rows(replay: Replay, table: str, schema: pa.Schema, keys: Keys, key_range: KeyRange) -> pa.Table:
    """The columns `schema` of the parent's rows of `table` in the range; skips other key groups.

    Raises:
        DamagedFile: a file is not what the parent has written, or is not there.
        CalendarChanged: a calendar window was parked with other bounds than the calendar now gives it.
    """
    parts = list(restored_parts(replay, table, schema, keys, key_range))
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    if table == "window_state":
        check_parked_periods(replay.pipeline, rows)
    return rows


def unknown_results(replay: Replay, parked_rows: pa.Table) -> frozenset[str]:
    if not parked_rows.num_rows:
        return frozenset()
    texts = pc.unique(parked_rows.column("contents")).to_pylist()
    return replay.added_results.union(*(unknown_in(text) for text in texts if text != NO_CONTENTS))


def restored_parts(
    replay: Replay, table: str, schema: pa.Schema, keys: Keys, key_range: KeyRange
) -> Iterator[pa.Table]:
    """The rows of `restored_rows`, file by file."""
    uri = replay.folders[table]
    files = filesystem(uri)
    for path in replay.state_files(table, key_range):
        try:
            with open_verified(uri, files, path) as file:
                written_range = KeyRange.in_name(path)
                if written_range is not None and key_range.covers(written_range):
                    rows = file.read(schema.names, use_threads=False)
                else:
                    rows = _rows_in_range(file, schema.names, keys, key_range)
                rows = with_columns(rows, schema)
        except FileNotFoundError as error:
            raise damaged_file(uri, path, "it is not there any more") from error
        yield rows


def restored_bytes(replay: Replay, table: str, key_range: KeyRange) -> int:
    """About how much memory `restored_rows` takes at most: its row groups before compression."""
    uri = replay.folders[table]
    files, total = filesystem(uri), 0
    for path in replay.state_files(table, key_range):
        try:
            with open_verified(uri, files, path) as file:
                total += sum(
                    file.metadata.row_group(number).total_byte_size
                    for number in _row_groups_of(file, key_range)
                )
        except FileNotFoundError as error:
            raise damaged_file(uri, path, "it is not there any more") from error
    return total


def _rows_in_range(file: pq.ParquetFile, names: list[str], keys: Keys, key_range: KeyRange) -> pa.Table:
    """The rows whose keys are in the range; a file that holds no others is not copied."""
    bounds = _row_groups_of(file, key_range)
    if all(
        row_group is not None and key_range.covers(KeyRange.from_groups(row_group.min, row_group.max))
        for row_group in bounds.values()
    ):
        return file.read_row_groups(list(bounds), names, use_threads=False)
    batches = file.iter_batches(_ROWS_AT_ONCE, list(bounds), names, use_threads=False)
    return pa.concat_tables(keys.rows_in(key_range, pa.Table.from_batches([batch])) for batch in batches)


def _row_groups_of(file: pq.ParquetFile, key_range: KeyRange) -> dict[int, Any]:
    """Number → statistics of the key groups, of the row groups that may hold keys of the range."""
    place = file.schema.names.index(_KEY_GROUP)
    row_groups = {number: file.metadata.row_group(number) for number in range(file.num_row_groups)}
    bounds = {
        number: row_group.column(place).statistics
        for number, row_group in row_groups.items()
        if row_group.num_rows
    }
    key_groups = key_range.key_groups
    return {
        number: statistics
        for number, statistics in bounds.items()
        if statistics is None or (statistics.min <= key_groups.last and statistics.max >= key_groups.first)
    }


class CalendarChanged(PermanentError):
    """A parked window is no period of the pipeline's calendar any more."""


def check_parked_periods(pipeline: Pipeline, window_rows: pa.Table) -> None:
    """Compare parked windows with the pipeline's calendar, if it has one; raises CalendarChanged."""
    if pipeline.window is None or not isinstance(calendar := pipeline.window.grid, Calendar):
        return
    parked_starts, parked_ends = (_milliseconds(window_rows[name]) for name in ("window_start", "window_end"))
    windows = CalendarWindows(calendar, pipeline.allowed_lateness_ms)
    periods = windows.slices(parked_starts)
    starts, ends = windows.starts(periods), windows.ends(periods)
    changed_rows = np.flatnonzero((starts != parked_starts) | (ends != parked_ends))
    if not len(changed_rows):
        return
    row = changed_rows[0]
    parked_start, parked_end, start, end = (
        _iso(bounds[row]) for bounds in (parked_starts, parked_ends, starts, ends)
    )
    raise CalendarChanged(
        f"the snapshot holds {len(changed_rows):,} open windows that are no {calendar.unit} of the time zone "
        f"{calendar.zone!r} on this machine: one was parked as [{parked_start}, {parked_end}), and the "
        f"calendar now has [{start}, {end}). The database of time zones has changed since, or machines "
        "have different ones. Nothing was changed. Either bring back the database with which the windows "
        "were parked (`pip install tzdata==VERSION`, with PYTHONTZPATH set to nothing so that it is read), "
        "or restate with the new calendar: `slackwater backfill "
        f"{pipeline.name} --from {min(parked_start, start)}` and the lineage's head as `--to`, which "
        "starts from a snapshot before these windows.",
        zone=calendar.zone,
        windows=len(changed_rows),
    )


def _milliseconds(times: pa.ChunkedArray) -> Longs:
    milliseconds: Longs = times.cast(pa.int64()).to_numpy() // 1000
    return milliseconds


def _iso(ms: int) -> str:
    return f"{to_datetime(int(ms)):%Y-%m-%dT%H:%M:%SZ}"
