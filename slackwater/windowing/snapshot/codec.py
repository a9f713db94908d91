"""Snapshots of operators ↔ Arrow rows of `window_state`, `keyed_state` and `timers`, for any operator,
key-group range and state back end, the engine and the conformance player. files.py writes files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from slackwater.windowing.errors import SnapshotFormatError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot
from slackwater.windowing.snapshot.files import FORMAT_VERSION, SnapshotTables, migrate
from slackwater.windowing.snapshot.keyed_rows import keyed_table, piece_tables, restore_keyed
from slackwater.windowing.snapshot.layout import SnapshotLayout
from slackwater.windowing.snapshot.list_pieces import PieceOrder
from slackwater.windowing.snapshot.timer_rows import (
    next_firings,
    restore_timers,
    timer_rows,
    timer_table,
)
from slackwater.windowing.snapshot.window_rows import restore_windows, split_entries, window_table


class SnapshotCodec:
    """Writes and reads the snapshots of operators that have one layout. Rows of several operators may be put
    together and restored into any number: each takes the entries of its key groups (`restore_snapshots`).
    """

    def __init__(self, layout: SnapshotLayout) -> None:
        self.layout = layout
        self.schemas = layout.schemas()

    def to_tables(self, snapshot: OperatorSnapshot) -> SnapshotTables:
        """The rows of a snapshot, in this release's format and without the watermark. Raises
        SnapshotValueError for a value without column and JSON form, SnapshotTimeError for a time without
        timestamp.
        """
        return SnapshotTables(*map(pa.concat_tables, zip(*self.parts(snapshot), strict=True)))

    def parts(self, snapshot: OperatorSnapshot) -> Iterator[SnapshotTables]:
        """The rows of `to_tables`: first all but long lists, then pieces of these, 8 MB of text at a time."""
        rows, windowless_entries, long_lists = split_entries(snapshot, self.layout)
        timers = timer_rows(snapshot.timers, self.layout)
        yield SnapshotTables(
            window_table(rows, self.layout, next_firings(timers)),
            keyed_table(windowless_entries, self.layout),
            timer_table(timers, self.layout),
        )
        del rows, windowless_entries, timers
        for pieces in piece_tables(long_lists, self.layout):
            yield self.no_rows()._replace(keyed_state=pieces)

    def no_rows(self) -> SnapshotTables:
        return SnapshotTables(*(self.schemas[name].empty_table() for name in SnapshotTables._fields))

    def from_tables(
        self,
        tables: SnapshotTables,
        version: int = FORMAT_VERSION,
        watermark: int = LONG_MIN,
        *,
        pieces: PieceOrder | None = None,
    ) -> OperatorSnapshot:
        """The inverse of `to_tables`, from rows of any format up to this release's. A long list is several
        entries, in order.

        Args:
            tables: may have more columns, in any order, and may hold several snapshots.
            watermark: of the snapshot; rows do not hold it.
            pieces: of a caller that passes parts of a snapshot in turn: missing pieces of a list may be in a
                later part. The caller calls its `require_complete` in the end.

        Raises:
            SnapshotVersionError: the format cannot be read.
            SnapshotFormatError: the rows are not of that format.
            PickleRefusedError: rows hold pickles, and the layout does not allow them.
        """
        rows_of_tables = [
            self._conform(name, rows) for name, rows in migrate(tables, version)._asdict().items()
        ]
        window_state, keyed_state, timers = rows_of_tables
        open_windows, entries = restore_windows(window_state, self.layout)
        piece_order = PieceOrder() if pieces is None else pieces
        entries += restore_keyed(keyed_state, self.layout, piece_order)
        if pieces is None:
            piece_order.require_complete()
        is_tracked = bool(open_windows) or not window_state.num_rows
        return OperatorSnapshot(
            tuple(entries),
            tuple(restore_timers(timers, self.layout)),
            watermark,
            tuple(open_windows) if is_tracked else None,
        )

    def _conform(self, name: str, rows: pa.Table) -> pa.Table:
        schema: Any = self.schemas[name]
        missing = [field for field in schema.names if field not in rows.column_names]
        if missing:
            raise SnapshotFormatError(
                f"{name} lacks the column {', '.join(missing)}; it has {', '.join(rows.column_names)}."
            )
        try:
            return rows.select(schema.names).cast(schema)
        except pa.ArrowException as error:
            raise SnapshotFormatError(f"{name} has columns of other types: {error}") from error
