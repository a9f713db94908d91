"""Elements as the window operator takes them: row numbers where nothing looks at them, else named tuples of the source's columns.

A row number is of one slice and never enters state; a named tuple may. Knows no window.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.engines.accumulators import operands
from jobs.engines.rows import element_columns
from jobs.pipelines import Pipeline
from jobs.pipelines.errors import PipelineError

_OPERANDS: Final = "operands__"  # last of the fields: what the aggregates of a select read
_AT_ONCE: Final = 1 << 16
_TIME = pa.timestamp("us", tz="UTC")


def element_class(pipeline: Pipeline, source: pa.Schema) -> type | None:
    """The named tuple that an element is; None when row numbers do. A column that the source has gained is None in older elements.

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
        raise PipelineError(subject, f"{error}; name the columns that its code reads with columns=[…]") from error


class Elements:
    """The elements of a range, in order of arrival.

    Args:
        pipeline: whose.
        rows: their columns.
        kind: from `element_class`.

    Attributes:
        operands: for each aggregate what to index by an element to get its operand; None for one that has none.
    """

    def __init__(self, pipeline: Pipeline, rows: pa.Table, kind: type | None) -> None:
        self.rows = rows
        self._kind: Any = kind
        self._columns = operands(pipeline, rows) if pipeline.select else []
        self.operands: list[Any] = self._columns
        self._rest = iter(()) if kind is None else self.values()
        if kind is not None:
            self.operands = [None if column is None else _Operand(number) for number, column in enumerate(self._columns)]

    def between(self, start: int, end: int) -> Sequence[Any]:
        """Elements `start` to `end` - 1; `start` is where the call before has ended."""
        return range(start, end) if self._kind is None else list(islice(self._rest, end - start))

    def values(self) -> Iterator[Any]:
        """Each element."""
        if self._kind is None:
            return iter(range(self.rows.num_rows))
        return chain.from_iterable(map(self._tuples, range(0, self.rows.num_rows, _AT_ONCE)))

    def _tuples(self, start: int) -> Iterator[Any]:
        """The elements from `start` on, not all at once: as Python's objects they take far more memory than as columns."""
        rows = self.rows.slice(start, _AT_ONCE)
        columns: list[Iterable[Any]] = [_natural(rows.column(name)) for name in self._kind._fields if name != _OPERANDS]
        if self._columns:
            nothing = [None] * rows.num_rows
            several = slice(start, start + rows.num_rows)
            columns.append(zip(*(nothing if column is None else column[several] for column in self._columns), strict=True))
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
