"""The rows of the parent's snapshot for one range of key groups, read from its files. Both engines restore
from them; each reads them in its own way.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.jobs.engines.aggregates import unknown_in
from slackwater.jobs.engines.replaying.parked_periods import check_parked_periods
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.tables.delta.parquet import damaged_file, open_verified
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.jobs.tables.run_files.staging import with_columns
from slackwater.windowing.key_groups import KeyGroupRange

# `contents` of a window without contents: the typed columns cannot say it, as an accumulator may be all
# nulls.
NO_CONTENTS: Final = "[]"
_KEY_GROUP = "key_group"


def restored_rows(replay: Replay, table: str, schema: pa.Schema, key_groups: KeyGroupRange) -> pa.Table:
    """The columns `schema` of the parent's rows of `table` in `key_groups`; row groups of other key
    groups are not read.

    Raises:
        DamagedFile: a file is not what the parent has written, or is not there.
        CalendarChanged: a calendar window was parked with other bounds than the calendar now gives it.
    """
    parts = list(restored_parts(replay, table, schema, key_groups))
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    if table == "window_state":
        check_parked_periods(replay.pipeline, rows)
    return rows


def unknown_results(replay: Replay, parked_rows: pa.Table) -> frozenset[str]:
    """The results of a `select` that are unknown in one of these rows of `window_state`."""
    if not parked_rows.num_rows:
        return frozenset()
    texts = pc.unique(parked_rows.column("contents")).to_pylist()
    return replay.added_results.union(*(unknown_in(text) for text in texts if text != NO_CONTENTS))


def restored_parts(
    replay: Replay, table: str, schema: pa.Schema, key_groups: KeyGroupRange
) -> Iterator[pa.Table]:
    """The rows of `restored_rows`, file by file."""
    uri = replay.folders[table]
    files = filesystem(uri)
    for path in replay.state.get(table, ()):
        try:
            with open_verified(uri, files, path) as file:
                rows = with_columns(_rows_of_groups(file, schema.names, key_groups), schema)
        except FileNotFoundError as error:
            raise damaged_file(uri, path, "it is not there any more") from error
        yield rows


def restored_bytes(replay: Replay, table: str, key_groups: KeyGroupRange) -> int:
    """About how much memory `restored_rows` takes: the sizes of its row groups before compression."""
    uri = replay.folders[table]
    files, total = filesystem(uri), 0
    for path in replay.state.get(table, ()):
        try:
            with open_verified(uri, files, path) as file:
                total += sum(
                    file.metadata.row_group(number).total_byte_size
                    for number in _row_groups_of(file, key_groups)
                )
        except FileNotFoundError as error:
            raise damaged_file(uri, path, "it is not there any more") from error
    return total


def _rows_of_groups(file: pq.ParquetFile, names: list[str], key_groups: KeyGroupRange) -> pa.Table:
    """The rows of some key groups. Where a file holds no others, nothing is copied."""
    bounds = _row_groups_of(file, key_groups)
    rows = file.read_row_groups(list(bounds), names, use_threads=False)
    if all(
        row_group is not None and key_groups.first <= row_group.min and row_group.max <= key_groups.last
        for row_group in bounds.values()
    ):
        return rows
    groups = rows.column(_KEY_GROUP).to_numpy()
    return rows.filter(pa.array((groups >= key_groups.first) & (groups <= key_groups.last)))


def _row_groups_of(file: pq.ParquetFile, key_groups: KeyGroupRange) -> dict[int, Any]:
    """Number → statistics of the column of key groups, of the row groups that may hold some of
    `key_groups`."""
    place = file.schema.names.index(_KEY_GROUP)
    row_groups = {number: file.metadata.row_group(number) for number in range(file.num_row_groups)}
    bounds = {
        number: row_group.column(place).statistics
        for number, row_group in row_groups.items()
        if row_group.num_rows
    }
    return {
        number: statistics
        for number, statistics in bounds.items()
        if statistics is None or (statistics.min <= key_groups.last and statistics.max >= key_groups.first)
    }
