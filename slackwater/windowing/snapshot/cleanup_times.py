"""Moves a snapshot's cleanup timers to the declared allowed lateness; one comparison if none moves."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.snapshot.layout import SnapshotLayout
from slackwater.windowing.snapshot.times import TIME

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
