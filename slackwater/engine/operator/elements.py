"""Elements as the window operator takes them: row numbers, which never enter state, where no code of the
pipeline reads an element, else named tuples of the source's columns.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import Accumulator, RowStretch, operands, totals
from slackwater.engine.operator.steps import ElementStep
from slackwater.engine.rows.columns_read import element_columns
from slackwater.engine.rows.python_values import to_user_values
from slackwater.pipelines import Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.windowing.columnar.shared_windows import Steps

_OPERANDS: Final = "operands__"  # last of the fields: what the aggregates of a select read
_AT_ONCE: Final = 1 << 16


def element_class(pipeline: Pipeline, source: pa.Schema) -> type | None:
    """The class of named tuples that elements are; None where row numbers suffice. A column that the source
    has gained since is None in older elements. Raises PipelineError where a column can't be a field.
    """
    names = element_columns(pipeline, source.names)
    if not names and pipeline.evictor is None:
        return None
    operands = (_OPERANDS,) if pipeline.select else ()
    try:
        return namedtuple("Element", (*names, *operands), defaults=(None,) * (len(names) + len(operands)))
    except ValueError as error:
        subject = f"Pipeline {pipeline.name!r}"
        raise PipelineError(
            subject, f"{error}; name the columns that its code reads with columns=[…]"
        ) from error


class OperatorElements:
    """The elements of one key-group range, one by one or step by step.

    Args:
        rows: their columns, in order of arrival.
        steps: the steps in which the operator takes them, if not one by one. Where row numbers suffice, an
            element then is a `RowStretch`.

    Attributes:
        are_stretches: whether an element is a `RowStretch`.
        operands: for each aggregate the sequence of operands, indexed by an element; None where it has none.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        rows: pa.Table,
        element_class: type | None,
        accumulators: Sequence[Accumulator] = (),
        steps: Steps | None = None,
    ) -> None:
        self.rows = rows
        self._class: Any = element_class
        self._order = None if steps is None else steps.order
        self._totals: list[Any] = [None]
        self.are_stretches = steps is not None and element_class is None and bool(pipeline.select)
        if steps is not None and self.are_stretches:
            self._totals = totals(pipeline, rows, accumulators, steps.order, steps.starts)
        are_read = None in self._totals
        self._rows_in_order = rows if steps is None or not are_read else rows.take(pa.array(steps.order))
        self._columns = (
            operands(pipeline, self._rows_in_order)
            if pipeline.select and are_read
            else [None] * len(pipeline.select)
        )
        self.operands: list[Any] = self._columns
        if element_class is not None:
            self.operands = [
                None if column is None else _Operand(number) for number, column in enumerate(self._columns)
            ]

    def of_steps(self, first: int, steps: Sequence[ElementStep]) -> Iterable[Any]:
        """What the operator is given at each step, from step number `first` on."""
        if self.are_stretches:
            chosen = slice(first, first + len(steps))
            rows_of_totals = zip(
                *(repeat(None) if total is None else total[chosen] for total in self._totals), strict=False
            )
            return [
                RowStretch(step.start, step.end, total)
                for step, total in zip(steps, rows_of_totals, strict=False)
            ]
        if self._class is None:
            return [range(step.start, step.end) if step.are_together else step.start for step in steps]
        elements = self._tuples_between(steps[0].start, steps[-1].end)
        return (
            list(islice(elements, step.end - step.start)) if step.are_together else next(elements)
            for step in steps
        )

    def at(self, positions: Sequence[int]) -> pa.Table:
        """The rows of some elements, by their positions in the order in which the operator takes them."""
        places = np.array(positions, np.int64)
        return self.rows.take(pa.array(places if self._order is None else self._order[places]))

    def values(self) -> Iterator[Any]:
        if self._class is None:
            return iter(range(self.rows.num_rows))
        return self._tuples_between(0, self.rows.num_rows)

    def _tuples_between(self, start: int, end: int) -> Iterator[Any]:
        """Made a piece at a time: Python's objects take far more memory than columns."""
        pieces = range(start, end, _AT_ONCE)
        return chain.from_iterable(self._tuples(first, min(_AT_ONCE, end - first)) for first in pieces)

    def _tuples(self, start: int, count: int) -> Iterator[Any]:
        rows = self._rows_in_order.slice(start, count)
        columns: list[Iterable[Any]] = [
            to_user_values(rows.column(name)) for name in self._class._fields if name != _OPERANDS
        ]
        if self._columns:
            nulls = [None] * rows.num_rows
            positions = slice(start, start + rows.num_rows)
            columns.append(
                zip(
                    *(nulls if column is None else column[positions] for column in self._columns), strict=True
                )
            )
        return map(self._class._make, zip(*columns, strict=True))


class _Operand:
    """The operands of one aggregate, indexed by elements: each element carries its own in its last field."""

    def __init__(self, position: int) -> None:
        self._position = position

    def __getitem__(self, element: Any) -> Any:
        return element[-1][self._position]
