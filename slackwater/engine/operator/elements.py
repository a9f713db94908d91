"""Elements as the window operator takes them: row numbers, which never enter state, where no code of the
pipeline reads an element while windows are decided, else named tuples of the source's columns.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from slackwater.engine.aggregates import operands
from slackwater.engine.rows.columns_read import element_columns
from slackwater.engine.rows.python_values import to_user_values
from slackwater.pipelines import Pipeline
from slackwater.pipelines.errors import PipelineError

# Last of the fields under a select: what its aggregates read where an evictor takes elements, else null, as
# triggers have parked elements with it.
_OPERANDS: Final = "operands__"
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
    """The elements of one key-group range; `rows` are their columns, in order of arrival."""

    def __init__(self, pipeline: Pipeline, rows: pa.Table, element_class: type | None) -> None:
        self._rows = rows
        self._class: Any = element_class
        self._has_select = bool(pipeline.select)
        self._operands = operands(pipeline, rows) if pipeline.evictor is not None else []

    def values(self) -> Iterator[Any]:
        if self._class is None:
            return iter(range(self._rows.num_rows))
        # Made a piece at a time: Python's objects take far more memory than columns.
        return chain.from_iterable(map(self._tuples, range(0, self._rows.num_rows, _AT_ONCE)))

    def _tuples(self, start: int) -> Iterator[Any]:
        rows = self._rows.slice(start, _AT_ONCE)
        columns: list[Iterable[Any]] = [
            to_user_values(rows.column(name)) for name in self._class._fields if name != _OPERANDS
        ]
        end = start + rows.num_rows
        if self._operands:
            nulls = [None] * rows.num_rows
            operands_of_rows = [nulls if column is None else column[start:end] for column in self._operands]
            columns.append(zip(*operands_of_rows, strict=True))
        elif self._has_select:
            columns.append([None] * rows.num_rows)
        make_element = partial(tuple.__new__, self._class)  # as `_make`, without a call of Python's for each
        return map(make_element, zip(*columns, strict=True))
