"""Pending timers ↔ rows of `timers`, each with its purpose. In RocksDB's order timers are a set, and rows are
sorted; a heap's order depends on its history, so rows keep it inside a key group.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.errors import SnapshotTimeError, SnapshotTimerError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.runtime.operator_snapshot import TimerSnapshot
from slackwater.windowing.runtime.timer_queue import Timer
from slackwater.windowing.snapshot.columns import WINDOW
from slackwater.windowing.snapshot.layout import SnapshotLayout, WindowLayout
from slackwater.windowing.snapshot.times import TIME, due_times, sort_rows, times_to_ms
from slackwater.windowing.windows import GLOBAL_WINDOW, Window


class TimerRow(NamedTuple):
    """One pending timer. `domain` is event or processing; `purpose` is fire (the window's last instant),
    cleanup, fire+cleanup, trigger (any other of a window's) or user (without a window).
    """

    key_group: int
    key: Any
    window: Window | None
    service: str
    domain: str
    time: int
    purpose: str


def timer_rows(parts: Iterable[TimerSnapshot], layout: SnapshotLayout) -> list[TimerRow]:
    """One row per timer, in the order of the parts."""
    windows = layout.windows
    # Cached: many keys have the same windows.
    purpose = cache(lambda domain, time, window: _purpose(windows, domain, time, window))
    # By position: a snapshot may have millions of timers, and keywords cost half as much again.
    return [
        TimerRow(part.key_group, key, window, part.service, domain, time, purpose(domain, time, window))
        for part in parts
        for domain, timers in (("event", part.event), ("processing", part.processing))
        for time, key, window in timers
    ]


def _purpose(windows: WindowLayout | None, domain: str, time: int, window: Window | None) -> str:
    if windows is None or window is None:
        return "user"
    if (domain == "event") is not windows.is_event_time:
        return "trigger"
    fires = windows.trigger.fires_on_timers and time == window.max_timestamp()
    cleans = time == windows.cleanup_time(window) and time != LONG_MAX
    return "fire+cleanup" if fires and cleans else "fire" if fires else "cleanup" if cleans else "trigger"


def next_firings(rows: Iterable[TimerRow]) -> dict[tuple[Any, Window], int]:
    """(key, window) → time of its first timer that may fire it before the end of the stream (Long.MAX)."""
    firings: dict[tuple[Any, Window], int] = {}
    for row in rows:
        if row.purpose not in ("cleanup", "user") and row.time != LONG_MAX:
            whose = (row.key, row.window)
            firings[whose] = min(row.time, firings.get(whose, row.time))
    return firings


def timer_table(rows: list[TimerRow], layout: SnapshotLayout) -> pa.Table:
    """Rows of `timers`, by key group; inside one sorted, or in the snapshot's order. Long.MAX is null."""
    schema = layout.schemas()["timers"]
    if not rows:
        return schema.empty_table()
    columns = {
        "key_group": pa.array([row.key_group for row in rows], pa.int32()),
        **layout.keys.arrays([row.key for row in rows]),
        **layout.window_columns.arrays(row.window for row in rows),
        "service": pa.array([row.service for row in rows], pa.string()),
        "domain": pa.array([row.domain for row in rows], pa.string()),
        "time": _due_times(rows, layout),
        "purpose": pa.array([row.purpose for row in rows], pa.string()),
    }
    order_in_key_group = (
        []
        if layout.keeps_timer_order
        else [*layout.keys.names, *layout.window_columns.names(), "service", "domain", "time"]
    )
    return sort_rows(pa.table(columns, schema=schema), ["key_group", *order_in_key_group])


def _due_times(rows: list[TimerRow], layout: SnapshotLayout) -> pa.Array:
    try:
        return due_times([row.time for row in rows], "time")
    except SnapshotTimeError as error:
        row = next(row for row in rows if row.time == error.time)
        raise SnapshotTimerError(
            f"{layout.timer_owner} has registered a timer of {row.domain} time at {row.time} ms, which no "
            "timestamp can hold: they end some 292,000 years from 1970. A timer that is never due is not "
            f"registered, or at Long.MAX ({LONG_MAX}) [key {row.key!r}, window {row.window!r}]",
            column="time",
            time=row.time,
        ) from error


def restore_timers(rows: pa.Table, layout: SnapshotLayout) -> list[TimerSnapshot]:
    """Timers by service and key group, from rows; cleanup timers move to the layout's allowed lateness."""
    rows = with_declared_cleanup(rows, layout)
    columns = zip(
        rows.column("key_group").to_pylist(),
        layout.keys.values(rows),
        layout.window_columns.values(rows, WINDOW, None if layout.windows is None else GLOBAL_WINDOW),
        rows.column("service").to_pylist(),
        rows.column("domain").to_pylist(),
        times_to_ms(rows.column("time")),
        strict=True,
    )
    parts: dict[tuple[str, int], dict[str, list[Timer]]] = {}
    for group, key, window, service, domain, time in columns:
        timers = parts.setdefault((service, group), {"event": [], "processing": []})
        timers[domain].append((LONG_MAX if time is None else time, key, window))
    return [
        TimerSnapshot(service, group, tuple(timers["event"]), tuple(timers["processing"]))
        for (service, group), timers in sorted(parts.items())
    ]


_FIRES_TOO: Final = "fire+cleanup"


def with_declared_cleanup(rows: pa.Table, layout: SnapshotLayout) -> pa.Table:
    """`rows` of `timers` with every cleanup timer at its window's last instant + the layout's lateness.

    A timer that also fires its window stays, and the window gets a cleanup timer of its own. A trigger's
    timer at the moment of the old cleanup moves along. Flink moves nothing: there, windows restored under
    another lateness are never collected.
    """
    windows = layout.windows
    if windows is None or not windows.is_event_time:
        return rows
    due = pc.add(
        pc.subtract(rows.column("window_end").cast(pa.int64()), 1000), windows.allowed_lateness_ms * 1000
    ).cast(TIME)
    cleans = pc.is_in(rows.column("purpose"), pa.array(["cleanup", _FIRES_TOO]))
    moves = pc.and_(cleans, pc.fill_null(pc.not_equal(rows.column("time"), due), False))
    if not pc.any(moves).as_py():
        return rows
    stays = pc.or_(pc.invert(moves), pc.equal(rows.column("purpose"), _FIRES_TOO))
    staying_rows, moved_rows = (
        rows.filter(stays),
        rows.set_column(rows.schema.get_field_index("time"), "time", due).filter(moves),
    )
    staying_timers = set(
        _timer_identities(
            staying_rows.filter(pc.equal(staying_rows.column("time"), due.filter(stays))), layout
        )
    )
    are_new = [timer not in staying_timers for timer in _timer_identities(moved_rows, layout)]
    return pa.concat_tables([staying_rows, moved_rows.filter(pa.array(are_new, pa.bool_()))])


def _timer_identities(rows: pa.Table, layout: SnapshotLayout) -> list[tuple[Any, ...]]:
    """The identity of each timer: a service holds a timer of one identity once."""
    names = (*layout.keys.names, *layout.window_columns.names(), "service", "domain", "time")
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
