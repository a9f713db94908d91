"""Snapshots of operators ↔ rows of `window_state`, `keyed_state` and `timers`: for any operator, key-group
range and state back end.

Arrow in memory; files.py makes files of it. The engine and the conformance player share this.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot
from slackwater.windowing.snapshot.errors import SnapshotFormatError
from slackwater.windowing.snapshot.keyed_rows import keyed_table, restore_keyed
from slackwater.windowing.snapshot.layout import SnapshotLayout
from slackwater.windowing.snapshot.timer_rows import (
    next_firings,
    restore_timers,
    timer_rows,
    timer_table,
)
from slackwater.windowing.snapshot.versions import FORMAT_VERSION, SnapshotTables, migrate
from slackwater.windowing.snapshot.window_rows import restore_windows, split_entries, window_table


class SnapshotCodec:
    """Writes and reads the snapshots of operators that have one layout.

    Rows of several operators may be put together, and restored into any number of operators: each takes the
    entries of its key groups (`restore_snapshots`).
    """

    def __init__(self, layout: SnapshotLayout) -> None:
        self.layout = layout
        self.schemas = layout.schemas()

    def to_tables(self, snapshot: OperatorSnapshot) -> SnapshotTables:
        """The rows of a snapshot, in this release's format. The watermark is not among them.

        Raises:
            SnapshotValueError: a value has neither a column nor a JSON form.
            SnapshotTimeError: a time has no timestamp.
        """
        rows, windowless_entries = split_entries(snapshot, self.layout)
        timers = timer_rows(snapshot.timers, self.layout)
        return SnapshotTables(
            window_table(rows, self.layout, next_firings(timers)),
            keyed_table(windowless_entries, self.layout),
            timer_table(timers, self.layout),
        )

    def from_tables(
        self, tables: SnapshotTables, version: int = FORMAT_VERSION, watermark: int = LONG_MIN
    ) -> OperatorSnapshot:
        """The inverse of `to_tables`, from rows of any format up to this release's.

        Args:
            tables: may have more columns, in any order, and may hold several snapshots.
            version: the rows' format.
            watermark: of the snapshot; rows do not hold it.

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
        entries += restore_keyed(keyed_state, self.layout)
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
