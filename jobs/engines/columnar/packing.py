"""Narrow encoding of int64 columns for the shuffle: a column travels as unsigned integers of the least width
that holds its span, above its least value; a constant column does not travel at all.

`unpack(pack(table))` is `table`, whatever its columns mean.
"""

import json
from collections.abc import Container
from typing import Any

import numpy as np
import pyarrow as pa

_NOTES_KEY = b"slackwater.packed"
_WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


def pack(rows: pa.Table) -> pa.Table:
    """The table with its int64 columns narrowed; the metadata says what `unpack` needs, beside what it said
    before.
    """
    notes: list[list[Any]] = []
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        note = [name, None]
        if column.type == pa.int64() and not column.null_count and rows.num_rows:
            values = column.to_numpy()
            least = int(values.min())
            span = int(values.max()) - least
            narrow = next((kind for limit, kind in _WIDTHS if span < limit), None)
            if span == 0:
                note[1] = least
            elif narrow is not None:
                note[1] = least
                columns[name] = pa.array(
                    values.astype(narrow) - narrow(least % (np.iinfo(narrow).max + 1))
                )  # modulo its range
        if note[1] is None:
            columns[name] = column
        notes.append(note)
    columns.setdefault("", pa.nulls(rows.num_rows))  # keeps the number of rows where every column is constant
    metadata = {**(rows.schema.metadata or {}), _NOTES_KEY: json.dumps(notes).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def unpack(rows: pa.Table, names: Container[str] | None = None) -> pa.Table:
    """The inverse of `pack`, for a packed table or a slice of one: all columns, or only those in `names`."""
    metadata = dict(rows.schema.metadata)
    columns = {}
    for name, least in json.loads(metadata.pop(_NOTES_KEY)):
        if names is not None and name not in names:
            continue
        if least is None:
            columns[name] = rows.column(name)
        elif name in rows.column_names:
            values = rows.column(name).to_numpy().astype(np.int64)
            values += least
            columns[name] = pa.array(values)
        else:
            columns[name] = pa.array(np.full(rows.num_rows, least))
    return pa.table(columns).replace_schema_metadata(metadata)
