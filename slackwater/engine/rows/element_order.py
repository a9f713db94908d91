"""The order in which windows take elements: by arrival, then the order column, then a hash of the row."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.columns_read import ARRIVAL, columns_read, source_columns
from slackwater.pipelines import Pipeline
from slackwater.windowing.snapshot import row_digests


def in_order(pipeline: Pipeline, elements: pa.Table) -> pa.Table:
    """Elements sorted by (arrival, order column with nulls first, hash of the columns that are read)."""
    keys = [(ARRIVAL, "ascending", "at_start")]
    order = pipeline.roles.order_by
    if order is not None:
        keys.append((order, "ascending", "at_start"))
    if elements.num_rows < 2 or _rises(elements, [name for name, *_ in keys]):
        return elements
    elements = elements.take(pc.sort_indices(elements, sort_keys=keys))
    alike = _equal_to_previous(elements.column(ARRIVAL))
    if order is not None:
        alike &= _equal_to_previous(elements.column(order))
    tied_rows = np.flatnonzero(np.append(alike, False) | np.insert(alike, 0, False))
    if not len(tied_rows):
        return elements
    # Ties are rare, so only their rows are hashed; the rows of a tie change places among themselves.
    group = np.cumsum(np.insert(~alike, 0, False))[tied_rows]
    names = columns_read(pipeline, elements.column_names)
    rows = elements.take(pa.array(tied_rows))
    digests = list(row_digests(rows.select(names), names))
    if pipeline.distinct_columns:
        # Only one of equal rows counts: which of them is seen in the columns that the pipeline does not read.
        every_name = source_columns(elements.column_names)
        digests = [a + b for a, b in zip(digests, row_digests(rows, every_name), strict=True)]
    order_in_ties = sorted(range(len(tied_rows)), key=lambda i: (group[i], digests[i]))
    positions = np.arange(elements.num_rows)
    positions[tied_rows] = tied_rows[order_in_ties]
    return elements.take(pa.array(positions))


def _rises(elements: pa.Table, names: list[str]) -> bool:
    """Whether each row is greater in these columns than the one before: nothing is to be sorted."""
    rises = np.zeros(elements.num_rows - 1, np.bool_)
    are_equal = ~rises
    for name in names:
        current, previous = (
            elements.column(name).slice(1),
            elements.column(name).slice(0, elements.num_rows - 1),
        )
        rises |= are_equal & np.asarray(pc.greater(current, previous).fill_null(False))
        are_equal &= np.asarray(pc.equal(current, previous).fill_null(False))
        if not bool(np.all(rises | are_equal)):
            return False
    return bool(np.all(rises))


def _equal_to_previous(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """For rows 1 … n-1, whether the value equals the one before; so do two nulls, and two NaN."""
    current, previous = column.slice(1), column.slice(0, len(column) - 1)
    equal = np.asarray(pc.equal(current, previous).fill_null(False))
    for alike in (pc.is_null, pc.is_nan) if pa.types.is_floating(column.type) else (pc.is_null,):
        equal = equal | np.asarray(alike(current).fill_null(False)) & np.asarray(
            alike(previous).fill_null(False)
        )
    return np.asarray(equal)
