"""Rows as their content hash takes them: a kind of pane that was renamed is hashed under its former name, so
that hashes that earlier versions recorded stay the hashes of their runs.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

EMITTED_KIND: Final = "emitted"  # the kind of panes that a KeyedProcessFunction has emitted
# Kind → its name in hashes, and in panes of versions before.
FORMER_KINDS: Final[Mapping[str, str]] = {EMITTED_KIND: "count"}


def as_hashed(table: str, rows: pa.Table) -> pa.Table:
    """Rows of `table` for `ContentHash.add`; they differ from `rows` in the names of kinds alone."""
    if table != "panes":
        return rows
    kinds = rows.column("kind")
    for kind, former_kind in FORMER_KINDS.items():
        is_renamed = pc.equal(kinds, kind)
        if pc.any(is_renamed).as_py():
            kinds = pc.if_else(is_renamed, former_kind, kinds.cast(pa.string()))
    return rows.set_column(rows.schema.get_field_index("kind"), "kind", kinds)
