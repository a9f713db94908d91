"""Walks chains of sessions and tardy elements one by one, element by element.

Flink's rules for one key: sessions fire when the watermark reaches their last instant, sessions that an
element touches merge, late elements are dropped. The only kernel that works row by row; it loops over tardy
elements and the sessions they touch, never over the elements inside a session.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slackwater.windowing.columnar.sessions.chains import SessionRules, TardyChains, WalkResult
from slackwater.windowing.columnar.sessions.paths import RunningRows
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    OpenWindows,
    PaneKind,
    columns_of,
)

# (time, clock, watermark, its row among those that make up contents, its place in order of arrival)
TardyElement: TypeAlias = tuple[int, int, int, int, int]


@dataclass(slots=True, eq=False)
class Session:
    """A session in flight, as in OpenWindows. `path`: rows of its contents, oldest first; None if purged."""

    start: int
    end: int
    elements: int
    firings: int
    fired_at: int
    first_arrival: int
    last_arrival: int
    path: list[int] | None


class Walk:
    def __init__(self, rules: SessionRules, timeline: Timeline, chains: TardyChains) -> None:
        self.rules = rules
        self.chains = chains
        self._watermarks: list[int] = timeline.watermarks.tolist()
        self._tick_ends: list[int] = timeline.tick_ends.tolist()
        self._firings: list[tuple[int, ...]] = []
        self._in_flight: list[tuple[int, ...]] = []
        self._late: list[int] = []
        self._picks: list[tuple[list[int], int]] = []  # (path, length): contents are its first rows
        self._opened_count = self._merged_count = self._cleaned_count = self._elements_cleaned = 0

    def walk(self) -> WalkResult:
        """Walk the chains, once. Called by `replay_sessions`."""
        chains = self.chains
        lists = [part.tolist() for part in np.split(chains.rows, np.cumsum(chains.lengths)[:-1])]
        sessions_of_chains: list[list[Session]] = [[] for _ in chains.keys]
        columns = (column.tolist() for column in chains.sessions)
        for chain, start, end, elements, firings, fired_at, first, last, number in zip(*columns, strict=True):
            path = None if number == NO_CONTENTS else lists[number]
            sessions_of_chains[chain].append(
                Session(
                    start=start,
                    end=end,
                    elements=elements,
                    firings=firings,
                    fired_at=fired_at,
                    first_arrival=first,
                    last_arrival=last,
                    path=path,
                )
            )
        for key, sessions, first, count in zip(
            chains.keys.tolist(),
            sessions_of_chains,
            chains.firsts.tolist(),
            chains.counts.tolist(),
            strict=True,
        ):
            elements_of_chain = slice(first, first + count)
            facts = (*chains.elements[1:], chains.row_numbers, chains.positions)
            self._walk_chain(
                key, sessions, zip(*(column[elements_of_chain].tolist() for column in facts), strict=True)
            )
        return WalkResult(
            firings=columns_of(Firings, self._firings),
            in_flight=columns_of(OpenWindows, self._in_flight),
            running=self._running_rows(),
            late=np.array(self._late, np.int64),
            sessions_opened=self._opened_count,
            sessions_merged=self._merged_count,
            sessions_cleaned=self._cleaned_count,
            elements_cleaned=self._elements_cleaned,
        )

    def _walk_chain(self, key: int, sessions: list[Session], elements: Iterable[TardyElement]) -> None:
        """Walk one chain of a key. A session's timers matter to other sessions only when an element touches
        it, so it fires and is collected only then, or after the walk.

        `sessions`, in order, do not touch each other and already hold all of their harmless elements; the
        list is changed. `elements` are the tardy ones in order of arrival.
        """
        gap, is_late = self.rules.gap_ms, self.rules.is_late
        starts = [session.start for session in sessions]
        for time, clock, watermark, row, position in elements:
            first = beyond = bisect_right(starts, time + gap)
            while first and sessions[first - 1].end >= time:
                if self._fire_on_time(key, sessions[first - 1], watermark):
                    del sessions[first - 1], starts[first - 1]
                    beyond -= 1
                first -= 1
            touched_sessions = sessions[first:beyond]
            start, end = time, time + gap
            if touched_sessions:
                start, end = min(start, touched_sessions[0].start), max(end, touched_sessions[-1].end)
            if is_late(end - 1, watermark):
                self._late.append(position)
                continue
            if (
                len(touched_sessions) == 1
                and touched_sessions[0].start == start
                and touched_sessions[0].end == end
            ):
                session = touched_sessions[0]
            else:
                session = self._merge(key, touched_sessions, start, end, clock=clock, watermark=watermark)
                sessions[first:beyond], starts[first:beyond] = [session], [start]
            self._add_element(key, session, clock, watermark, row)
        for session in sessions:
            self._park(key, session)

    def _fire_on_time(self, key: int, session: Session, watermark: int) -> bool:
        """Fire the session if the watermark has reached its last instant; True if it is collected as well."""
        last_instant = session.end - 1
        if last_instant > watermark:
            return False
        if not session.firings:
            rise = bisect_left(self._watermarks, last_instant)
            self._fire(
                key,
                session,
                PaneKind.ON_TIME,
                watermark=self._watermarks[rise],
                tick_end=self._tick_ends[rise],
                cause=NO_TIME,
            )
        is_collected = self.rules.is_late(last_instant, watermark)
        if is_collected:
            self._cleaned_count += 1
            self._elements_cleaned += session.elements
        return is_collected

    def _merge(
        self,
        key: int,
        absorbed_sessions: Sequence[Session],
        start: int,
        end: int,
        *,
        clock: int,
        watermark: int,
    ) -> Session:
        """The session [start, end) that an element opens, extends or merges; the element is added later."""
        new_session = Session(
            start=start,
            end=end,
            elements=0,
            firings=0,
            fired_at=NO_TIME,
            first_arrival=clock,
            last_arrival=clock,
            path=None,
        )
        for session in absorbed_sessions:
            new_session.elements += session.elements
            new_session.first_arrival = min(new_session.first_arrival, session.first_arrival)
            new_session.last_arrival = max(new_session.last_arrival, session.last_arrival)
            if session.firings:
                self._merged_count += 1
                self._opened_count += 1
                if self.rules.accumulates:
                    moments = (watermark, NO_TIME, clock)
                    facts = (session.firings + 1, PaneKind.WITHDRAWN, 0, *moments, NO_CONTENTS)
                    self._firings.append((key, session.start, session.end, *facts))
        paths = sorted(
            (session.path for session in absorbed_sessions if session.path is not None), key=len, reverse=True
        )
        if paths:
            new_session.path = paths[0]
            for path in paths[1:]:
                new_session.path.extend(path)
        self._opened_count += 1 - len(absorbed_sessions)
        return new_session

    def _add_element(self, key: int, session: Session, clock: int, watermark: int, row: int) -> None:
        session.elements += 1
        if clock > session.last_arrival:
            session.last_arrival = clock
        if session.path is None:
            session.path = [row]
        else:
            session.path.append(row)
        if session.end - 1 <= watermark:
            self._fire(key, session, PaneKind.LATE, watermark=watermark, tick_end=NO_TIME, cause=clock)

    def _fire(
        self, key: int, session: Session, kind: int, *, watermark: int, tick_end: int, cause: int
    ) -> None:
        session.firings += 1
        session.fired_at = tick_end if cause == NO_TIME else cause
        facts = (session.firings, kind, session.elements, watermark, tick_end, cause, self._pick(session))
        self._firings.append((key, session.start, session.end, *facts))
        if not self.rules.accumulates:
            session.path = None

    def _pick(self, session: Session) -> int:
        """Pick the session's contents as they are now: the number of the pick."""
        if session.path is None:
            return NO_CONTENTS
        self._picks.append((session.path, len(session.path)))
        return len(self._picks) - 1

    def _park(self, key: int, session: Session) -> None:
        facts = (
            session.elements,
            session.firings,
            session.fired_at,
            session.first_arrival,
            session.last_arrival,
        )
        self._in_flight.append((key, session.start, session.end, *facts, self._pick(session)))

    def _running_rows(self) -> RunningRows:
        begins: dict[int, int] = {}
        rows: list[int] = []
        picks = []
        for path, length in self._picks:
            if id(path) not in begins:
                begins[id(path)] = len(rows)
                rows += path
            picks.append(begins[id(path)] + length - 1)
        return RunningRows(*(np.array(column, np.int64) for column in (rows, list(begins.values()), picks)))
