"""A function of the user's beside other aggregates: their AggregateFunction over the values of a column."""

from collections.abc import Callable, Iterable, Sequence
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
    """Accumulator: the user's, as JSON text; null for no values. Like every aggregate it must not depend on
    the order of values, nor on which of them were merged first.
    """

    def __init__(self, column: str, function: AggregateFunction, returns: str) -> None:
        self.columns: Parts = (("accumulator", pa.string()),)
        self.parts: Parts = self.columns
        self.result_type = arrow_type(returns)
        self._column = column
        self._function = function

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        values = to_user_values(rows.column(self._column))
        create, add = self._function.create_accumulator, self._function.add

        def add_to(accumulator: Any, value: Any) -> Any:
            return add(value, create() if accumulator is _NOTHING else accumulator)

        return self._fold(zip(groups.codes.tolist(), values, strict=True), groups.size, add_to)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return self._fold(self._read(accumulators, groups.codes), groups.size, self._merge)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        is_start = np.zeros(len(accumulators[0]), np.bool_)
        is_start[starts] = True
        texts: list[str | None] = []
        for place, text in enumerate(accumulators[0].to_pylist()):
            before = None if is_start[place] else texts[-1]
            parts = [(0, _JSON.loads(one)) for one in (before, text) if one is not None]
            texts.append(
                self._fold(parts, 1, self._merge)[0][0].as_py() if len(parts) > 1 else text or before
            )
        return [pa.array(texts, pa.string())]

    def results(self, accumulators: Columns) -> pa.Array:
        results: list[Any] = []
        for row, text in enumerate(accumulators[0].to_pylist()):
            try:
                value = None if text is None else self._function.get_result(_JSON.loads(text))
                to_column([value], self.result_type, "result")
            except Exception as error:
                raise OverflowAtRow(row, error) from error
            results.append(value)
        return pa.array(results, self.result_type)

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]

    def _merge(self, accumulator: Any, other: Any) -> Any:
        return other if accumulator is _NOTHING else self._function.merge(accumulator, other)

    def _read(self, accumulators: Columns, codes: Longs) -> Iterable[tuple[int, Any]]:
        for code, text in zip(codes.tolist(), accumulators[0].to_pylist(), strict=True):
            yield code, None if text is None else _JSON.loads(text)

    def _fold(self, items: Iterable[tuple[int, Any]], size: int, fold: Callable[[Any, Any], Any]) -> Columns:
        """The text of what the items of each group, which are not None, are folded into."""
        accumulators: list[Any] = [_NOTHING] * size
        for code, item in items:
            if item is not None:
                try:
                    accumulators[code] = fold(accumulators[code], item)
                except Exception as error:
                    raise UserCodeError.of(error, "aggregating values", None, None, None) from error
        texts = [None if item is _NOTHING else _JSON.dumps(item) for item in accumulators]
        return [pa.array(texts, pa.string())]
