"""An operator's snapshot in memory: state, timers, open windows; restored by operators of any range."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.runtime.keyed_operator import KeyedOperator
from slackwater.windowing.runtime.timer_queue import Timer
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.state.backend import StateEntry
from slackwater.windowing.windows import Window


@dataclass(frozen=True)
class TimerSnapshot:
    """Timers of one service and key group, per domain, in the order in which they are restored."""

    service: str
    key_group: int
    event: tuple[Timer, ...]
    processing: tuple[Timer, ...]


class OpenWindow(NamedTuple):
    """A window between its first element and its cleanup, also after a purge, with its history."""

    key_group: int
    key: Any
    window: Window
    life: WindowLife


@dataclass(frozen=True)
class OperatorSnapshot:
    """State and timers of one operator. Values are shared with it: take the snapshot when the operator stops,
    or copy. `timers` are by service and ascending key group; `windows` is None when no log has recorded the
    open windows. Flink does not keep `watermark`; `initialize_watermark` restores it.
    """

    entries: tuple[StateEntry, ...]
    timers: tuple[TimerSnapshot, ...]
    watermark: int
    windows: tuple[OpenWindow, ...] | None = None


def take_snapshot(
    operator: KeyedOperator,
    key_groups: KeyGroupRange,
    is_legacy: bool = False,
    holds_key: Callable[[Any], bool] | None = None,
) -> OperatorSnapshot:
    """State and timers of `key_groups`, or only for their keys for which `holds_key` is true. `is_legacy`:
    timers in the order of Flink's raw timer snapshots; see TimerQueue.legacy_snapshot.
    """
    timers, service = [], operator.timer_service
    for key_group in key_groups:
        event, processing = (
            tuple(
                timer
                for timer in (queue.legacy_snapshot if is_legacy else queue.snapshot)(key_group)
                if holds_key is None or holds_key(timer[1])
            )
            for queue in (service.event_timers, service.processing_timers)
        )
        if event or processing:
            timers.append(TimerSnapshot(service.name, key_group, event, processing))
    entries = operator.backend.entries(key_groups)
    if holds_key is not None:
        entries = (entry for entry in entries if holds_key(entry.key))
    return OperatorSnapshot(tuple(entries), tuple(timers), operator.current_watermark)


def restore_snapshots(
    operator: KeyedOperator, snapshots: Iterable[OperatorSnapshot], key_groups: KeyGroupRange
) -> None:
    """Restore `key_groups` into an operator that has processed nothing; the watermark stays Long.MIN."""
    snapshots = [snapshot for snapshot in snapshots if snapshot.entries or snapshot.timers]
    if not snapshots:
        return  # as a new operator, which knows that no timer has passed
    operator.backend.restore(
        entry for snapshot in snapshots for entry in snapshot.entries if entry.key_group in key_groups
    )
    service = operator.timer_service
    parts = sorted(
        (
            part
            for snapshot in snapshots
            for part in snapshot.timers
            if part.service == service.name and part.key_group in key_groups
        ),
        key=lambda part: part.key_group,
    )
    service.restore(
        [timer for part in parts for timer in part.event],
        [timer for part in parts for timer in part.processing],
    )
