"""A function of the user's beside other aggregates: their AggregateFunction over the values of a column."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, OverflowAtRow, Parts
from slackwater.engine.rows.python_values import to_user_values
from slackwater.windowing import AggregateFunction
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.snapshot import JsonValues
from slackwater.windowing.snapshot.sql_types import arrow_type, to_column

_NOTHING: Final = object()
_JSON: Final = JsonValues()


class OwnFunction:
    """Accumulator: a single value as it is, else the user's accumulator as JSON text; both null for no
    values. Parked is the text alone. Like every aggregate it must not depend on the order of values, nor on
    which of them were merged first.
    """

    def __init__(self, column: str, kind: pa.DataType, function: AggregateFunction, returns: str) -> None:
        self.columns: Parts = (("accumulator", pa.string()), ("value", kind))
        self.parts: Parts = self.columns[:1]
        self.result_type = arrow_type(returns)
        self._column = column
        self._kind = kind
        self._function = function

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        values = rows.column(self._column).combine_chunks().cast(self._kind)
        singles = [pa.nulls(len(values), pa.string()), values]
        if groups.size == len(values) and np.array_equal(groups.codes, np.arange(groups.size)):
            return singles
        return self.combine(singles, groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        folded_accumulators: list[Any] = [_NOTHING] * groups.size
        parts = zip(groups.codes.tolist(), *self._read(accumulators), strict=True)
        for code, text, value in parts:
            folded_accumulators[code] = self._add(folded_accumulators[code], text, value)
        return self._columns_of(folded_accumulators)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        is_start = np.zeros(len(accumulators[0]), np.bool_)
        is_start[starts] = True
        texts, accumulator = [], _NOTHING
        for begins, text, value in zip(is_start.tolist(), *self._read(accumulators), strict=True):
            accumulator = self._add(_NOTHING if begins else accumulator, text, value)
            texts.append(_text(accumulator))
            # What `add` has changed in place must not change what was shown before.
            accumulator = _NOTHING if texts[-1] is None else _JSON.loads(texts[-1])
        return [pa.array(texts, pa.string()), pa.nulls(len(texts), self._kind)]

    def results(self, accumulators: Columns) -> pa.Array:
        results: list[Any] = []
        for row, (text, value) in enumerate(zip(*self._read(accumulators), strict=True)):
            accumulator = self._add(_NOTHING, text, value)
            try:
                result = None if accumulator is _NOTHING else self._function.get_result(accumulator)
                to_column([result], self.result_type, "result")
            except Exception as error:
                raise OverflowAtRow(row, error) from error
            results.append(result)
        return pa.array(results, self.result_type)

    def encode(self, accumulators: Columns) -> Columns:
        return self.combine(accumulators, Groups.singletons(len(accumulators[0])))[:1]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0], pa.nulls(len(parts[0]), self._kind)]

    def _read(self, accumulators: Columns) -> tuple[Iterable[str | None], Iterable[Any]]:
        texts, values = accumulators
        return texts.to_pylist(), to_user_values(pa.chunked_array([values]))

    def _add(self, accumulator: Any, text: str | None, value: Any) -> Any:
        """An accumulator with that of a text, or with a value; _NOTHING with neither."""
        function = self._function
        try:
            if value is not None:
                return function.add(
                    value, function.create_accumulator() if accumulator is _NOTHING else accumulator
                )
            if text is None:
                return accumulator
            other = _JSON.loads(text)
            return other if accumulator is _NOTHING else function.merge(accumulator, other)
        except Exception as error:
            raise UserCodeError.of(error, "aggregating values", None, None, None) from error

    def _columns_of(self, accumulators: Sequence[Any]) -> Columns:
        texts = pa.array(map(_text, accumulators), pa.string())
        return [texts, pa.nulls(len(accumulators), self._kind)]


def _text(accumulator: Any) -> str | None:
    return None if accumulator is _NOTHING else _JSON.dumps(accumulator)
