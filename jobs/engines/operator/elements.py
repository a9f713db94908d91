"""Elements as the window operator takes them: row numbers where nothing looks at them, else named tuples of
the source's columns.

A row number, or a stretch of them, is of one slice and never enters state; a named tuple may. Knows no
window.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.aggregates import Accumulator, RowStretch, operands, totals
from slackwater.jobs.engines.rows.columns_read import element_columns
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.errors import PipelineError
from slackwater.windowing.columnar.shared_windows import Steps

_OPERANDS: Final = "operands__"  # last of the fields: what the aggregates of a select read
_AT_ONCE: Final = 1 << 16
_TIME = pa.timestamp("us", tz="UTC")


def element_class(pipeline: Pipeline, source: pa.Schema) -> type | None:
    """The named tuple that an element is; None when row numbers do. A column that the source has gained is
    None in older elements.

    Raises:
        PipelineError: a column can't be a field.
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
    """The elements of a range, in order of arrival, or in steps.

    Args:
        pipeline: whose.
        rows: their columns, in order of arrival.
        kind: from `element_class`.
        accumulators: of the pipeline's `select`.
        steps: in which they are taken, if not one by one; then row numbers are taken in stretches.

    Attributes:
        are_stretches: whether an element is a stretch of rows.
        operands: for each aggregate what to index by an element to get its operand; None for one that has
            none.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        rows: pa.Table,
        kind: type | None,
        accumulators: Sequence[Accumulator] = (),
        steps: Steps | None = None,
    ) -> None:
        self.rows = rows
        self._kind: Any = kind
        self._order = None if steps is None else steps.order
        self._totals: Iterator[tuple[Any, ...]] = iter(())
        self.are_stretches = steps is not None and kind is None and bool(pipeline.select)
        columns = [None]
        if steps is not None and self.are_stretches:
            columns = totals(pipeline, rows, accumulators, steps.order, steps.starts)
            self._totals = zip(*(repeat(None) if total is None else total for total in columns), strict=False)
        are_read = None in columns
        self._ordered = rows if steps is None or not are_read else rows.take(pa.array(steps.order))
        self._columns = (
            operands(pipeline, self._ordered)
            if pipeline.select and are_read
            else [None] * len(pipeline.select)
        )
        self.operands: list[Any] = self._columns
        self._rest = iter(()) if kind is None else self.values()
        if kind is not None:
            self.operands = [
                None if column is None else _Operand(number) for number, column in enumerate(self._columns)
            ]

    def together(self, start: int, end: int) -> Any:
        """Elements `start` to `end` - 1, those of one step; `start` is where the step before has ended."""
        if self.are_stretches:
            return RowStretch(start, end, next(self._totals))
        return range(start, end) if self._kind is None else list(islice(self._rest, end - start))

    def alone(self, start: int) -> Any:
        """The element of a step that has no other; `start` is where the step before has ended."""
        if self.are_stretches:
            return RowStretch(start, start + 1, next(self._totals))
        return start if self._kind is None else next(self._rest)

    def at(self, positions: Sequence[int]) -> pa.Table:
        """The rows of some elements, by their positions in the order in which elements are taken."""
        places = np.array(positions, np.int64)
        return self.rows.take(pa.array(places if self._order is None else self._order[places]))

    def values(self) -> Iterator[Any]:
        """Each element."""
        if self._kind is None:
            return iter(range(self.rows.num_rows))
        return chain.from_iterable(map(self._tuples, range(0, self.rows.num_rows, _AT_ONCE)))

    def _tuples(self, start: int) -> Iterator[Any]:
        """The elements from `start` on, not all at once: as Python's objects they take far more memory than
        as columns.
        """
        rows = self._ordered.slice(start, _AT_ONCE)
        columns: list[Iterable[Any]] = [
            _natural(rows.column(name)) for name in self._kind._fields if name != _OPERANDS
        ]
        if self._columns:
            nothing = [None] * rows.num_rows
            several = slice(start, start + rows.num_rows)
            columns.append(
                zip(
                    *(nothing if column is None else column[several] for column in self._columns), strict=True
                )
            )
        return map(self._kind._make, zip(*columns, strict=True))


class _Operand:
    """Finds the operand of one aggregate in an element."""

    def __init__(self, position: int) -> None:
        self._position = position

    def __getitem__(self, element: Any) -> Any:
        return element[-1][self._position]


def _natural(column: pa.ChunkedArray) -> list[Any]:
    """Values as a Python programmer expects them: datetimes of UTC, dates, decimals; -0.0 is 0.0."""
    if pa.types.is_timestamp(column.type):
        zoned = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(_TIME)
        return [None if moment is None else moment.replace(tzinfo=UTC) for moment in zoned.to_pylist()]
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    return list(column.to_pylist())
