"""Rows of `panes` from what a KeyedProcessFunction has emitted. They have no window: their bounds are null,
as those of the global one.

Each is a firing of its own, told apart by timestamp, run and ordinal; what made it, a process log has noted.
"""

from collections.abc import Sequence

import pyarrow as pa

from slackwater.jobs.engines.operator.emitted_rows import EmittedColumns
from slackwater.jobs.engines.operator.fired_rows import owners_of, watermarks
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.tables.schemas import Shape
from slackwater.windowing.runtime.process_log import ProcessRow
from slackwater.windowing.snapshot import times

KIND, FIRING = "count", 1


def process_rows(rows: Sequence[ProcessRow], keys: Keys, shape: Shape, output: EmittedColumns) -> pa.Table:
    """One row for each that the function has emitted."""
    results = output.arrays([row.value for row in rows], [(row.key, None) for row in rows])
    return pa.table(
        {
            **owners_of(rows, keys),
            "firing": pa.array([FIRING] * len(rows), pa.int64()),
            "ordinal": pa.array([row.ordinal for row in rows], pa.int64()),
            "timestamp": times([row.timestamp for row in rows], "timestamp"),
            "kind": pa.array([KIND] * len(rows), pa.string()),
            **dict(zip(shape.result_names, results, strict=True)),
            "watermark": watermarks(row.watermark for row in rows),
            "tick_end": times([row.tick_end for row in rows], "tick_end"),
            "cause_arrival": times([row.cause_arrival for row in rows], "cause_arrival"),
        }
    )
