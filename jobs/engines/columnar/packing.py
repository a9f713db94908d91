"""Columns of small integers on their way through the shuffle: as narrow as their range, and none at all where
all are equal.

Any table goes in, the same comes out; nothing is known of what the columns mean.
"""

import json
from collections.abc import Container
from typing import Any

import numpy as np
import pyarrow as pa

_PACKED = b"slackwater.packed"
_WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


def pack(rows: pa.Table) -> pa.Table:
    """`rows` with its int64 columns narrowed; `unpack` gives them back. Metadata is kept."""
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
    metadata = {**(rows.schema.metadata or {}), _PACKED: json.dumps(notes).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def unpack(rows: pa.Table, names: Container[str] | None = None) -> pa.Table:
    """The inverse of `pack`, of some of the rows, too. Of all columns, or those in `names`."""
    metadata = dict(rows.schema.metadata)
    columns = {}
    for name, least in json.loads(metadata.pop(_PACKED)):
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
