"""The accumulators of what windows hold: of parked ones, and of those that a kernel says are made up of which
rows.

Which rows, is the kernels' business; how accumulators combine, the aggregates'.
"""

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.families import Setting, take_each
from slackwater.jobs.engines.columnar.tables import parked_accumulators
from slackwater.windowing.columnar.contents import Contents


def restored_accumulators(rows: pa.Table, setting: Setting) -> list[Columns]:
    """The accumulators of each aggregate, a row for each parked window; null for one that holds nothing."""
    has_contents = np.asarray(rows.column("contents").is_null())
    accumulators = parked_accumulators(rows.filter(pa.array(has_contents)), setting)
    if has_contents.all():
        return accumulators
    indices = pa.array(np.maximum(np.cumsum(has_contents) - 1, 0), mask=~has_contents)
    return [[column.take(indices) for column in columns] for columns in accumulators]


def combined(setting: Setting, contents: Contents, accumulators: list[Columns]) -> list[Columns]:
    """The accumulators of every contents, from those of the rows that make them up."""
    held = []
    grouped, running = take_each(accumulators, contents.rows), take_each(accumulators, contents.running_rows)
    for aggregate, whole, path in zip(setting.aggregates, grouped, running, strict=True):
        totals = [
            column.take(pa.array(contents.picks))
            for column in aggregate.running(path, contents.running_starts)
        ]
        held.append(
            [
                pa.concat_arrays(pair)
                for pair in zip(aggregate.combine(whole, contents.groups), totals, strict=True)
            ]
        )
    return held
