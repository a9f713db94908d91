"""One accumulator of some values, and what it parks and results in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import BoundAggregate, Columns, OverflowAtRow, bind
from slackwater.pipelines import Aggregate
from slackwater.windowing.columnar.arrays.groups import Groups
from tests.engine.aggregates.elements import elements_of, rows_of


class Accumulated:
    """The accumulator of `values`, a column x of some type. `+` combines two of one aggregate."""

    def __init__(
        self,
        aggregate: Aggregate,
        column_type: pa.DataType,
        values: Sequence[Any] = (),
        columns: Columns | None = None,
    ) -> None:
        self._arguments = aggregate, column_type
        self.bound: BoundAggregate = bind("result", aggregate, {"x": column_type})
        rows = rows_of(elements_of(values), column_type)
        groups = Groups(np.zeros(len(values), np.int64), 1)
        self.columns = self.bound.partial(rows, groups) if columns is None else columns

    def __add__(self, other: "Accumulated") -> "Accumulated":
        pairs = zip(self.columns, other.columns, strict=True)
        columns = self.bound.combine(
            [pa.concat_arrays(pair) for pair in pairs], Groups(np.zeros(2, np.int64), 1)
        )
        return Accumulated(*self._arguments, columns=columns)

    def restored(self) -> "Accumulated":
        """As it comes back from its parts."""
        return Accumulated(*self._arguments, columns=self.bound.decode(self.bound.encode(self.columns)))

    @property
    def parts(self) -> dict[str, Any]:
        encoded = self.bound.encode(self.columns)
        return {name: part[0].as_py() for (name, _), part in zip(self.bound.parts, encoded, strict=True)}

    @property
    def result(self) -> Any:
        """Raises ResultOverflow."""
        try:
            return self.bound.results(self.columns)[0].as_py()
        except OverflowAtRow as failure:
            raise failure.error from failure
