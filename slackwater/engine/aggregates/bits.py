"""`bit_and`, `bit_or` and `bit_xor` of integer columns."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, run_numbers

# Kind → (operation, the integer that changes nothing).
_OPERATIONS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
}


class BitFold:
    """Accumulator: the integer that the values of a group are folded into, null for no values."""

    def __init__(self, column: str, kind: str, column_type: pa.DataType) -> None:
        self.columns: Parts = ((kind.removeprefix("bit_"), column_type),)
        self.parts: Parts = self.columns
        self.result_type = column_type
        self._column = column
        self._operation, self._neutral = _OPERATIONS[kind]

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return self.combine([rows.column(self._column).combine_chunks()], groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        integers, is_valid = self._integers(accumulators)
        folded_integers = np.full(groups.size, self._neutral, np.int64)
        self._operation.at(folded_integers, groups.codes, integers)
        has_value = np.zeros(groups.size, np.bool_)
        has_value[groups.codes[is_valid]] = True
        return self._column_of(folded_integers, has_value)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        integers, is_valid = self._integers(accumulators)
        places = np.arange(len(integers)) - starts[run_numbers(starts, len(integers))]
        has_value = is_valid.copy()
        step = 1
        while step <= places.max(initial=0):  # each row is folded with the `step` rows before it
            rows = np.flatnonzero(places >= step)
            integers[rows] = self._operation(integers[rows], integers[rows - step])
            has_value[rows] |= has_value[rows - step]
            step *= 2
        return self._column_of(integers, has_value)

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)

    def _integers(self, accumulators: Columns) -> tuple[Longs, Booleans]:
        """(the integers, the neutral one for null; whether each is not null), both free to be changed."""
        integers = accumulators[0].cast(pa.int64()).fill_null(self._neutral).to_numpy().copy()
        return integers, np.array(accumulators[0].is_valid())

    def _column_of(self, integers: Longs, has_value: Booleans) -> Columns:
        return [pa.array(integers, mask=~has_value).cast(self.result_type)]
