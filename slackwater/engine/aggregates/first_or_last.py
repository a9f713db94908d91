"""`first` and `last`: the value of the row that is first or last by event time or by arrival. Ties are
decided as among elements: by the order column, then by a hash of the row.

Whole columns are compared, the most significant first, and the best rows of each group are kept. Only these
are hashed: usually one row in each group, more where times and order column are equal.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.engine.aggregates.extremum import as_ordinals
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.tables.schemas import TIME
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    least_of_groups,
    run_numbers,
    run_starts,
)
from slackwater.windowing.snapshot import row_digests

_DIGEST = 32  # bytes


class FirstOrLast:
    """The value of the row with the least or greatest rank. Accumulator: the parked parts; all of them null
    where there is no row. `order` is (name, type) of the order column, if there is one.
    """

    def __init__(
        self,
        column: str,
        kind: pa.DataType,
        *,
        is_last: bool,
        by_event_time: bool,
        order: tuple[str, pa.DataType] | None,
        hashed_columns: tuple[str, ...],
    ) -> None:
        self._column = column
        self._is_last = is_last
        self._time_columns = (EVENT, ARRIVAL) if by_event_time else (ARRIVAL,)
        self._order_by = None if order is None else order[0]
        self._hashed_columns = hashed_columns
        times = (("event_time", TIME), ("arrival", TIME))[-len(self._time_columns) :]
        order_part = () if order is None else (("order", order[1]),)
        self.columns: Parts = (("value", kind), *times, *order_part, ("row_hash", pa.binary()))
        self.parts = self.columns
        self.result_type = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        valid_rows = np.flatnonzero(np.asarray(rows.column(self._column).is_valid()))
        keys = [rows.column(name).to_numpy() for name in self._time_columns]
        # Only the best rows of each group by times and order column remain; if these are several, `combine`
        # decides by their hashes.
        best_rows = self._best([*keys, *self._order_keys(self._order_column(rows))], valid_rows, groups)
        return self.combine(
            self._parts_of(rows.take(pa.array(best_rows))), Groups(groups.codes[best_rows], groups.size)
        )

    def _order_column(self, rows: pa.Table) -> pa.Array | None:
        return None if self._order_by is None else rows.column(self._order_by).combine_chunks()

    def _order_keys(self, order: pa.Array | None) -> list[Longs]:
        if order is None:
            return []
        numbers, is_valid, _ = as_ordinals(order)
        return [is_valid.astype(np.int64), np.where(is_valid, numbers, 0)]

    def _parts_of(self, rows: pa.Table) -> Columns:
        columns = {
            name: rows.column(name).combine_chunks()
            for name in (self._column, self._order_by)
            if name is not None
        }
        parts = {
            "value": columns[self._column],
            "event_time": _time(rows, EVENT),
            "arrival": _time(rows, ARRIVAL),
            "order": columns.get(self._order_by or ""),
            "row_hash": pa.array(
                row_digests(rows.select(self._hashed_columns), self._hashed_columns),
                pa.binary(),
            ),
        }
        return [_plain(parts[name]).cast(kind) for name, kind in self.columns]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        valid_rows = np.flatnonzero(np.asarray(accumulators[-1].is_valid()))
        columns = self._columns_by_name(accumulators)
        times = [_moments(columns[name]) for name in ("event_time", "arrival") if name in columns]
        best_rows = self._best([*times, *self._order_keys(columns.get("order"))], valid_rows, groups)
        if int(np.bincount(groups.codes[best_rows], minlength=1).max()) > 1:
            words = _words(columns["row_hash"].take(pa.array(best_rows)))
            best_rows = best_rows[
                self._best([*words], np.arange(len(best_rows)), Groups(groups.codes[best_rows], groups.size))
            ]
        winners = np.full(groups.size, -1, np.int64)
        winners[groups.codes[best_rows]] = best_rows
        return _take(accumulators, winners)

    def _best(self, keys: Sequence[Longs], rows: Longs, groups: Groups) -> Longs:
        """The first or last of `rows` in each group by `keys`, most significant first; equal rows stay."""
        best_of = greatest_of_groups if self._is_last else least_of_groups
        for key in keys:
            values, codes = key[rows], groups.codes[rows]
            rows = rows[values == best_of(values, Groups(codes, groups.size))[codes]]
        return rows

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows = len(accumulators[0])
        valid_rows = np.flatnonzero(np.asarray(accumulators[-1].is_valid()))
        places = self._places_of(accumulators, valid_rows)
        count = len(valid_rows) + 1
        ranks = np.zeros(rows, np.int64)  # 0: no row yet
        ranks[valid_rows] = places + 1 if self._is_last else count - 1 - places
        floors = run_numbers(starts, rows) * count
        best = np.maximum.accumulate(ranks + floors) - floors if rows else ranks
        row_of = np.full(count, -1, np.int64)
        row_of[ranks[valid_rows]] = valid_rows
        return _take(accumulators, row_of[best])

    def _places_of(self, accumulators: Columns, valid_rows: Longs) -> Longs:
        """The place of each accumulator with a row, in the order of all keys; equal rows share one."""
        columns = self._columns_by_name(_take(accumulators, valid_rows))
        times = [_moments(columns[name]) for name in ("event_time", "arrival") if name in columns]
        return _places([*times, *self._order_keys(columns.get("order")), *_words(columns["row_hash"])])

    def _columns_by_name(self, accumulators: Columns) -> dict[str, pa.Array]:
        return dict(zip((name for name, _ in self.columns), accumulators, strict=True))

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)


def _places(keys: Sequence[np.ndarray]) -> Longs:
    """Each row's place by `keys`, the first being the most significant; equal rows have one place."""
    order = np.lexsort(tuple(reversed(keys)))
    starts = run_starts(*(key[order] for key in keys))
    places = np.empty(len(order), np.int64)
    places[order] = run_numbers(starts, len(order))
    return places


def _moments(column: pa.Array) -> Longs:
    """Times as integers; 0 for null."""
    moments: Longs = column.cast(pa.int64()).fill_null(0).to_numpy()
    return moments


def _words(digests: pa.Array) -> Longs:
    """The digests as int64[4, n] that sort alike, the first word being the most significant."""
    words = np.frombuffer(b"".join(digests.to_pylist()), ">i8").reshape(-1, _DIGEST // 8).T
    return words.astype(np.int64) ^ np.iinfo(np.int64).min


def _time(rows: pa.Table, name: str) -> pa.Array:
    return pa.array(rows.column(name).to_numpy() * 1000).cast(TIME)


def _take(accumulators: Columns, rows: Longs) -> Columns:
    indices = pa.array(rows, mask=rows < 0)
    return [column.take(indices) for column in accumulators]


def _plain(values: pa.Array) -> pa.Array:
    """Floats as they are kept: one NaN, one zero."""
    if not pa.types.is_floating(values.type):
        return values
    numbers, is_valid, values_of = as_ordinals(values)
    plain: pa.Array = values_of(numbers, is_valid)
    return plain
