"""The values of a column with what ranks their rows, for `first`, `last`, `collect_list` and `string_agg`: by
event time or by arrival. Ties are decided as among elements: by the order column, then by a hash of the row.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.engine.aggregates.extremum import plain_values
from slackwater.engine.aggregates.limb_columns import bytes_of
from slackwater.engine.aggregates.row_ranks import ordinal_keys
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.tables.schemas import TIME
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.snapshot import row_digests

_DIGEST = 32  # bytes


@dataclass(frozen=True)
class RankedRows:
    """Columns of a value, its times, the order column, if `order` (name, type) says that there is one, and
    the hash of the row over `hashed_columns`.
    """

    column: str
    kind: pa.DataType
    by_event_time: bool
    order: tuple[str, pa.DataType] | None
    hashed_columns: tuple[str, ...]

    @property
    def columns(self) -> Parts:
        times = (("event_time", TIME), ("arrival", TIME))[0 if self.by_event_time else 1 :]
        order = () if self.order is None else (("order", self.order[1]),)
        return (("value", self.kind), *times, *order, ("row_hash", pa.binary()))

    def keys_before_hash(self, rows: pa.Table) -> list[Longs]:
        """What ranks rows of the source, but for their hashes."""
        times = [rows.column(name).to_numpy() for name in self._time_columns]
        if self.order is None:
            return times
        return [*times, *ordinal_keys(rows.column(self.order[0]).combine_chunks())]

    def read(self, rows: pa.Table) -> Columns:
        """The `columns` of rows of the source."""
        columns = [rows.column(self.column).combine_chunks()]
        columns += [pa.array(rows.column(name).to_numpy() * 1000).cast(TIME) for name in self._time_columns]
        if self.order is not None:
            columns.append(rows.column(self.order[0]).combine_chunks())
        columns.append(
            pa.array(row_digests(rows.select(self.hashed_columns), self.hashed_columns), pa.binary())
        )
        return [
            plain_values(column).cast(kind) for column, (_, kind) in zip(columns, self.columns, strict=True)
        ]

    def keys_of(self, columns: Columns) -> list[Longs]:
        """What ranks rows of `columns`, but for their hashes; without meaning for a row of nulls."""
        _, *times, _ = columns if self.order is None else (*columns[:-2], columns[-1])
        keys = [time.cast(pa.int64()).fill_null(0).to_numpy() for time in times]
        return keys if self.order is None else [*keys, *ordinal_keys(columns[-2])]

    @property
    def _time_columns(self) -> tuple[str, ...]:
        return (EVENT, ARRIVAL) if self.by_event_time else (ARRIVAL,)


def hash_keys(hashes: pa.Array) -> list[Longs]:
    """Four keys that sort as the hashes do."""
    words = bytes_of(hashes)[0].view(">i8").reshape(-1, _DIGEST // 8).T
    return list(words.astype(np.int64) ^ np.iinfo(np.int64).min)


@runtime_checkable
class AggregateOfRankedRows(Protocol):
    """An aggregate that the order of rows matters to."""

    ranked_rows: RankedRows

    def of_single_rows(self, columns: Columns) -> Columns:
        """The accumulators of one row each, from the columns of `ranked_rows`."""
