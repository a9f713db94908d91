"""What a batch of corrections leaves in a target that holds one row per identity: the rows that stand after
it, and the identities that it withdraws.

Corrections of one identity follow each other in a batch; the last one decides.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.pipelines.sinks import SinkContext

_NUMBER = "__number"


class StandingRows(NamedTuple):
    """What a batch leaves.

    Attributes:
        rows: those that stand, with the columns of `columns_of`.
        replaced_identities: the identities that stood before, as far as the corrections say, with the columns
            `SinkContext.identity`: those that are changed and those that are withdrawn.
    """

    rows: pa.Table
    replaced_identities: pa.Table


def columns_of(context: SinkContext) -> tuple[tuple[str, pa.DataType], ...]:
    """The columns of a target's rows: keys, those of the window, what else tells rows apart, results."""
    types = {
        **dict(context.windows),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "firing": pa.int64(),
        "ordinal": pa.int64(),
        "run_id": pa.string(),
    }
    keys = [name for name, _ in context.keys]
    others = [name for name in (*dict(context.windows), *context.identity) if name not in keys]
    return (
        *context.keys,
        *((name, types[name]) for name in dict.fromkeys(others)),
        *context.results,
    )


def standing_rows(changes: pa.Table, context: SinkContext) -> StandingRows:
    """The newest row of each identity in `changes`."""
    results = {name for name, _ in context.results}
    names = [name for name, _ in columns_of(context)]
    new = changes.column("new")
    columns = {
        name: pc.struct_field(new, name) if name in results else changes.column(name) for name in names
    }
    table, op = pa.table(columns), changes.column("op")
    identities = table.select(list(context.identity))
    newest = _newest(identities)
    stands = pc.not_equal(op, "withdraw").take(newest)
    replaced_identities = identities.filter(pc.not_equal(op, "insert"))
    return StandingRows(
        table.take(newest.filter(stands)), replaced_identities.take(_newest(replaced_identities))
    )


def _newest(identities: pa.Table) -> pa.ChunkedArray:
    """The number of the last row of each identity, in ascending order."""
    numbers = pa.array(np.arange(identities.num_rows))
    last = (
        identities.append_column(_NUMBER, numbers)
        .group_by(identities.column_names)
        .aggregate([(_NUMBER, "max")])
    )
    return last.column(f"{_NUMBER}_max").sort()
