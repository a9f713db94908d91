"""The sessions that tardy elements concern, element by element: small loops over sessions, not over the
elements that they hold.

Flink's rules for one key: fire at the watermark, merge what touches, drop what is late. No column is read or
written row by row elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slackwater.windowing.columnar.sessions.chains import ConcernedChains, SessionRules, Walked
from slackwater.windowing.columnar.sessions.paths import Running
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    OpenWindows,
    PaneKind,
    columns_of,
)

# One of them: time, clock, watermark, its row among those that make up contents, its place in order of
# arrival.
TardyElement: TypeAlias = tuple[int, int, int, int, int]


@dataclass(slots=True, eq=False)
class Session:
    """One session in flight; see OpenWindows. `path` are the rows that make up its contents, oldest first;
    None after a purge.
    """

    start: int
    end: int
    elements: int
    firings: int
    fired_at: int
    first_arrival: int
    last_arrival: int
    path: list[int] | None


class Walk:
    """Walks chain after chain, and keeps what came of them."""

    def __init__(self, rules: SessionRules, timeline: Timeline) -> None:
        self.rules = rules
        self._watermarks: list[int] = timeline.watermarks.tolist()
        self._tick_ends: list[int] = timeline.tick_ends.tolist()
        self._firings: list[tuple[int, ...]] = []
        self._in_flight: list[tuple[int, ...]] = []
        self._late: list[int] = []
        self._picks: list[tuple[list[int], int]] = []  # (path, length): contents are the first rows of it
        self._opened = self._merged = self._cleaned = self._elements_cleaned = 0

    def walk(self, chains: ConcernedChains) -> Walked:
        """Walk these chains. Called by `replay_sessions`."""
        lists = [part.tolist() for part in np.split(chains.rows, np.cumsum(chains.lengths)[:-1])]
        sessions_of_chains: list[list[Session]] = [[] for _ in chains.keys]
        columns = (column.tolist() for column in chains.sessions)
        for chain, start, end, elements, firings, fired_at, first, last, number in zip(*columns, strict=True):
            path = None if number == NO_CONTENTS else lists[number]
            sessions_of_chains[chain].append(
                Session(start, end, elements, firings, fired_at, first, last, path)
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
            self._chain(
                key, sessions, zip(*(column[elements_of_chain].tolist() for column in facts), strict=True)
            )
        return Walked(
            firings=columns_of(Firings, self._firings),
            in_flight=columns_of(OpenWindows, self._in_flight),
            running=self._written(),
            late=np.array(self._late, np.int64),
            opened=self._opened,
            merged=self._merged,
            cleaned=self._cleaned,
            elements_cleaned=self._elements_cleaned,
        )

    def _chain(self, key: int, sessions: list[Session], elements: Iterable[TardyElement]) -> None:
        """Walk one chain of a key.

        A session's timers matter to others only when an element touches it, so it fires and is collected
        then, or after the walk.

        Args:
            sessions: those that do not touch each other, in order; what harmless elements belong to them is
                there already. Changed.
            elements: in order of arrival.
        """
        gap, is_late = self.rules.gap_ms, self.rules.is_late
        starts = [session.start for session in sessions]
        for time, clock, watermark, row, position in elements:
            first = beyond = bisect_right(starts, time + gap)
            while first and sessions[first - 1].end >= time:
                if self._rise(key, sessions[first - 1], watermark):
                    del sessions[first - 1], starts[first - 1]
                    beyond -= 1
                first -= 1
            touched = sessions[first:beyond]
            start, end = time, time + gap
            if touched:
                start, end = min(start, touched[0].start), max(end, touched[-1].end)
            if is_late(end - 1, watermark):
                self._late.append(position)
                continue
            if len(touched) == 1 and touched[0].start == start and touched[0].end == end:
                session = touched[0]
            else:
                session = self._merge(key, touched, start, end, clock, watermark)
                sessions[first:beyond], starts[first:beyond] = [session], [start]
            self._add(key, session, clock, watermark, row)
        for session in sessions:
            self._leave(key, session)

    def _rise(self, key: int, session: Session, watermark: int) -> bool:
        """Fire the session if the watermark has reached its last instant; whether it is collected, too."""
        last_instant = session.end - 1
        if last_instant > watermark:
            return False
        if not session.firings:
            rise = bisect_left(self._watermarks, last_instant)
            self._fire(key, session, PaneKind.ON_TIME, self._watermarks[rise], self._tick_ends[rise], NO_TIME)
        is_collected = self.rules.is_late(last_instant, watermark)
        if is_collected:
            self._cleaned += 1
            self._elements_cleaned += session.elements
        return is_collected

    def _merge(
        self, key: int, absorbed: Sequence[Session], start: int, end: int, clock: int, watermark: int
    ) -> Session:
        """The session that begins where an element joins no session, or makes one of several, or of one a
        longer one.
        """
        merged = Session(start, end, 0, 0, NO_TIME, clock, clock, None)
        for session in absorbed:
            merged.elements += session.elements
            merged.first_arrival = min(merged.first_arrival, session.first_arrival)
            merged.last_arrival = max(merged.last_arrival, session.last_arrival)
            if session.firings:
                self._merged += 1
                self._opened += 1
                if self.rules.accumulates:
                    moments = (watermark, NO_TIME, clock)
                    facts = (session.firings + 1, PaneKind.WITHDRAWN, 0, *moments, NO_CONTENTS)
                    self._firings.append((key, session.start, session.end, *facts))
        paths = sorted(
            (session.path for session in absorbed if session.path is not None), key=len, reverse=True
        )
        if paths:
            merged.path = paths[0]
            for path in paths[1:]:
                merged.path.extend(path)
        self._opened += 1 - len(absorbed)
        return merged

    def _add(self, key: int, session: Session, clock: int, watermark: int, row: int) -> None:
        session.elements += 1
        if clock > session.last_arrival:
            session.last_arrival = clock
        if session.path is None:
            session.path = [row]
        else:
            session.path.append(row)
        if session.end - 1 <= watermark:
            self._fire(key, session, PaneKind.LATE, watermark, NO_TIME, clock)

    def _fire(self, key: int, session: Session, kind: int, watermark: int, tick_end: int, cause: int) -> None:
        session.firings += 1
        session.fired_at = tick_end if cause == NO_TIME else cause
        facts = (session.firings, kind, session.elements, watermark, tick_end, cause, self._pick(session))
        self._firings.append((key, session.start, session.end, *facts))
        if not self.rules.accumulates:
            session.path = None

    def _pick(self, session: Session) -> int:
        """The number of what the session holds now."""
        if session.path is None:
            return NO_CONTENTS
        self._picks.append((session.path, len(session.path)))
        return len(self._picks) - 1

    def _leave(self, key: int, session: Session) -> None:
        facts = (
            session.elements,
            session.firings,
            session.fired_at,
            session.first_arrival,
            session.last_arrival,
        )
        self._in_flight.append((key, session.start, session.end, *facts, self._pick(session)))

    def _written(self) -> Running:
        """The paths of which something was picked."""
        begins: dict[int, int] = {}
        rows: list[int] = []
        picks = []
        for path, length in self._picks:
            if id(path) not in begins:
                begins[id(path)] = len(rows)
                rows += path
            picks.append(begins[id(path)] + length - 1)
        return Running(*(np.array(column, np.int64) for column in (rows, list(begins.values()), picks)))
