"""What the windows of a `select` hold in one range of the operator engine: numbers while it runs, and columns
of accumulators and results when it is over, made for all firings and windows at once.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import (
    ArrowAccumulators,
    BoundAggregate,
    UnknowableAggregate,
    accumulate_operands,
    bind_select,
    combine_elements,
    names_of_parts,
    parked_parts,
    read_accumulators,
    texts_of_unknown,
)
from slackwater.engine.operator.element_chains import ElementChains
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, columns_read
from slackwater.pipelines import Pipeline
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.snapshot import ContentsColumns


class SelectContents(ContentsColumns):
    """The contents of windows, as the operator's `chains` and as the snapshot codec's `ContentsColumns`.

    Args:
        types: of the source's columns.
        rows: the elements of the range. Their positions are their numbers, unless there is an evictor: then
            equal operands have one number.
        unknown_results: results that may be unknown in a parked window.
        added_results: results that the rows to be read lack.
    """

    is_commutative = True

    def __init__(
        self,
        pipeline: Pipeline,
        types: dict[str, pa.DataType],
        rows: pa.Table,
        *,
        unknown_results: frozenset[str],
        added_results: frozenset[str],
    ) -> None:
        self._pipeline, self._types = pipeline, types
        self._rows = rows.select(_columns_of_select(pipeline, rows.column_names))
        no_rows = self._rows.slice(0, 0)
        self._aggregates: dict[str, BoundAggregate] = {
            name: UnknowableAggregate(aggregate, no_rows) if name in unknown_results else aggregate
            for name, aggregate in bind_select(pipeline, types).items()
        }
        self.columns = names_of_parts(self._aggregates)
        self._added_results = added_results
        no_elements = Groups(np.zeros(0, np.int64), 1)
        no_element = (item.partial(no_rows, no_elements) for item in self._aggregates.values())
        self._parked_accumulators = [ArrowAccumulators.of(tuple(self._aggregates.values()), no_element, 1)]
        self._operands = _Operands()
        self.chains = ElementChains(None if pipeline.evictor is None else self._operands.number_of)

    def arrays(self, contents: Sequence[int | None]) -> list[pa.Array]:
        accumulators, places = self._with_places(contents)
        return [part.take(places) for part in parked_parts(accumulators)]

    def texts(self, contents: Sequence[int | None]) -> list[str | None]:
        if not any(isinstance(item, UnknowableAggregate) for item in self._aggregates.values()):
            return [None] * len(contents)
        accumulators, places = self._with_places(contents)
        texts: list[str | None] = texts_of_unknown(accumulators, self._aggregates).take(places).to_pylist()
        return texts

    def values(self, rows: pa.Table) -> list[int]:
        if "contents" not in rows.column_names:
            rows = rows.append_column("contents", pa.nulls(rows.num_rows, pa.string()))
        self._parked_accumulators.append(read_accumulators(rows, self._aggregates, self._added_results))
        return self.chains.restore(np.ones(rows.num_rows, np.int64))

    def results(self, contents: Sequence[int | None]) -> list[pa.Array]:
        """The results of each firing, null for a withdrawal, whose contents are None.

        Raises:
            OverflowAtRow: of the contents that are not None, the one of this row has no result.
        """
        accumulators, places = self._with_places(contents)
        return [results.take(places) for results in accumulators.results()]

    def _with_places(self, contents: Sequence[int | None]) -> tuple[ArrowAccumulators, pa.Array]:
        """(the accumulators of contents that are not None, the row of each; null for None)."""
        is_none = np.array([number is None for number in contents], np.bool_)
        numbers = np.array([number for number in contents if number is not None], np.int64)
        accumulators = combine_elements(
            self.chains.lists(numbers),
            self._parked_accumulators[0].join(self._parked_accumulators[1:]),
            self._accumulate,
        )
        return accumulators, pa.array(np.cumsum(~is_none) - 1, mask=is_none)

    def _accumulate(self, numbers: Longs) -> ArrowAccumulators:
        if self._pipeline.evictor is not None:
            return self._accumulated_operands.take(numbers)
        return ArrowAccumulators.from_rows(tuple(self._aggregates.values()), self._rows, numbers)

    @cached_property
    def _accumulated_operands(self) -> ArrowAccumulators:
        return accumulate_operands(self._pipeline, self._aggregates, self._types, self._operands.rows)


class _Operands:
    """The operands of elements that an evictor has left in a firing. Elements of equal operands, of this
    slice or parked, have one number.
    """

    def __init__(self) -> None:
        self.rows: list[Sequence[Any]] = []
        self._numbers: dict[Any, int] = {}

    def number_of(self, element: Any) -> int:
        operands, number = element[-1], len(self.rows)
        try:
            number = self._numbers.setdefault(operands, number)
        except TypeError:  # a list, say, which is counted
            pass
        if number == len(self.rows):
            self.rows.append(operands)
        return number


def _columns_of_select(pipeline: Pipeline, names: Sequence[str]) -> list[str]:
    """The columns that the aggregates read: `first` and `last` also those that rank and hash a row."""
    read_names = {ARRIVAL, EVENT, *(name for item in pipeline.select.values() for name in item.columns)}
    if any(item.by is not None for item in pipeline.select.values()):
        read_names.update(columns_read(pipeline, names))
    return [name for name in names if name in read_names]
