"""Accumulators of overlapping spans of rows: by differences of running totals where accumulators add up, else
by combining the rows of each span.

    partials of a key, by slice     s0  s1  s2  s3
    span of each sliding window     [--------)
                                        [--------)
                                            [----)

The families of windows decide which rows make up a span.
"""

from typing import Protocol, runtime_checkable

import pyarrow as pa

from slackwater.engine.aggregates.columnar_aggregate import ColumnarAggregate, Columns
from slackwater.windowing.columnar.arrays.spans import Spans


@runtime_checkable
class AdditiveAggregate(Protocol):
    """An aggregate whose accumulators add up, column by column, unless they are too large for that."""

    def adds_up(self, accumulators: Columns) -> bool: ...


def combine_spans(aggregate: ColumnarAggregate, accumulators: Columns, spans: Spans) -> Columns:
    """The accumulator of all elements in the accumulators of each span."""
    if isinstance(aggregate, AdditiveAggregate) and aggregate.adds_up(accumulators):
        return [pa.array(spans.sum(column.to_numpy())) for column in accumulators]
    rows, owners = spans.explode()
    indices = pa.array(rows)
    return aggregate.combine([column.take(indices) for column in accumulators], owners)
