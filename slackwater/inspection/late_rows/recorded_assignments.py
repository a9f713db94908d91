"""Reads what a lineage has recorded of rows that came after their window's end: for each such row and window
the lateness that it needed, whether it was taken or not.

    need = watermark at the row's arrival − last millisecond of the window + 1

is the least allowed lateness with which the window takes the row. Rows that were taken are in panes of kind
``late``: how many is the rise of `elements`. Rows that no window took are in `late_events`. A need of 0 is
given to all rows that a window had at its first firing.

Of many windows a sample is read, chosen by a hash of key group and end, so that all rows of a window are in
it or none; a share of windows is then an estimate, and counts are scaled up.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, WindowsOfRow
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.sql import quoted

Longs = npt.NDArray[np.int64]
# So many panes and late rows are looked at, at most; of more a sample.
SAMPLE_ROWS = 400_000
# The kinds of entries, in the order of the entries of a window.
_OTHER_PANE, _LATE_PANE, _LOST_ROW = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class RecordedAssignments:
    """Rows at windows that had ended, sorted by window; columns of equal length. One entry for the rows of a
    first firing, for the rows of each later pane, and for each row that was not taken.

    Attributes:
        windows: the number of the window, from 0, without gaps.
        needed_ms: the least lateness with which the window takes the row; 0 for rows on time.
        rows: how many rows a firing has more than the one before it.
        firings: the number of the firing that they cause, or would have caused; with `late_refires` rows of
            one tick or run share it. −1 for rows on time.
        last_instants: int64[number of windows]: the last millisecond of each window.
        one_in: of how many windows one was read; 1: all.
        are_whole: bool[number of windows]: whether all rows of a window are here; None: of all.
        needs_of_rows: for each row the least lateness with which one of its windows takes it, ascending; None
            where rows on time have not been read, whose need is below 0.
    """

    windows: Longs
    needed_ms: Longs
    rows: Longs
    is_taken: npt.NDArray[np.bool_]
    firings: Longs
    last_instants: Longs
    one_in: int = 1
    are_whole: npt.NDArray[np.bool_] | None = None
    needs_of_rows: Longs | None = None

    @property
    def is_sample(self) -> bool:
        return self.one_in > 1

    def rows_lost(self, lateness_ms: int) -> int:
        return self.count_of_all(self.rows[self.is_taken & (self.needed_ms > lateness_ms)].sum())

    def refires(self, lateness_ms: int) -> int:
        return self.count_of_all(np.searchsorted(self._needs_of_firings, lateness_ms, side="right"))

    def windows_refired(self, lateness_ms: int) -> int:
        return self.count_of_all(np.searchsorted(self._needs_of_windows, lateness_ms, side="right"))

    def late_rows(self, lateness_ms: int) -> int | None:
        """How many rows are too late for all of their windows under this lateness; None where rows on time
        have not been read.
        """
        if self.needs_of_rows is None:
            return None
        return len(self.needs_of_rows) - int(np.searchsorted(self.needs_of_rows, lateness_ms, side="right"))

    @cached_property
    def fired_ends(self) -> Longs:
        took_rows = np.bincount(self.windows[self.is_taken], minlength=len(self.last_instants)) > 0
        return np.sort(self.last_instants[took_rows])

    @cached_property
    def _needs_of_firings(self) -> Longs:
        return _least_needs(self.firings, self.needed_ms, self.firings >= 0)

    @cached_property
    def _needs_of_windows(self) -> Longs:
        return _least_needs(self.windows, self.needed_ms, self.firings >= 0)

    def count_of_all(self, count: Any) -> int:
        return int(count) * self.one_in

    @classmethod
    def of(cls, views: LineageViews, settings: LatenessSettings) -> "RecordedAssignments":
        """What the runs of `settings` have recorded; `views` have the rows of these runs alone."""
        rows = sum(run.recorded_rows for run in settings.runs)
        one_in = 1
        while rows > one_in * SAMPLE_ROWS:
            one_in *= 2
        entries = views.query(
            f"{_panes_sql(views, settings, one_in)} UNION ALL {_late_rows_sql(views, settings, one_in)}"
        )
        columns: dict[str, Any] = {name: entries.column(name).to_numpy() for name in entries.column_names}
        return _assignments(columns, settings, one_in)


def _least_needs(numbers: Longs, needed_ms: Longs, counts: npt.NDArray[np.bool_]) -> Longs:
    numbers, needed_ms = numbers[counts], needed_ms[counts]
    order = np.lexsort((needed_ms, numbers))
    return np.sort(needed_ms[order][differs_from_before(numbers[order])])


def _panes_sql(views: LineageViews, settings: LatenessSettings, one_in: int) -> str:
    keys = _keys(views)
    windows = list(map(quoted, views.inspection.window_columns()))
    return f"""
        SELECT {_identity(settings, keys, windows)} AS window, coalesce(epoch_ms(window_start), 0) AS start,
            epoch_ms(window_end) AS "end",
            CASE WHEN kind = 'late' THEN epoch_ms(watermark) - epoch_ms(window_end) + 2 ELSE 0 END AS needed,
            elements, (kind = 'late')::INTEGER AS manner, firing,
            {_place(settings, "coalesce(cause_arrival, tick_end)")} AS place
        FROM panes_live
        WHERE kind IN ('early', 'on_time', 'late') AND ordinal = 0 AND window_end IS NOT NULL
            {_is_in_sample(settings, keys, "window_end", one_in)}
    """


def _late_rows_sql(views: LineageViews, settings: LatenessSettings, one_in: int) -> str:
    keys = _keys(views)
    names = [name.removeprefix("window_") for name in views.inspection.window_columns()[:2]]
    names += views.inspection.window_columns()[2:]
    has_one = settings.windows_of_row is not WindowsOfRow.SEVERAL
    windows, start, end = "windows[1]" if has_one else "unnest(windows)", '__missed."start"', '__missed."end"'
    return f"""
        SELECT {_identity(settings, keys, [f"__missed.{quoted(name)}" for name in names])},
            coalesce(epoch_ms({start}), 0), epoch_ms({end}), epoch_ms(watermark) - epoch_ms({end}) + 2, 1,
            {_LOST_ROW}, 0, {_place(settings, "arrival_time")}
        FROM (
            SELECT {", ".join([*keys, "key_group", "watermark", "arrival_time", "run_seq"])},
                {windows} AS __missed
            FROM late_live
            WHERE watermark IS NOT NULL AND len(windows) > 0
        )
        WHERE true {_is_in_sample(settings, keys, end, one_in)}
    """


def _keys(views: LineageViews) -> list[str]:
    return list(map(quoted, views.inspection.key_columns()))


def _identity(settings: LatenessSettings, keys: list[str], windows: list[str]) -> str:
    """SQL for a number that tells windows apart; where they merge, keys."""
    values = keys if settings.windows_of_row is WindowsOfRow.MERGING else [*keys, *windows]
    return f"hash({', '.join(values or ['0'])})"


def _is_in_sample(settings: LatenessSettings, keys: list[str], end: str, one_in: int) -> str:
    """SQL for whether a window is in the sample. Keys are hashed only where windows merge: hashing texts of
    many rows takes too long.
    """
    if one_in == 1:
        return ""
    is_merging = settings.windows_of_row is WindowsOfRow.MERGING
    values = (keys or ["0"]) if is_merging else ["key_group", end]
    return f"AND hash({', '.join(values)}) % {one_in} = 0"


def _place(settings: LatenessSettings, moment: str) -> str:
    """SQL for a number that is equal where rows of one window share a firing; for sessions the moment."""
    if settings.windows_of_row is WindowsOfRow.MERGING:
        return f"coalesce(epoch_ms({moment}), 0)"
    match settings.late_refires:
        case "tick":
            return f"coalesce(epoch_ms({moment}), 0) // {settings.interval_ms}"
        case "run":
            return "run_seq"
        case _:
            return "0"


def _assignments(columns: dict[str, Any], settings: LatenessSettings, one_in: int) -> RecordedAssignments:
    is_merging = settings.windows_of_row is WindowsOfRow.MERGING
    if is_merging:
        columns["window"] = _sessions_of(columns["window"], columns["start"], columns["end"])
    moments = columns["place"] if is_merging else columns["firing"]
    is_lost = columns["manner"] == _LOST_ROW
    order = np.lexsort((columns["elements"], columns["firing"], moments, is_lost, columns["window"]))
    columns = {name: values[order] for name, values in columns.items()}
    manner, is_lost = columns["manner"], is_lost[order]
    is_first = differs_from_before(columns["window"])
    windows = np.cumsum(is_first) - 1
    rows = columns["elements"].astype(np.int64)
    if is_merging:
        panes = (column[~is_lost] for column in (windows, columns["start"], columns["end"], rows))
        rows[~is_lost] = _rise_of_elements(*panes)
    else:
        follows_pane = ~is_first & ~is_lost
        rows[follows_pane] -= columns["elements"][np.flatnonzero(follows_pane) - 1]
        # The panes before a window's first one here are of earlier runs: how many rows they had is not known.
        rows[is_first & (manner == _LATE_PANE) & (columns["firing"] > 1)] = 1
    ends = columns["end"].astype(np.int64)
    return RecordedAssignments(
        windows=windows,
        needed_ms=columns["needed"].astype(np.int64),
        rows=rows,
        is_taken=~is_lost,
        firings=np.where(manner == _OTHER_PANE, -1, _firing_numbers(columns, windows, settings)),
        last_instants=np.maximum.reduceat(ends, np.flatnonzero(is_first)) - 1 if len(ends) else ends,
        one_in=one_in,
    )


def _firing_numbers(columns: dict[str, Any], windows: Longs, settings: LatenessSettings) -> Longs:
    if settings.late_refires == "element" or settings.windows_of_row is WindowsOfRow.MERGING:
        return np.arange(len(windows))
    sharers = columns["place"]
    order = np.lexsort((sharers, windows))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(differs_from_before(windows[order], sharers[order]))
    return numbers


def differs_from_before(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """For each row of sorted columns whether one of its values differs from that of the row before; true for
    the first.
    """
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return differs


def _sessions_of(keys: npt.NDArray[np.uint64], starts: Longs, ends: Longs) -> Longs:
    """The number of the session of each recorded firing and late row: the one that all of them would have
    made. Sessions merge, so one session may have fired under several bounds; a late row that no session took
    may have belonged to one of them. Windows of a key that touch are one session here, whether they merged or
    not:

        fired      ├── 3 rows ──┤      ├── 2 rows ──┤
        late row            ├── t ──┤ ├── t ──┤          one session of 7 rows, 5 of them on time
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    order = np.lexsort((ends, starts, keys))
    # Times of each key are moved behind those of the key before, so that one running maximum does for all.
    first = starts.min()
    offsets = (np.cumsum(differs_from_before(keys[order])) - 1) * (ends.max() - first + 2)
    latest_end = np.maximum.accumulate(ends[order] - first + offsets)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = starts[order][1:] - first + offsets[1:] > latest_end[:-1]
    sessions = np.empty(len(order), np.int64)
    sessions[order] = np.cumsum(is_new) - 1
    return sessions


def _rise_of_elements(sessions: Longs, starts: Longs, ends: Longs, elements: Longs) -> Longs:
    """How many rows each firing has more than the firings before it of the windows that it has absorbed, or
    of the same window. The entries of a session are adjacent, in the order in which it fired.
    """
    rises = elements.copy()
    fired_elements: dict[tuple[int, int], int] = {}
    session_before = -1
    columns = (column.tolist() for column in (sessions, starts, ends, elements))
    for place, (session, start, end, count) in enumerate(zip(*columns, strict=True)):
        if session != session_before:
            fired_elements, session_before = {}, session
        absorbed_windows = [window for window in fired_elements if start <= window[0] and window[1] <= end]
        rises[place] = max(count - sum(fired_elements.pop(window) for window in absorbed_windows), 0)
        fired_elements[start, end] = count
    return rises
