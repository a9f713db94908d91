"""What fits one task: rows read at once, the key-group ranges that a slice is divided into, and the parts of
a range that has got too much.

Estimates from measured bytes a row and from the source's log; nothing here is read twice, and nothing that
comes out depends on it.
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
_BYTES_PER_ROW_RECEIVED = (
    40  # of one that waits to be merged: 14 to 20 with keys that are integers, 45 with texts of 13 bytes
)
_ROWS_MERGED_AT_ONCE = 1 << 20  # more of them take no less time, and memory that is new to the process
_ROWS_WORTH_A_TASK = 200_000
_BYTES_PER_ROW_STORED = 16  # of a file whose log does not count its rows


def rows_at_once(limit_mb: int) -> int:
    """How many rows of the source a map task of `limit_mb` megabytes reads together."""
    return max(1, min(ROWS_AT_ONCE, limit_mb * _MB // _BYTES_PER_ROW_READ))


def rows_of_range(limit_mb: int) -> int:
    """How many rows, received and parked ones together, a range task of `limit_mb` megabytes merges at
    once.
    """
    return max(1, limit_mb * _MB // _BYTES_PER_ROW_MERGED)


def parts_needed(rows: int, limit_mb: int) -> int:
    """Of so many rows of a range, in how many parts they are merged: one where they are few, else a power of
    two, so that files which one run leaves part by part are not divided by those of the next."""
    parts = max(1, ceil(rows / min(_ROWS_MERGED_AT_ONCE, rows_of_range(limit_mb))))
    return 1 << (parts - 1).bit_length()


def parts_of(owned: KeyGroupRange, rows: int, limit_mb: int) -> list[KeyGroupRange]:
    """The parts in which a range of so many rows is merged, one after the other."""
    count = min(len(owned), parts_needed(rows, limit_mb))
    bounds = [owned.first + len(owned) * number // count for number in range(count + 1)]
    return [KeyGroupRange(first, end - 1) for first, end in pairwise(bounds)]


def ranges_for(rows: int, limit_mb: int, slots: int, most: int) -> int:
    """Of rows, received and parked ones, so many ranges that each fits a task and that `slots` tasks at a
    time have equally much to do; one for few rows, and never above `most`."""
    ranges = max(min(slots, rows // _ROWS_WORTH_A_TASK), ceil(rows / rows_of_range(limit_mb)))
    return max(1, min(most, ranges if ranges <= slots else ceil(ranges / slots) * slots))


def rows_merged(pipeline: Pipeline, sent: int) -> int:
    """How many partials take the memory of so many rows that a range of the columnar engine has been sent.
    Where the trigger sees elements one by one, these are elements: each takes as much, and as much again for
    each of its windows."""
    window = pipeline.windows
    if pipeline.effective_trigger.fires_at_last_instant and not isinstance(window, GlobalWindows):
        return sent
    windows = 1 if window.grid is None else ceil(window.grid.size_ms / window.grid.slide_ms)
    return sent * (1 + windows)


def rows_in(files: Sequence[InputFile]) -> int:
    """Rows of the files that are of the slice if arrivals are spread evenly; estimated from the size where
    the log does not count them.
    """
    counts = (
        (file.bytes // _BYTES_PER_ROW_STORED if file.rows is None else file.rows, file.fraction)
        for file in files
    )
    return sum(ceil(rows * fraction) for rows, fraction in counts)


def rows_sent(pipeline: Pipeline, source: PinnedSource, files: Sequence[InputFile], engine: Engine) -> int:
    """At most how many rows of the files reach the ranges; of an engine that aggregates first, counted as
    partials, see `rows_merged`.
    """
    return (
        rows_merged(pipeline, most_partials(pipeline, source, files))
        if engine.aggregates_first
        else rows_in(files)
    )


def estimate_mb(
    pipeline: Pipeline,
    source: PinnedSource,
    files: Sequence[InputFile],
    rows: int,
    parked: int,
    engine: Engine,
) -> int:
    """Megabytes of the largest task over `rows` of the files, on a snapshot of `parked` windows, with as many
    tasks at a time as this machine has cores; too little where windows keep more than sums, or rows one by
    one."""
    limit_mb = state_memory_mb()
    most = rows_merged(pipeline, rows) if engine.aggregates_first else rows
    merged = min(most, rows_sent(pipeline, source, files, engine)) + parked
    of_range = min(
        merged // ranges_for(merged, limit_mb, os.cpu_count() or 1, pipeline.max_parallelism),
        rows_of_range(limit_mb),
    )
    of_part = of_range // parts_needed(of_range, limit_mb) if engine.aggregates_first else of_range
    of_batch = min(rows, rows_at_once(limit_mb))
    megabytes = max(
        (of_range - of_part) * _BYTES_PER_ROW_RECEIVED + of_part * _BYTES_PER_ROW_MERGED,
        of_batch * _BYTES_PER_ROW_READ,
    )
    return _IDLE_MB + megabytes // _MB


def most_partials(pipeline: Pipeline, source: PinnedSource, files: Sequence[InputFile]) -> int:
    """At most how many rows map tasks send of the files when they aggregate them by key and slice of a
    window: all that there are, or, of each batch, no more than its file's least and greatest integer keys and
    event times leave room for. Triggers that see elements one by one get them all."""
    grid = pipeline.windows.grid
    if grid is None or not pipeline.effective_trigger.fires_at_last_instant:
        return rows_in(files)
    slices_per_slide = 1 if grid.size_ms % grid.slide_ms == 0 else 2
    actions = source.actions
    rows = {path: number for number, path in enumerate(actions.column("path").to_pylist())}
    total = 0
    for file in files:
        count = rows_in([file])
        times = _span(actions, rows.get(file.path), pipeline.source.event_time)
        keys = [_span(actions, rows.get(file.path), name) for name in pipeline.keys]
        if times is not None and None not in keys:
            slices = (times // (grid.slide_ms * 1000) + 2) * slices_per_slide
            cells = slices * prod(span + 1 for span in keys if span is not None)
            count = min(count, ceil(count / ROWS_AT_ONCE) * cells)
        total += count
    return total


def _span(actions: pa.Table, row: int | None, column: str) -> int | None:
    """How far the greatest value of an integer or time column is from the least, times in microseconds; None
    where the log doesn't say.
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
