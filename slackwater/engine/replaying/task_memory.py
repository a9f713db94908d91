"""The sizes that fit the memory of one task: rows read at once, ranges of a slice, parts of a range.
Estimates from measured bytes and the source's statistics; no result depends on them.
"""

import os
from collections.abc import Sequence
from math import ceil, prod

import pyarrow as pa

from slackwater.engine.replaying.replay import Engine
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.row_groups import ROWS_AT_ONCE
from slackwater.pipelines import Pipeline
from slackwater.runtime.memory import IDLE_MB, state_memory_mb
from slackwater.windowing import GlobalWindows

_MB = 1 << 20
# Measured, on top of an idle Python worker: rows of three columns, and windows of two sums.
_BYTES_PER_ROW_READ = 256
_BYTES_PER_ROW_MERGED = 400
# A row that waits to be merged: 14 to 20 bytes with integer keys, 45 with texts of 13 bytes.
_BYTES_PER_ROW_RECEIVED = 40
_ROWS_MERGED_AT_ONCE = 1 << 20  # merging more at once is no faster, and takes memory new to the process
# They take no more than such a share of the memory.
_SHARE_RECEIVED = 3
_ROWS_WORTH_A_TASK = 200_000
# A key group is divided no further than into ranges, and parts of ranges, of so many rows: what each takes
# beside its rows would come to more.
ROWS_WORTH_A_RANGE = 1 << 16
ROWS_WORTH_A_PART = 1 << 14
# Aggregates of integers whose partial results are no more than two integers.
_BYTES_PER_NUMBER = 8
_NUMBERS_OF_KIND = {"count": 1, "sum": 2, "mean": 2, "min": 1, "max": 1}
_BYTES_PER_ROW_STORED = 16  # in a file whose rows the log does not count


