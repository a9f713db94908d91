"""Results that were added to a pipeline while windows were open: of such a window the elements of before are
not in the accumulator, so it is unknown, and whatever is merged into it makes it no better.

    pipeline      select n      select n, most
    window        e1  e2        e3             fires: n = 3, most = null
    a later one                 e4  e5         fires: n = 2, most = that of e4 and e5

An aggregate is wrapped only where a parked window has an unknown accumulator. Which of its accumulators are
unknown stands in the column `contents` of `window_state`; their typed columns are null.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import BoundAggregate, Columns, OverflowAtRow
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, run_numbers

_KEY: Final = "unknown"


def text_of_unknown(results: Iterable[str]) -> str | None:
    """The names of results with unknown accumulators, as in the column `contents`; None for none."""
    names = sorted(results)
    return json.dumps({_KEY: names}) if names else None


def unknown_in(text: str | None) -> frozenset[str]:
    return frozenset() if text is None else frozenset(json.loads(text)[_KEY])


class UnknowableAggregate:
    """An aggregate on whole columns that may be unknown in some rows: one more column says where, and the
    others have no meaning there. `no_rows` are elements without a row.
    """

    def __init__(self, aggregate: BoundAggregate, no_rows: pa.Table) -> None:
        self._aggregate = aggregate
        self._no_elements = aggregate.partial(no_rows, Groups(np.zeros(0, np.int64), 1))
        self.columns = (*aggregate.columns, (_KEY, pa.bool_()))
        self.parts = aggregate.parts
        self.result_type = aggregate.result_type

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return [*self._aggregate.partial(rows, groups), none_unknown(groups.size)]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        is_unknown = np.zeros(groups.size, np.bool_)
        is_unknown[groups.codes[self.are_unknown(accumulators)]] = True
        return [*self._aggregate.combine(accumulators[:-1], groups), pa.array(is_unknown)]

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        totals = np.cumsum(self.are_unknown(accumulators))
        before = np.append(0, totals)[starts][run_numbers(starts, len(totals))] if len(totals) else totals
        return [*self._aggregate.running(accumulators[:-1], starts), pa.array(totals > before)]

    def results(self, accumulators: Columns) -> pa.Array:
        is_unknown = self.are_unknown(accumulators)
        positions = np.flatnonzero(~is_unknown)
        try:
            known_results = self._aggregate.results(
                [column.take(pa.array(positions)) for column in accumulators[:-1]]
            )
        except OverflowAtRow as failure:
            raise OverflowAtRow(int(positions[failure.row]), failure.error) from failure.error
        return known_results.take(pa.array(np.maximum(np.cumsum(~is_unknown) - 1, 0), mask=is_unknown))

    def encode(self, accumulators: Columns) -> Columns:
        is_unknown = pa.array(self.are_unknown(accumulators))
        parts = self._aggregate.encode(accumulators[:-1])
        return [pc.if_else(is_unknown, pa.scalar(None, part.type), part) for part in parts]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return self.decode_unless(np.zeros(len(parts[0]), np.bool_), parts)

    def decode_unless(self, is_unknown: Booleans, parts: Sequence[pa.Array]) -> Columns:
        """The inverse of `encode`, where some rows are unknown: their `parts` are not read."""
        positions = pa.array(np.flatnonzero(~is_unknown))
        known_columns = self._aggregate.decode([part.take(positions) for part in parts])
        places = np.where(is_unknown, len(positions), np.cumsum(~is_unknown) - 1)
        columns = (
            pa.concat_arrays([column, blank.cast(column.type)]).take(pa.array(places))
            for column, blank in zip(known_columns, self._no_elements, strict=True)
        )
        return [*columns, pa.array(is_unknown)]

    @staticmethod
    def are_unknown(accumulators: Columns) -> Booleans:
        return accumulators[-1].to_numpy(zero_copy_only=False).astype(np.bool_)


def none_unknown(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.bool_))
