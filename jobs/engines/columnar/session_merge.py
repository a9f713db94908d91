"""The range side of sessions: pieces and parked sessions are put together, fired, merged for each tardy
element, and parked again.

The kernel says which rows make up what; here they are combined.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.contents import combined, restored_accumulators
from slackwater.jobs.engines.columnar.families import (
    NONE,
    Late,
    Merged,
    OpenWindows,
    Panes,
    Part,
    Setting,
    Timers,
    join_each,
    take_each,
)
from slackwater.jobs.engines.columnar.firing import results_of
from slackwater.jobs.engines.columnar.fixed_split import accumulator_names
from slackwater.jobs.engines.columnar.late_order import in_order_of_arrival
from slackwater.jobs.engines.columnar.session_split import (
    DOUBTFUL,
    ELEMENTS,
    END,
    FIRST,
    LAST,
    PIECES,
    START,
    TARDY,
)
from slackwater.jobs.engines.columnar.tables import milliseconds
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups
from slackwater.windowing.columnar.session_chains import SessionRules, TardyElements
from slackwater.windowing.columnar.session_rows import (
    LATE,
    NO_CONTENTS,
    ON_TIME,
    WITHDRAWN,
    SessionColumns,
    SessionPanes,
    rows_of,
    together,
)
from slackwater.windowing.columnar.sessions import replay_sessions

_PLACE = "__place"
_KINDS = {ON_TIME: "on_time", LATE: "late", WITHDRAWN: "withdrawn"}


@dataclass(frozen=True)
class SessionMerge:
    """Merges what a range has received, for one pipeline and slice."""

    setting: Setting
    rules: SessionRules

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        restored = self._restored(parked)
        pieces, of_pieces = self._pieces(received[PIECES])
        tardy, places, rows = self._tardy(received[TARDY], received[DOUBTFUL])
        replayed = replay_sessions(
            together([restored, pieces]), len(restored.keys), tardy, self.rules, self.setting.timeline
        )
        of_tardy = [
            aggregate.partial(rows, Groups.of_each(rows.num_rows)) for aggregate in self.setting.aggregates
        ]
        held = combined(
            self.setting,
            replayed.contents,
            join_each([restored_accumulators(parked.rows, self.setting), of_pieces, of_tardy]),
        )
        panes = [self._panes(replayed.panes, kind, held) for kind in _KINDS]
        windows, timers = self._park(replayed.open, held)
        doubtful = received[DOUBTFUL].rows.num_rows
        counts = {
            "rows_accepted": doubtful - len(replayed.late),
            "rows_late": len(replayed.late),
            "assignments_made": doubtful - len(replayed.late),
            "assignments_cleaned": replayed.elements_cleaned,
            "windows_opened": replayed.opened,
            "windows_merged": replayed.merged,
            "windows_cleaned": replayed.cleaned,
            "windows_open": len(windows.keys),
            "windows_fired": len(panes[ON_TIME].keys),
            "windows_refired": len(panes[LATE].keys),
            "timers_pending": sum(len(part.keys) for part in timers),
        }
        return Merged(panes, windows, timers, counts, {DOUBTFUL: self._late(tardy, places, replayed.late)})

    def _restored(self, parked: Part) -> SessionColumns:
        rows = parked.rows
        return SessionColumns(
            parked.keys,
            milliseconds(rows.column("window_start")),
            milliseconds(rows.column("window_end")),
            rows.column("elements").to_numpy(),
            rows.column("firings").to_numpy(),
            milliseconds(rows.column("last_fired_at")),
            milliseconds(rows.column("first_arrival")),
            milliseconds(rows.column("last_arrival")),
            np.full(rows.num_rows, NO_CONTENTS),
        )

    def _pieces(self, part: Part) -> tuple[SessionColumns, list[Columns]]:
        start, end, elements, first, last = (
            part.rows.column(name).to_numpy() for name in (START, END, ELEMENTS, FIRST, LAST)
        )
        never, nothing = np.full(len(start), NONE), np.full(len(start), NO_CONTENTS)
        sessions = SessionColumns(
            part.keys, start, end, elements, np.zeros(len(start), np.int64), never, first, last, nothing
        )
        return sessions, [
            [part.rows.column(name).combine_chunks() for name in names]
            for names in accumulator_names(self.setting)
        ]

    def _tardy(self, certain: Part, doubtful: Part) -> tuple[TardyElements, Longs, pa.Table]:
        """Tardy elements in order of arrival, the place of each among the doubtful ones (-1: it is not one),
        and their rows.
        """
        names = certain.rows.column_names
        places = np.append(np.full(certain.rows.num_rows, -1), np.arange(doubtful.rows.num_rows))
        rows = pa.concat_tables([certain.rows, doubtful.rows.select(names)]).append_column(
            _PLACE, pa.array(places)
        )
        keys, rows = in_order_of_arrival(self.setting, Part(np.append(certain.keys, doubtful.keys), rows))
        clocks = self.setting.clocks(rows.column(ARRIVAL).to_numpy())
        watermarks = self.setting.timeline.at_arrival(clocks)
        return (
            TardyElements(keys, rows.column(EVENT).to_numpy(), clocks, watermarks),
            rows.column(_PLACE).to_numpy(),
            rows,
        )

    def _panes(self, panes: SessionPanes, kind: int, held: list[Columns]) -> Panes:
        """The firings of one kind."""
        own = rows_of(panes, panes.kinds == kind)
        results = None
        if kind != WITHDRAWN:
            results = results_of(self.setting, take_each(held, own.contents), own.keys, own.starts, own.ends)
        return Panes(
            _KINDS[kind],
            own.keys,
            own.starts,
            own.ends,
            own.firings,
            results,
            own.elements,
            own.watermarks,
            own.tick_ends,
            own.causes,
        )

    def _park(self, sessions: SessionColumns, held: list[Columns]) -> tuple[OpenWindows, list[Timers]]:
        """Sessions that stay open, sorted, with their timers."""
        sessions = rows_of(sessions, np.lexsort((sessions.starts, sessions.keys)))
        keys, starts, ends = sessions.keys, sessions.starts, sessions.ends
        last_instants, cleanups = ends - 1, ends - 1 + self.rules.lateness_ms
        waits = last_instants > self.setting.timeline.final
        is_empty = sessions.contents == NO_CONTENTS
        windows = OpenWindows(
            keys,
            starts,
            ends,
            sessions.elements,
            sessions.firings,
            sessions.last_fired_at,
            np.where(waits, last_instants, NONE),
            cleanups,
            sessions.first_arrivals,
            sessions.last_arrivals,
            take_each(held, sessions.contents[~is_empty]),
            is_empty,
        )
        firing = Timers("fire", keys[waits], starts[waits], ends[waits], last_instants[waits])
        if not self.rules.lateness_ms:
            rest = Timers("cleanup", keys[~waits], starts[~waits], ends[~waits], cleanups[~waits])
            return windows, [firing._replace(purpose="fire+cleanup"), rest]
        return windows, [firing, Timers("cleanup", keys, starts, ends, cleanups)]

    def _late(self, tardy: TardyElements, places: Longs, late: Longs) -> Late:
        starts = tardy.times[late]
        return Late(
            places[late], tardy.watermarks[late], np.arange(len(late)), starts, starts + self.rules.gap_ms
        )
