"""The state of triggers and functions, and timers, that a walk restores and parks by the snapshot's codec."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.functions.parked_lists import ParkedLists
from slackwater.engine.functions.trigger_walk import KeyState, WalkOutput
from slackwater.engine.functions.window_contents import WindowContents
from slackwater.windowing.runtime.merging_windows import MERGING_WINDOW_SET
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot, TimerSnapshot
from slackwater.windowing.runtime.window_operator import TIMER_SERVICE
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.snapshot import SnapshotCodec, SnapshotTables
from slackwater.windowing.snapshot.keyed_rows import keyed_table, piece_tables
from slackwater.windowing.snapshot.timer_rows import next_firings, timer_rows, timer_table
from slackwater.windowing.snapshot.window_rows import split_entries, state_columns
from slackwater.windowing.state.backend import StateBackend, StateEntry


class ParkedState(NamedTuple):
    """Rows that a walk leaves; `columns` are `trigger_state` and `user_state` of each open window."""

    columns: Mapping[str, pa.Array]
    next_firings: Sequence[int | None]
    keyed_rows: pa.Table
    timers: pa.Table


class WalkState:
    def __init__(self, codec: SnapshotCodec, tables: SnapshotTables, backend: StateBackend) -> None:
        self._codec, self._backend = codec, backend
        windows = tables.window_state
        no_contents = pa.nulls(windows.num_rows, pa.string())
        is_of_function = pc.not_equal(tables.keyed_state.column("state_name"), CONTENTS)
        self._snapshot = codec.from_tables(
            SnapshotTables(
                windows.set_column(windows.schema.get_field_index("contents"), "contents", no_contents),
                tables.keyed_state.filter(is_of_function),
                tables.timers,
            )
        )

    def restore(self, contents: WindowContents, parked_lists: ParkedLists) -> dict[Any, KeyState]:
        """Fill the back end; return each key's windows and timers. Lists are in the windows' order."""
        states: dict[Any, KeyState] = {}
        entries: list[StateEntry] = []
        for entry in self._snapshot.entries:
            if entry.state_name == MERGING_WINDOW_SET.name and entry.namespace is None:
                states.setdefault(entry.key, KeyState()).pairs = entry.value
            else:
                entries.append(entry)
        self._backend.restore(entries)
        state_windows = {
            (key, window): state_window
            for key, state in states.items()
            for window, state_window in state.pairs
        }
        beyonds = np.cumsum(parked_lists.lengths).tolist()
        for (_, key, window, life), length, beyond in zip(
            self._snapshot.windows or (), parked_lists.lengths.tolist(), beyonds, strict=True
        ):
            state = states.setdefault(key, KeyState())
            state.lives[window] = life
            if length:
                numbers = list(range(beyond - length, beyond))
                state_window = state_windows.get((key, window), window)
                state.contents[state_window] = contents.restored_contents(numbers)
        for part in self._snapshot.timers:
            for time, key, window in part.event:
                states.setdefault(key, KeyState()).event.append((time, window))
            for time, key, window in part.processing:
                states.setdefault(key, KeyState()).processing.append((time, window))
        return states

    def park(self, output: WalkOutput, keys: Sequence[Any], groups: Sequence[int]) -> ParkedState:
        windows = tuple(
            OpenWindow(groups[number], keys[number], window, life) for number, window, life in output.lives
        )
        snapshot = OperatorSnapshot(tuple(self._backend.entries()), (), 0, windows)
        layout = self._codec.layout
        rows, windowless_entries, long_lists = split_entries(snapshot, layout)
        timers = timer_rows(
            [
                TimerSnapshot(
                    TIMER_SERVICE,
                    groups[number],
                    event=tuple((time, keys[number], window) for time, window in timers_of_key["event"]),
                    processing=tuple(
                        (time, keys[number], window) for time, window in timers_of_key["processing"]
                    ),
                )
                for number, timers_of_key in output.timers.items()
            ],
            layout,
        )
        firings = next_firings(timers)
        keyed_tables = [keyed_table(windowless_entries, layout), *piece_tables(long_lists, layout)]
        return ParkedState(
            columns=state_columns(rows[: len(windows)], layout),
            next_firings=[firings.get((window.key, window.window)) for window in windows],
            keyed_rows=pa.concat_tables(keyed_tables),
            timers=timer_table(timers, layout),
        )