def rows_at_once(limit_mb: int) -> int:
    return max(1, min(ROWS_AT_ONCE, limit_mb * _MB // _BYTES_PER_ROW_READ))


def rows_of_range(limit_mb: int) -> int:
    """How many rows, received and parked, a range task of `limit_mb` megabytes merges at once."""
    return max(1, limit_mb * _MB // _BYTES_PER_ROW_MERGED)


def parts_needed(rows: int, limit_mb: int) -> int:
    """In how many parts a range merges so many rows: a power of two, so that successive runs' parts nest."""
    parts = max(1, ceil(rows / min(_ROWS_MERGED_AT_ONCE, rows_of_range(limit_mb))))
    return 1 << (parts - 1).bit_length()


def parts_of(key_range: KeyRange, rows: int, limit_mb: int) -> list[KeyRange]:
    """The parts in which a range of so many rows is merged, of whole key groups where these suffice."""
    most = max(len(key_range.key_groups), rows // ROWS_WORTH_A_PART)
    return key_range.parts(min(most, parts_needed(rows, limit_mb)))


def most_rows_of_range(
    pipeline: Pipeline, sources: Sequence[PinnedSource], engine: Engine, limit_mb: int
) -> int:
    """How many rows, received and parked, a range task of `limit_mb` megabytes may have: as many as it merges
    at once or, of narrow partial aggregates, which wait packed to be merged in parts, more.
    """
    at_once = rows_of_range(limit_mb)
    if not engine.aggregates_first or not _sends_narrow_partials(pipeline, sources):
        return at_once
    limit = limit_mb * _MB
    left_by_part = limit - min(_ROWS_MERGED_AT_ONCE, at_once) * _BYTES_PER_ROW_MERGED
    return max(at_once, min(left_by_part, limit // _SHARE_RECEIVED) // _BYTES_PER_ROW_RECEIVED)


def _sends_narrow_partials(pipeline: Pipeline, sources: Sequence[PinnedSource]) -> bool:
    """Whether map tasks send one row for each cell, within _BYTES_PER_ROW_RECEIVED."""
    aggregates = pipeline.select.values()
    if (
        not aggregates
        or pipeline.distinct_by is not None
        or pipeline.windows.grid is None
        or not pipeline.effective_trigger.fires_at_last_instant
        or any(aggregate.kind not in _NUMBERS_OF_KIND for aggregate in aggregates)
    ):
        return False
    names = {*pipeline.keys, *(aggregate.column for aggregate in aggregates if aggregate.kind != "count")}
    for source, declaration in zip(sources, pipeline.sources, strict=True):
        own_names = {common: name for name, common in declaration.rename.items()}
        kinds = [_type_in(source.schema, own_names.get(name, name)) for name in names if name is not None]
        if not all(kind is not None and pa.types.is_integer(kind) for kind in kinds):
            return False
    numbers = len(pipeline.keys) + sum(_NUMBERS_OF_KIND[aggregate.kind] for aggregate in aggregates)
    return (1 + numbers) * _BYTES_PER_NUMBER <= _BYTES_PER_ROW_RECEIVED  # one more for the slice and counts


def _type_in(schema: pa.Schema, name: str) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def ranges_for(pipeline: Pipeline, rows: int, most_rows: int, slots: int) -> int:
    """Into how many ranges so many rows are divided: none has more than `most_rows`, and `slots` tasks have
    equally much to do. More ranges than key groups divide these, which one key does not allow.
    """
    ranges = max(min(slots, rows // _ROWS_WORTH_A_TASK), ceil(rows / most_rows))
    most = max(pipeline.max_parallelism, rows // ROWS_WORTH_A_RANGE if pipeline.keys else 0)
    return max(1, min(most, ranges if ranges <= slots else ceil(ranges / slots) * slots))


def rows_merged(pipeline: Pipeline, row_count: int) -> int:
    """How many partial aggregates take as much memory as `row_count` received rows: one each where windows
    fire at their end alone; else one, and one more for each window of the element.
    """
    window = pipeline.windows
    if pipeline.effective_trigger.fires_at_last_instant and not isinstance(window, GlobalWindows):
        return row_count
    windows = 1 if window.grid is None else window.grid.most_windows
    return row_count * (1 + windows)


def rows_in(files: Sequence[InputFile]) -> int:
    """How many rows of the files are in the slice, estimated from evenly spread arrivals or file sizes."""
    counts = (
        (file.bytes // _BYTES_PER_ROW_STORED if file.rows is None else file.rows, file.fraction)
        for file in files
    )
    return sum(ceil(rows * fraction) for rows, fraction in counts)


def rows_sent(
    pipeline: Pipeline, sources: Sequence[PinnedSource], files: Sequence[InputFile], engine: Engine
) -> int:
    """At most how many rows of the files reach the ranges; where map tasks aggregate, in partials."""
    if not engine.aggregates_first:
        return rows_in(files)
    if pipeline.distinct_by:  # rows are deduplicated where all rows of their key are, and aggregated there
        return rows_merged(pipeline, rows_in(files))
    partials = (
        most_partials(pipeline, source, [file for file in files if file.source == number], number)
        for number, source in enumerate(sources)
    )
    return rows_merged(pipeline, sum(partials))


def estimate_mb(
    pipeline: Pipeline,
    sources: Sequence[PinnedSource],
    files: Sequence[InputFile],
    rows: int,
    *,
    parked_windows: int,
    engine: Engine,
) -> int:
    """Megabytes of the largest task over `rows` rows of the files and `parked_windows`, with as many tasks as
    this machine has cores. Too little where windows keep more than sums.
    """
    limit_mb = state_memory_mb()
    most = rows_merged(pipeline, rows) if engine.aggregates_first else rows
    merged_rows = min(most, rows_sent(pipeline, sources, files, engine)) + parked_windows
    if pipeline.keys:
        most_rows = most_rows_of_range(pipeline, sources, engine, limit_mb)
        rows_in_range = merged_rows // ranges_for(pipeline, merged_rows, most_rows, os.cpu_count() or 1)
        rows_in_part = (
            rows_in_range // parts_needed(rows_in_range, limit_mb)
            if engine.aggregates_first
            else rows_in_range
        )
    else:
        rows_in_range = rows_in_part = merged_rows
    if not engine.aggregates_first:
        rows_in_part = min(rows_in_part, rows_of_range(limit_mb))  # more of them are in RocksDB
    rows_in_batch = min(rows, rows_at_once(limit_mb))
    megabytes = max(
        (rows_in_range - rows_in_part) * _BYTES_PER_ROW_RECEIVED + rows_in_part * _BYTES_PER_ROW_MERGED,
        rows_in_batch * _BYTES_PER_ROW_READ,
    )
    return IDLE_MB + megabytes // _MB


def most_partials(
    pipeline: Pipeline, source: PinnedSource, files: Sequence[InputFile], number: int = 0
) -> int:
    """At most how many rows map tasks send when they aggregate by key and slice of a window: no more than the
    (key, slice) cells between each file's least and greatest integer keys and event times.
    """
    grid = pipeline.windows.grid
    if grid is None or not pipeline.effective_trigger.fires_at_last_instant:
        return rows_in(files)
    actions = source.actions
    rows = {path: number for number, path in enumerate(actions.column("path").to_pylist())}
    declaration = pipeline.sources[number]
    own_names = {common: name for name, common in declaration.rename.items()}
    total = 0
    for file in files:
        count = rows_in([file])
        times = _span(actions, rows.get(file.path), declaration.event_time)
        keys = [_span(actions, rows.get(file.path), own_names.get(name, name)) for name in pipeline.keys]
        if times is not None and None not in keys:
            cells = grid.slices_in(times // 1000) * prod(span + 1 for span in keys if span is not None)
            count = min(count, ceil(count / ROWS_AT_ONCE) * cells)
        total += count
    return total


def _span(actions: pa.Table, row: int | None, column: str) -> int | None:
    """Greatest minus least value of an integer or time column, times in µs; None: not in the log."""
    names = [f"min.{column}", f"max.{column}"]
    if row is None or not set(names) <= set(actions.column_names):
        return None
    kind = actions.schema.field(names[0]).type
    if pa.types.is_timestamp(kind):
        actions = actions.select(names).cast(
            pa.schema([(name, pa.timestamp("us", tz=kind.tz)) for name in names])
        )
    elif not pa.types.is_integer(kind):
        return None
    least, greatest = (actions.column(name).cast(pa.int64())[row].as_py() for name in names)
    return None if least is None or greatest is None else greatest - least
