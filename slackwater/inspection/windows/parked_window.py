"""A window as it is parked in the snapshot: how much it holds, its accumulators, the state of its trigger and
of the user's function.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from slackwater.inspection.windows.lineage_as_of import LineageAsOf
from slackwater.inspection.windows.window_search import BOUNDS, WindowColumns, condition_of
from slackwater.tables.python_rows import python_rows

_OWN_COLUMNS = ("elements", "firings", "last_fired_at", "cleanup_time", "first_arrival", "last_arrival")


@dataclass(frozen=True, kw_only=True)
class KeptState:
    """State of a window in `keyed_state`: its descriptor's name, and in how many rows it is."""

    state_name: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class ParkedWindow:
    """The window's row of `window_state`, and what belongs to it in the other tables of the snapshot of run
    `seq`.

    Attributes:
        elements: in the window's contents; 0 for one that is purged.
        accumulators: the parts of results that are accumulated, by column.
        contents, trigger_state, user_state: values of JSON; None where there is no such state.
        timers: pending, the next ones first.
        states: state of the window in `keyed_state`.
    """

    seq: int
    elements: int
    firings: int
    last_fired_at: datetime | None
    cleanup_time: datetime | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    accumulators: Mapping[str, Any]
    contents: Any
    trigger_state: Any
    user_state: Any
    timers: Sequence[Mapping[str, Any]]
    states: Sequence[KeptState]

    def readable_parts(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each accumulated part that people can read, unlike exact sums and sketches."""
        for name, value in self.accumulators.items():
            if not isinstance(value, bytes):
                yield name.replace("__", " · "), value


def row_of(lineage: LineageAsOf, window: WindowColumns) -> dict[str, Any] | None:
    rows = lineage.key_rows.parked_rows("window_state", lineage.owner, condition_of(window)[0])
    return next(iter(python_rows(rows)), None)


def parked_window(
    lineage: LineageAsOf, row: Mapping[str, Any], timers: Sequence[Mapping[str, Any]]
) -> ParkedWindow:
    assert lineage.owner is not None, "a window is parked in the snapshot of a run"
    return ParkedWindow(
        seq=lineage.owner.seq,
        accumulators={name: value for name, value in row.items() if "__" in name and value is not None},
        contents=_value_of_json(row["contents"]),
        trigger_state=_value_of_json(row["trigger_state"]),
        user_state=_value_of_json(row["user_state"]),
        timers=tuple(timers),
        states=tuple(_states(lineage, {name: row[name] for name in lineage.window_columns})),
        **{name: row[name] for name in _OWN_COLUMNS},
    )


def _states(lineage: LineageAsOf, window: WindowColumns) -> list[KeptState]:
    if all(value is None for value in window.values()):
        return []
    condition, _ = condition_of(
        {
            f"namespace_{name.removeprefix('window_') if name in BOUNDS else name}": value
            for name, value in window.items()
        }
    )
    rows = lineage.key_rows.parked_rows("keyed_state", lineage.owner, condition)
    counts = pc.value_counts(rows.column("state_name")).to_pylist()
    return [KeptState(state_name=count["values"], rows=count["counts"]) for count in counts]


def _value_of_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
