"""What an open window waits for: the watermark that it needs, the one that there is, and the source
partitions that hold it back; or the clock, elements, or nothing.

A source partition allows the watermark (greatest event time so far − bound − 1 ms), and the pipeline has the
least of those that are active. One that has been silent for the idle timeout is idle and holds nothing back:

    needed                                 ▼ 23:00
    UA      allows      20:05 ─────────────┤ holds it back
    B6      allows            21:56 ───────┤ holds it back
    AS      allows  11:19, idle              does not
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from slackwater.inspection.windows.lineage_as_of import LineageAsOf
from slackwater.inspection.windows.window_search import WindowColumns, condition_of
from slackwater.windowing.times import MILLISECOND, to_datetime, to_ms
from slackwater.windowing.triggers import CountTrigger, NeverTrigger
from slackwater.windowing.triggers.counting import COUNT
from slackwater.windowing.watermarks import WatermarkStrategy

# So many snapshots are looked at to say since when a source partition has stood still.
_SNAPSHOTS_LOOKED_AT = 12


class NextEvent(StrEnum):
    FIRING = "firing"
    CLEANUP = "cleanup"
    ELEMENTS = "elements"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class SlowPartition:
    """A source partition that holds the watermark below what a window needs.

    Attributes:
        source_partition: its name; empty for a source without partitions.
        watermark: the watermark that it allows; None before it has carried one.
        since: it has brought nothing of a greater event time since then.
        idle_from: from this end of a tick on it counts as idle, and holds nothing back, if nothing arrives;
            None where partitions never become idle.
    """

    source_partition: str
    watermark: datetime | None
    max_event_time: datetime
    last_arrival: datetime
    since: datetime
    idle_from: datetime | None


@dataclass(frozen=True, kw_only=True)
class WaitsFor:
    """What a window waits for.

    Attributes:
        domain: `event` or `processing`: what must reach `needed_time`; None where no time must.
        needed_time: the watermark, or the time of the clock, at which that happens; None for the end of time.
        present: the present watermark or clock; None for a watermark that has not begun.
        clock: the virtual clock: the end of the newest slice.
        elements_needed: how many elements are lacking until it fires, where that is known.
        needed_event_time: rows of this event time, from each partition that holds it back, would do.
        held_back_by: the source partitions that hold the watermark back, the slowest first.
        is_idle: whether no source partition is active, so that the watermark does not move.
    """

    awaits: NextEvent
    domain: str | None = None
    needed_time: datetime | None = None
    present: datetime | None = None
    clock: datetime | None = None
    elements_needed: int | None = None
    needed_event_time: datetime | None = None
    held_back_by: tuple[SlowPartition, ...] = ()
    is_idle: bool = False

    @property
    def lag(self) -> timedelta | None:
        return None if None in (self.needed_time, self.present) else self.needed_time - self.present  # type: ignore[operator]


def waits_for(
    lineage: LineageAsOf, window: Mapping[str, Any] | None, timers: Sequence[Mapping[str, Any]]
) -> WaitsFor:
    """What a window waits for, by its row in the snapshot (None: it is not open) and its pending timers."""
    progress = lineage.progress()
    totals = progress[0] if progress else {"watermark": None, "clock": None}
    waiting = WaitsFor(awaits=NextEvent.NOTHING, present=totals["watermark"], clock=totals["clock"])
    trigger = lineage.pipeline.effective_trigger
    if window is None or isinstance(trigger.innermost, NeverTrigger):
        return waiting
    firing_timers = [timer for timer in timers if timer["purpose"] != "cleanup"]
    if not firing_timers and not trigger.fires_on_timers:
        elements_needed = _elements_needed(lineage, window)
        return replace(waiting, awaits=NextEvent.ELEMENTS, elements_needed=elements_needed)
    if not timers:
        return waiting
    timer = min(firing_timers or timers, key=lambda one: (one["time"] is None, one["time"]))
    awaits = NextEvent.FIRING if firing_timers else NextEvent.CLEANUP
    waiting = replace(waiting, awaits=awaits, domain=timer["domain"], needed_time=timer["time"])
    if timer["domain"] == "processing":
        return replace(waiting, present=waiting.clock)
    return _add_holders(lineage, waiting, progress)


def _elements_needed(lineage: LineageAsOf, window: Mapping[str, Any]) -> int | None:
    trigger = lineage.pipeline.effective_trigger.innermost
    if not isinstance(trigger, CountTrigger):
        return None
    state = window["trigger_state"]
    count = (json.loads(state) if state else {}).get(COUNT.name, {}).get("reducing")
    return (
        trigger.max_count - count if isinstance(count, int) else trigger.max_count if count is None else None
    )


def _add_holders(lineage: LineageAsOf, waiting: WaitsFor, progress: Sequence[Mapping[str, Any]]) -> WaitsFor:
    """Say which source partitions hold the watermark back, for a window that waits for event time."""
    strategy, partitions = lineage.pipeline.watermarks, progress[1:]
    active = [row for row in partitions if is_active(row, progress[0], strategy)]
    waiting = replace(waiting, is_idle=bool(partitions) and not active)
    needed_time = waiting.needed_time
    if needed_time is None:
        return waiting
    watermarks = [(row, allowed_watermark(row, strategy)) for row in active]
    slow = [(row, watermark) for row, watermark in watermarks if watermark is None or watermark < needed_time]
    slow.sort(key=lambda one: (one[1] or one[0]["max_event_time"], one[0]["source_partition"]))
    standstills = _standstills(lineage, [row for row, _ in slow])
    needed_event_time = None
    if strategy.kind in ("bounded_out_of_orderness", "monotonous"):
        needed_event_time = needed_time + (strategy.out_of_orderness_ms + 1) * MILLISECOND
    return replace(
        waiting,
        needed_event_time=needed_event_time,
        held_back_by=tuple(
            SlowPartition(
                **{name: row[name] for name in ("source_partition", "max_event_time", "last_arrival")},
                watermark=watermark,
                since=standstills[row["source_partition"]],
                idle_from=_idle_from(row["last_arrival"], strategy),
            )
            for row, watermark in slow
        ),
    )


def is_active(row: Mapping[str, Any], totals: Mapping[str, Any], strategy: WatermarkStrategy) -> bool:
    """Whether a source partition holds the watermark back at the next end of a tick if nothing arrives
    before: it is not idle, or has had a row in the tick that the slice's end cuts.
    """
    if not row["idle"] or strategy.idle_timeout_ms is None:
        return True
    tick_start = totals["unfinished_tick_start"]
    return tick_start is not None and bool(row["last_arrival"] >= tick_start)


def allowed_watermark(row: Mapping[str, Any], strategy: WatermarkStrategy) -> datetime | None:
    """The watermark that a source partition allows by its row of `source_progress`; None before it has
    carried one, where rows carry watermarks, and where there are no watermarks at all.
    """
    if strategy.kind == "punctuated":
        return row.get("carried_watermark")
    if strategy.kind == "no_watermarks":
        return None
    return row["max_event_time"] - (strategy.out_of_orderness_ms + 1) * MILLISECOND


def _idle_from(last_arrival: datetime, strategy: WatermarkStrategy) -> datetime | None:
    if strategy.idle_timeout_ms is None:
        return None
    interval_ms = max(strategy.interval_ms, 1)
    return to_datetime(-(-(to_ms(last_arrival) + strategy.idle_timeout_ms) // interval_ms) * interval_ms)


def _standstills(lineage: LineageAsOf, slow: Sequence[Mapping[str, Any]]) -> dict[str, datetime]:
    """Since when each source partition has brought nothing newer: its newest arrival as of the first snapshot
    with its present event time.
    """
    standstills = {row["source_partition"]: row["last_arrival"] for row in slow}
    present = {row["source_partition"]: row["max_event_time"] for row in slow}
    for run in reversed(lineage.live_runs[-1 - _SNAPSHOTS_LOOKED_AT : -1]):
        earlier = {row["source_partition"]: row for row in lineage.progress(run)[1:]}
        present = {
            name: event_time
            for name, event_time in present.items()
            if name in earlier and earlier[name]["max_event_time"] == event_time
        }
        if not present:
            break
        standstills.update({name: earlier[name]["last_arrival"] for name in present})
    return standstills


def timers_of(lineage: LineageAsOf, window: WindowColumns) -> list[dict[str, Any]]:
    rows = lineage.key_rows.parked_rows("timers", lineage.owner, condition_of(window)[0])
    columns = ["time", "domain", "purpose", "service"]
    return sorted(
        rows.select(columns).to_pylist(),
        key=lambda row: (row["time"] is None, row["time"], row["domain"], row["purpose"]),
    )
