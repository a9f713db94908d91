"""Rows as their content hash takes them, so that hashes that earlier versions recorded stay the hashes of
their runs: a kind of pane that was renamed is hashed under its former name, a column that source progress has
gained only where it says something.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

EMITTED_KIND: Final = "emitted"  # the kind of panes that a KeyedProcessFunction has emitted
# Kind → its name in hashes, and in panes of versions before.
FORMER_KINDS: Final[Mapping[str, str]] = {EMITTED_KIND: "count"}
_CARRIED_WATERMARK: Final = "carried_watermark"


def as_hashed(table: str, rows: pa.Table) -> pa.Table:
    """Rows of `table` for `ContentHash.add`."""
    if table == "source_progress" and _CARRIED_WATERMARK in rows.column_names:
        watermarks = rows.column(_CARRIED_WATERMARK)
        return rows.drop_columns([_CARRIED_WATERMARK]) if watermarks.null_count == len(watermarks) else rows
    if table != "panes":
        return rows
    kinds = rows.column("kind")
    for kind, former_kind in FORMER_KINDS.items():
        is_renamed = pc.equal(kinds, kind)
        if pc.any(is_renamed).as_py():
            kinds = pc.if_else(is_renamed, former_kind, kinds.cast(pa.string()))
    return rows.set_column(rows.schema.get_field_index("kind"), "kind", kinds)
