"""The watermarks that rows of the source carry (`WatermarkStrategy.punctuated`), and the pass over a slice
that finds the rows which may move the watermark.

The pass judges rows exactly as the replay does, so an unusable row carries nothing. Of each batch it keeps,
in the order of processing:

- of every source partition and tick the first row, which wakes an idle partition, and the last one, from
  which idleness counts;
- each row that carries a greater watermark than the rows of its partition before it;
- of every source partition the row with the greatest event time, for `source_progress`.
"""

from collections import namedtuple
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.rows.columns_read import (
    ARRIVAL,
    EVENT,
    columns_judged,
    columns_read,
    watermark_columns,
)
from slackwater.engine.rows.element_order import in_order
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import partition_names
from slackwater.engine.rows.python_values import as_json, to_user_values
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.timeline.source_progress import running_maximum
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import EARLIEST_MS, LATEST_MS

# Columns of the rows that the pass keeps, beside those that the pipeline reads.
PARTITION, WATERMARK = "__partition", "__carried_ms"


class WatermarkFunctionFailed(PermanentError):
    """The function of a punctuated strategy raised on a row, or gave what is no watermark. Facts: row."""


@dataclass(frozen=True)
class WatermarkRows:
    """Map task of the pass: the rows of each batch that may move the watermark, with the columns that the
    pipeline reads, `__arrival_ms`, `__event_ms`, PARTITION and WATERMARK.
    """

    judge: Judge

    def __call__(self, batches: Batches) -> Iterable[tuple[int, pa.Table]]:
        pipeline = self.judge.pipeline
        for batch in batches:
            elements = self.judge.judge_batch(batch, quarantine=False).elements
            if not elements.num_rows:
                continue
            names = columns_read(pipeline, elements.column_names)
            elements = in_order(pipeline, elements.select([*names, ARRIVAL, EVENT]))
            partitions = partition_names(elements, pipeline.roles.source_partition)
            watermarks = carried_watermarks(pipeline, elements)
            clocks = np.maximum(elements.column(ARRIVAL).to_numpy(), self.judge.from_ms)
            places = _places_that_matter(
                partitions.dictionary_encode().combine_chunks().indices.to_numpy(),
                clocks // pipeline.watermarks.interval_ms,
                elements.column(EVENT).to_numpy(),
                watermarks,
            )
            rows = elements.append_column(PARTITION, partitions).append_column(
                WATERMARK, pa.array(watermarks)
            )
            yield 0, rows.take(pa.array(places))


def scan_of_carriers(scan: SliceScan, pipeline: Pipeline) -> SliceScan:
    names = {*columns_read(pipeline, scan.columns), *columns_judged(pipeline, scan.columns)}
    return replace(scan, columns=tuple(name for name in scan.columns if name in names))


def carried_watermarks(pipeline: Pipeline, elements: pa.Table) -> Longs:
    """int64[n]: the watermark that each element carries, in milliseconds; INITIAL_WATERMARK for none.

    Raises:
        WatermarkFunctionFailed: the function raised, or gave something else than None and milliseconds of
            the years 1 to 9999.
    """
    function = pipeline.watermarks.watermark_of
    assert function is not None
    names = watermark_columns(pipeline, elements.column_names)
    element_class: Any = namedtuple("Element", names)  # type: ignore[misc]
    watermarks = np.full(elements.num_rows, INITIAL_WATERMARK)
    values = zip(*(to_user_values(elements.column(name)) for name in names), strict=True)
    timestamps = elements.column(EVENT).to_pylist()
    for place, (element, timestamp) in enumerate(
        zip(map(element_class._make, values), timestamps, strict=True)
    ):
        try:
            watermark = function(element, timestamp)
        except Exception as error:
            raise _failure(pipeline, elements, place, f"raised {type(error).__name__}: {error}") from error
        if watermark is None:
            continue
        is_whole = isinstance(watermark, Integral) and not isinstance(watermark, bool)
        if not is_whole or not EARLIEST_MS <= watermark <= LATEST_MS:
            raise _failure(
                pipeline,
                elements,
                place,
                f"gave {watermark!r}; a watermark is None, or whole milliseconds since 1970, in the years "
                "1 to 9999",
            )
        watermarks[place] = watermark
    return watermarks


def _failure(pipeline: Pipeline, elements: pa.Table, place: int, problem: str) -> WatermarkFunctionFailed:
    names = watermark_columns(pipeline, elements.column_names)
    [row] = as_json(elements.select(names).slice(place, 1))
    name = pipeline.watermarks.describe()["watermark_of"]
    return WatermarkFunctionFailed(
        f"{pipeline.name}: the watermark function {name} {problem}; row {row}. Mend the function: the "
        "watermark follows from every row, so none can be set aside.",
        row=row,
    )


def _places_that_matter(partitions: Longs, ticks: Longs, events: Longs, watermarks: Longs) -> Longs:
    """The positions, ascending, of the rows that the module's text names."""
    by_partition = np.argsort(partitions, kind="stable")
    partitions, ticks = partitions[by_partition].astype(np.int64), ticks[by_partition]
    is_first_of_partition = np.insert(np.diff(partitions) != 0, 0, True)
    is_first = is_first_of_partition | np.insert(np.diff(ticks) != 0, 0, True)
    is_last = np.append(is_first[1:], True)
    greatest = running_maximum(partitions, watermarks[by_partition])
    # Compared, not subtracted: INITIAL_WATERMARK is the least integer of all.
    is_greater = np.insert(greatest[1:] > greatest[:-1], 0, True) | is_first_of_partition
    by_event = np.lexsort((events[by_partition], partitions))
    is_latest_event = np.zeros(len(partitions), np.bool_)
    is_latest_event[by_event[np.append(is_first_of_partition[1:], True)]] = True
    return np.sort(by_partition[is_first | is_last | is_greater | is_latest_event])
