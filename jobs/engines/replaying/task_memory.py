"""The sizes that fit the memory of one task: rows read at once, the number of key-group ranges of a slice,
and the parts in which a range that received too many rows is merged.

Estimates, from measured bytes a row and the statistics of the source's log. No result depends on them.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, prod

import pyarrow as pa

from slackwater.jobs.engines.replaying.replay import Engine
from slackwater.jobs.engines.replaying.spilling import state_memory_mb
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.row_groups import ROWS_AT_ONCE
from slackwater.jobs.pipelines import Pipeline
from slackwater.windowing import GlobalWindows
from slackwater.windowing.key_groups import KeyGroupRange

_MB = 1 << 20
# Measured: an idle Python worker, and on top of it rows of three columns, and windows of two sums.
_IDLE_MB = 230
_BYTES_PER_ROW_READ = 256
_BYTES_PER_ROW_MERGED = 400
# A row that waits to be merged: 14 to 20 bytes with integer keys, 45 with texts of 13 bytes.
_BYTES_PER_ROW_RECEIVED = 40
_ROWS_MERGED_AT_ONCE = 1 << 20  # merging more at once is no faster, and takes memory new to the process
_ROWS_WORTH_A_TASK = 200_000
_BYTES_PER_ROW_STORED = 16  # in a file whose rows the log does not count


def rows_at_once(limit_mb: int) -> int:
    """How many rows of the source a map task of `limit_mb` megabytes reads together."""
    return max(1, min(ROWS_AT_ONCE, limit_mb * _MB // _BYTES_PER_ROW_READ))


def rows_of_range(limit_mb: int) -> int:
    """How many rows a range task of `limit_mb` megabytes merges at once, received and parked ones
    together."""
    return max(1, limit_mb * _MB // _BYTES_PER_ROW_MERGED)


def parts_needed(rows: int, limit_mb: int) -> int:
    """In how many parts a range merges so many rows: one where they are few, else a power of two, so that the
    files that one run writes part by part are never cut by the parts of the next run."""
    parts = max(1, ceil(rows / min(_ROWS_MERGED_AT_ONCE, rows_of_range(limit_mb))))
    return 1 << (parts - 1).bit_length()


def parts_of(key_groups: KeyGroupRange, rows: int, limit_mb: int) -> list[KeyGroupRange]:
    """The parts in which a range of so many rows is merged, one after the other."""
    count = min(len(key_groups), parts_needed(rows, limit_mb))
    bounds = [key_groups.first + len(key_groups) * number // count for number in range(count + 1)]
    return [KeyGroupRange(first, end - 1) for first, end in pairwise(bounds)]


def ranges_for(rows: int, limit_mb: int, slots: int, most: int) -> int:
    """Into how many ranges so many rows, received and parked ones, are divided: so that each range fits a
    task, and `slots` tasks at a time have equally much to do. One for few rows, and never above `most`."""
    ranges = max(min(slots, rows // _ROWS_WORTH_A_TASK), ceil(rows / rows_of_range(limit_mb)))
    return max(1, min(most, ranges if ranges <= slots else ceil(ranges / slots) * slots))


def rows_merged(pipeline: Pipeline, row_count: int) -> int:
    """How many partial aggregates take as much memory as `row_count` rows that a range of the columnar engine
    has received. Where windows fire at their end alone, each row is one partial. Where the trigger sees
    elements one by one, each row is an element: it takes as much as one partial, and as much again for each
    of its windows."""
    window = pipeline.windows
    if pipeline.effective_trigger.fires_at_last_instant and not isinstance(window, GlobalWindows):
        return row_count
    windows = 1 if window.grid is None else window.grid.most_windows
    return row_count * (1 + windows)


def rows_in(files: Sequence[InputFile]) -> int:
    """How many rows of the files are in the slice, if arrivals are spread evenly; estimated from the file
    size where the log does not count rows.
    """
    counts = (
        (file.bytes // _BYTES_PER_ROW_STORED if file.rows is None else file.rows, file.fraction)
        for file in files
    )
    return sum(ceil(rows * fraction) for rows, fraction in counts)


def rows_sent(
    pipeline: Pipeline, sources: Sequence[PinnedSource], files: Sequence[InputFile], engine: Engine
) -> int:
    """At most how many rows of the files of all sources reach the ranges; for an engine that aggregates
    first, counted in partials, see `rows_merged`.
    """
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
    """Megabytes that the largest task over `rows` rows of the files takes, on a snapshot of `parked_windows`,
    with as many tasks at a time as this machine has cores. Too little where windows keep more than sums, or
    each of their elements."""
    limit_mb = state_memory_mb()
    most = rows_merged(pipeline, rows) if engine.aggregates_first else rows
    merged_rows = min(most, rows_sent(pipeline, sources, files, engine)) + parked_windows
    of_range = min(
        merged_rows // ranges_for(merged_rows, limit_mb, os.cpu_count() or 1, pipeline.max_parallelism),
        rows_of_range(limit_mb),
    )
    of_part = of_range // parts_needed(of_range, limit_mb) if engine.aggregates_first else of_range
    of_batch = min(rows, rows_at_once(limit_mb))
    megabytes = max(
        (of_range - of_part) * _BYTES_PER_ROW_RECEIVED + of_part * _BYTES_PER_ROW_MERGED,
        of_batch * _BYTES_PER_ROW_READ,
    )
    return _IDLE_MB + megabytes // _MB


def most_partials(
    pipeline: Pipeline, source: PinnedSource, files: Sequence[InputFile], number: int = 0
) -> int:
    """At most how many rows map tasks send when they aggregate the files by key and slice of a window: as
    many as the files have or, for each batch, as many (key, slice) cells as lie between its file's least and
    greatest integer keys and event times. A trigger that sees elements one by one gets every row."""
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
    """The distance between the least and the greatest value of an integer or time column, times in
    microseconds; None where the log doesn't have them.
    """
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
