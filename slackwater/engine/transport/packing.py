"""Narrow encoding of int64 columns for the shuffle: unsigned integers of the least width that holds the span,
above the least value; a constant column does not travel. Packed tables are cut and brought together as they
are.
"""

import json
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_NOTES_KEY = b"slackwater.packed"
_WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


def pack(rows: pa.Table) -> pa.Table:
    """The table with its int64 columns narrowed; the metadata says what `unpack` needs."""
    notes: dict[str, int | None] = {}
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        notes[name] = None
        if column.type == pa.int64() and not column.null_count and rows.num_rows:
            values = column.to_numpy()
            least = int(values.min())
            span = int(values.max()) - least
            narrow = _width_of(span)
            if span == 0:
                notes[name] = least
            elif narrow is not None:
                notes[name] = least
                columns[name] = pa.array(
                    values.astype(narrow) - narrow(least % (np.iinfo(narrow).max + 1))
                )  # modulo its range
        if notes[name] is None:
            columns[name] = column
    return _packed_table(columns, rows.num_rows, notes, rows.schema.metadata)


def unpack(rows: pa.Table, names: Container[str] | None = None) -> pa.Table:
    """The inverse of `pack`, of a packed table or a slice: all columns, or those in `names`."""
    columns = {
        name: _unpack_column(name, [rows], [least])
        for name, least in _notes_of(rows).items()
        if names is None or name in names
    }
    return pa.table(columns).replace_schema_metadata(_own_metadata(rows))


def unpack_all(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of packed tables of the same columns, without metadata."""
    notes_of_each = [_notes_of(table) for table in tables]
    return pa.table(
        {
            name: _unpack_column(name, tables, [notes[name] for notes in notes_of_each])
            for name in notes_of_each[0]
        }
    )


def is_packed(rows: pa.Table) -> bool:
    return _NOTES_KEY in (rows.schema.metadata or {})


def concat_packed(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of packed tables of the same columns, packed, with other metadata of the first table."""
    notes_of_each = [_notes_of(table) for table in tables]
    notes: dict[str, int | None] = {}
    columns: dict[str, Any] = {}
    for name in notes_of_each[0]:
        leasts = [notes_of_table[name] for notes_of_table in notes_of_each]
        notes[name], column = _concat_column(name, tables, leasts)
        if column is not None:
            columns[name] = column
    return _packed_table(columns, sum(table.num_rows for table in tables), notes, _own_metadata(tables[0]))


def _concat_column(
    name: str, tables: Sequence[pa.Table], leasts: Sequence[int | None]
) -> tuple[int | None, Any]:
    """(the least value or None, the column or None) of one column, as `pack` would have them."""
    known_leasts = [least for least in leasts if least is not None]
    if len(known_leasts) == len(tables):
        least = min(known_leasts)
        greatest = max(
            own_least + _greatest_above(table, name)
            for own_least, table in zip(known_leasts, tables, strict=True)
        )
        narrow = _width_of(greatest - least)
        if greatest == least:
            return least, None
        if narrow is not None:
            narrow_pieces = [
                table.column(name).to_numpy().astype(narrow) + narrow(own_least - least)
                if name in table.column_names
                else np.full(table.num_rows, own_least - least, narrow)
                for own_least, table in zip(known_leasts, tables, strict=True)
            ]
            return least, pa.array(np.concatenate(narrow_pieces))
    return None, _unpack_column(name, tables, leasts)


def _greatest_above(rows: pa.Table, name: str) -> int:
    return int(rows.column(name).to_numpy().max(initial=0)) if name in rows.column_names else 0


def _unpack_column(name: str, tables: Sequence[pa.Table], leasts: Sequence[int | None]) -> pa.ChunkedArray:
    if None in leasts:
        columns = [
            table.column(name) if least is None else _unpack_column(name, [table], [least])
            for table, least in zip(tables, leasts, strict=True)
        ]
        return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    values, start = np.empty(sum(table.num_rows for table in tables), np.int64), 0
    for table, least in zip(tables, leasts, strict=True):
        values_of_table = values[start : start + table.num_rows]
        start += table.num_rows
        if name in table.column_names:
            np.add(table.column(name).to_numpy(), np.int64(least or 0), out=values_of_table)
        else:
            values_of_table[:] = least
    return pa.chunked_array([pa.array(values)])


def _width_of(span: int) -> Any:
    """The narrowest type of unsigned integers from 0 to `span`; None: only int64 is wide enough."""
    return next((kind for limit, kind in _WIDTHS if span < limit), None)


def _packed_table(
    columns: dict[str, Any], rows: int, notes: dict[str, int | None], metadata: dict[bytes, bytes] | None
) -> pa.Table:
    columns.setdefault("", pa.nulls(rows))  # keeps the number of rows where every column is constant
    return pa.table(columns).replace_schema_metadata(
        {**(metadata or {}), _NOTES_KEY: json.dumps(list(notes.items())).encode()}
    )


def _notes_of(rows: pa.Table) -> dict[str, int | None]:
    """Column → the least value, for which narrow integers are above it; None: the column is as it was."""
    return dict(json.loads(rows.schema.metadata[_NOTES_KEY]))


def _own_metadata(rows: pa.Table) -> dict[bytes, bytes]:
    return {name: value for name, value in rows.schema.metadata.items() if name != _NOTES_KEY}
