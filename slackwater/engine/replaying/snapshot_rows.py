"""The rows of the parent's snapshot for one range of keys, read from its files."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.aggregates import unknown_in
from slackwater.engine.replaying.parked_periods import check_parked_periods
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.rows.keys import Keys
from slackwater.tables.delta.parquet import damaged_file, open_verified
from slackwater.tables.run_files.staging import with_columns
from slackwater.tables.stores import filesystem

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
        row_group is not None and key_range.covers(KeyRange.of_groups(row_group.min, row_group.max))
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
