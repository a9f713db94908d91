"""The layout of one operator's snapshots: columns of keys, of windows' contents, and of declared states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from slackwater.windowing.assigners import MergingWindowAssigner
from slackwater.windowing.errors import SnapshotValueError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.own_windows import declares_columns, own_window_class
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot.columns import Columns, KeyColumns, WindowColumns, snapshot_columns
from slackwater.windowing.snapshot.json_values import JsonValues
from slackwater.windowing.snapshot.sql_types import arrow_type
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import Window


class ContentsColumns(Protocol):
    """The contents of windows, written and read for many windows at once: typed columns where their parts are
    known, else texts.

    Attributes:
        is_commutative: contents depend on the elements alone, not on their order: then a merged session's
            are stored under the session's own bounds.
        no_contents: the text of a window without contents: ``[]`` beside typed columns, whose nulls may be an
            accumulator of nulls.
    """

    columns: Columns
    is_commutative: bool
    no_contents: str | None = "[]"

    def arrays(self, contents: Sequence[Any]) -> list[pa.Array]:
        """One array per column, null in each for a window without contents (None)."""

    def texts(self, contents: Sequence[Any]) -> list[str | None]:
        """The part of each that has no typed column, as JSON for the column `contents`, or None. Never
        ``[]``, which marks a window without contents.
        """

    def values(self, rows: pa.Table) -> list[Any]:
        """The inverse of `arrays` and `texts`, for rows that all have contents."""

    def element_lists(self, contents: Sequence[Any]) -> list[Sequence[Any]] | None:
        """The elements of each, where contents stand for a list; else None."""
        return None

    def restored_elements(self, elements: Sequence[Any]) -> Sequence[Any]:
        """A piece of a list, as elements of the operator."""
        return elements


@dataclass(frozen=True, eq=False)
class WindowLayout:
    """The codec's view of a window operator.

    Attributes:
        columns: typed columns for the windows' contents; None when they are JSON.
        merges: windows merge, so the sessions in flight are part of the state.
        trigger: declares its states, and whether it fires on timers.
        allowed_lateness_ms: how long after its last instant a window of event time is collected.
    """

    contents: StateDescriptor
    columns: ContentsColumns | None
    merges: bool
    trigger: Trigger
    is_event_time: bool
    allowed_lateness_ms: int

    @property
    def keeps_state_windows(self) -> bool:
        """Whether contents stay where merging left them, because their order is visible."""
        return self.merges and (self.columns is None or not self.columns.is_commutative)

    @property
    def fires_before_cleanup(self) -> bool:
        """Whether every element is in a firing before its window is collected."""
        return self.is_event_time and self.trigger.fires_at_last_instant

    def cleanup_time(self, window: Window) -> int:
        """When the window is collected; Long.MAX is never. The same as WindowEnds.cleanup_time."""
        lateness = self.allowed_lateness_ms if self.is_event_time else 0
        return int(min(window.max_timestamp() + lateness, LONG_MAX))


@dataclass(frozen=True, eq=False)
class SnapshotLayout:
    """The tables of one operator's snapshots.

    Attributes:
        windows: None for a KeyedProcessFunction.
        states: declared states without a window; those with a SQL type have a column each, `<state>__value`.
        json: writes values without a column.
        keeps_timer_order: timers keep the snapshot's order, because the order mode's ties are the history of
            a heap; otherwise rows are sorted.
        timer_owner: what registers timers, as errors call it.
    """

    keys: KeyColumns
    windows: WindowLayout | None
    states: tuple[StateDescriptor, ...] = ()
    json: JsonValues = field(default_factory=JsonValues)
    keeps_timer_order: bool = False
    window_columns: WindowColumns = field(default_factory=WindowColumns)
    timer_owner: str = "the function"

    @classmethod
    def for_windows(
        cls,
        config: WindowOperatorConfig,
        *,
        keys: KeyColumns | None = None,
        contents: ContentsColumns | None = None,
        states: Iterable[StateDescriptor] = (),
        json: JsonValues | None = None,
        order_mode: OrderMode = OrderMode.ROCKSDB,
    ) -> SnapshotLayout:
        """The layout of a window operator; key columns are named after Flink's fields unless given."""
        windows = WindowLayout(
            contents=config.contents,
            columns=contents,
            merges=isinstance(config.assigner, MergingWindowAssigner),
            trigger=config.trigger,
            is_event_time=config.assigner.is_event_time,
            allowed_lateness_ms=config.allowed_lateness_ms,
        )
        window_type = config.assigner.window_type
        return cls(
            keys=KeyColumns.for_key_type(config.key_type) if keys is None else keys,
            windows=windows,
            states=tuple(states),
            json=json or JsonValues(),
            keeps_timer_order=order_mode.has_heap_timers,
            window_columns=WindowColumns(
                own_window_class(window_type) if declares_columns(window_type) else None
            ),
            timer_owner=f"the trigger {type(config.trigger).__name__}",
        )

    @classmethod
    def for_process(
        cls,
        key_type: KeyType,
        *,
        keys: KeyColumns | None = None,
        states: Iterable[StateDescriptor] = (),
        json: JsonValues | None = None,
        order_mode: OrderMode = OrderMode.ROCKSDB,
    ) -> SnapshotLayout:
        columns = KeyColumns.for_key_type(key_type) if keys is None else keys
        return cls(
            keys=columns,
            windows=None,
            states=tuple(states),
            json=json or JsonValues(),
            keeps_timer_order=order_mode.has_heap_timers,
        )

    def value_columns(self) -> dict[str, tuple[str, pa.DataType]]:
        """State name → its typed column, a list for list state; a map's keys are in `map_key`."""
        return {
            state.name: (f"{state.name}__value", pa.list_(kind) if state.kind == "list" else kind)
            for state in self.states
            if state.sql_type is not None
            for kind in [arrow_type(state.sql_type)]
        }

    def kinds(self) -> dict[str, str]:
        return {state.name: state.kind for state in self.states}

    def schemas(self) -> dict[str, pa.Schema]:
        contents = (
            () if self.windows is None or self.windows.columns is None else self.windows.columns.columns
        )
        columns = snapshot_columns(
            self.keys.columns,
            contents,
            tuple(self.value_columns().values()),
            self.window_columns.own_columns,
        )
        schemas = {name: pa.schema(list(fields)) for name, fields in columns.items()}
        for name, schema in schemas.items():
            if repeated_names := sorted({field for field in schema.names if schema.names.count(field) > 1}):
                raise SnapshotValueError(
                    f"{name} would have the column {', '.join(repeated_names)} twice; "
                    "rename the key, the state or the window's column."
                )
        return schemas
