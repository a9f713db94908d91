"""Rows of a plain Delta table from just those of its files that may hold them, chosen on whole columns of the log's statistics.

Knows no table by name. A dataset over every file, each with its bounds as an expression, would cost more the longer a table has lived.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs
from deltalake import DeltaTable

# A log may cut a time to milliseconds, so the greatest may be up to this much more than it says.
_CUT = timedelta(microseconds=999)


class Within(NamedTuple):
    """Bounds of a column, both included, outside of which no wanted row lies; None for no bound. A null lies within none."""

    column: str
    least: Any
    greatest: Any

    @classmethod
    def only(cls, column: str, value: Any) -> "Within":
        """That one value."""
        return cls(column, value, value)


def actions_of(table: DeltaTable) -> pa.Table:
    """The table's files, one a row: path, partition values as ``partition.<column>``, statistics as ``min.<column>``, ``max.<column>``."""
    return pa.table(table.get_add_actions(flatten=True))


def read_files(
    table: DeltaTable,
    files: pafs.FileSystem,
    schema: pa.Schema,
    columns: Sequence[str],
    where: pc.Expression | None,
    within: Within,
) -> pa.Table:
    """`columns` of the rows that `where` selects, of a table whose folder is `files`; the files are those that `within` leaves."""
    actions = actions_of(table)
    if actions.num_rows:
        actions = actions.filter(_may_hold(actions, within))
    partitions = [name for name in actions.column_names if name.startswith("partition.")]
    kind = pads.ParquetFileFormat()
    fragments = []
    for action in actions.select(["path", *partitions]).to_pylist():
        path = unquote(action.pop("path"))
        held = [_equals(name.removeprefix("partition."), value, schema) for name, value in action.items()]
        whole = held[0] if held else None
        for expression in held[1:]:
            whole = whole & expression
        fragments.append(kind.make_fragment(path, files, partition_expression=whole))
    return pads.FileSystemDataset(fragments, schema, kind, files).to_table(columns=list(columns), filter=where)


def _equals(name: str, value: Any, schema: pa.Schema) -> pc.Expression:
    if value is None:
        return pc.field(name).is_null()
    return pc.field(name) == pa.scalar(value, schema.field(name).type)


def _may_hold(actions: pa.Table, within: Within) -> pa.Array:
    """For each file, whether rows within the bounds may stand in it. A file without statistics may hold any."""
    column, least, greatest = within
    is_partition = f"partition.{column}" in actions.column_names
    low, high = (f"partition.{column}",) * 2 if is_partition else (f"min.{column}", f"max.{column}")
    if low not in actions.column_names or high not in actions.column_names:
        return pa.array([True] * actions.num_rows)
    keep = pa.array([True] * actions.num_rows)
    if greatest is not None:
        keep = pc.and_(keep, pc.fill_null(pc.less_equal(actions.column(low), _as(greatest, actions.column(low))), not is_partition))
    if least is not None:
        bound = least - _CUT if pa.types.is_timestamp(actions.column(high).type) else least
        keep = pc.and_(keep, pc.fill_null(pc.greater_equal(actions.column(high), _as(bound, actions.column(high))), not is_partition))
    return keep


def _as(value: Any, column: pa.ChunkedArray) -> pa.Scalar:
    return pa.scalar(value, column.type)
