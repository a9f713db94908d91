"""The state of a function whose windows a kernel decides: restored before its calls, parked after them."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot
from slackwater.windowing.runtime.operator_storage import IN_MEMORY
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.snapshot import SnapshotCodec
from slackwater.windowing.snapshot.keyed_rows import keyed_table, piece_tables
from slackwater.windowing.snapshot.window_rows import split_entries, state_columns
from slackwater.windowing.windows import Window


class FunctionState:
    """The state of one range, in `backend`."""

    def __init__(self, codec: SnapshotCodec, key_groups: KeyGroupIndex, order_mode: OrderMode) -> None:
        self._codec = codec
        self.backend = IN_MEMORY.make_backend(key_groups, order_mode, None)

    def restore(self, window_rows: pa.Table, keyed_rows: pa.Table) -> None:
        """Restore what parked rows have of the function's: not their contents, nor the trigger's state."""
        tables = self._codec.no_rows()
        window_rows = window_rows.filter(window_rows.column("user_state").is_valid())
        keyed_rows = keyed_rows.filter(pc.not_equal(keyed_rows.column("state_name"), CONTENTS))
        for name in ("contents", "trigger_state"):
            place = window_rows.schema.get_field_index(name)
            window_rows = window_rows.set_column(place, name, pa.nulls(window_rows.num_rows, pa.string()))
        tables = tables._replace(window_state=window_rows, keyed_state=keyed_rows)
        self.backend.restore(self._codec.from_tables(tables).entries)

    @property
    def is_empty(self) -> bool:
        return next(iter(self.backend.entries()), None) is None

    def park(
        self, groups: Sequence[int], keys: Sequence[object], windows: Sequence[Window]
    ) -> tuple[pa.Array, list[pa.Table]]:
        """(the column `user_state` of the open `windows`, with their key groups and keys; the rows of
        `keyed_state` of what belongs to none of them).
        """
        entries = tuple(self.backend.entries())
        owners = zip(groups, keys, windows, strict=True)
        open_windows = tuple(OpenWindow(*owner, WindowLife()) for owner in owners)
        layout = self._codec.layout
        rows, windowless_entries, long_lists = split_entries(
            OperatorSnapshot(entries, (), 0, open_windows), layout
        )
        user_state = state_columns(rows[: len(windows)], layout)["user_state"]
        return user_state, [keyed_table(windowless_entries, layout), *piece_tables(long_lists, layout)]
