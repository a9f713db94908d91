"""Sessions on whole columns are those of the window operator: firings, what they hold, withdrawals, late
elements and open sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import EventTimeSessionWindows, EventTimeTrigger, PurgingTrigger
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.session_chains import SessionRules, TardyElements
from slackwater.windowing.columnar.session_intervals import chain_intervals
from slackwater.windowing.columnar.session_rows import NO_CONTENTS, NO_TIME, SessionColumns, columns_of
from slackwater.windowing.columnar.sessions import is_harmless, replay_sessions
from slackwater.windowing.columnar.timeline import Timeline
from tests.windowing.columnar.operator_replays import Replayed, Slice, members, slices, through_operator

KINDS = ("on_time", "late", "withdrawn")
Numbers = frozenset[int]


class Columnar:
    """Replays slices with the kernel; contents are sets of element numbers, kept here from slice to slice."""

    def __init__(self, rules: SessionRules, pieces: int, few_chains: int) -> None:
        self.rules, self.pieces, self.few_chains = rules, pieces, few_chains
        self.open = columns_of(SessionColumns, [])
        self.held: list[Numbers | None] = []

    def replay(self, part: Slice) -> Replayed:
        elements = part.elements
        keys, times, clocks = (
            np.array([getattr(element, name) for element in elements], np.int64)
            for name in ("key", "time", "arrival")
        )
        watermarks = part.timeline.at_arrival(clocks)
        harmless = is_harmless(times, watermarks)
        parts, rows = [self.open], [held or frozenset() for held in self.held]
        for piece in range(self.pieces):
            taken = np.flatnonzero(harmless & (np.arange(len(elements)) % self.pieces == piece))
            sessions, held = self._on_time(
                keys[taken], times[taken], clocks[taken], [part.numbers[row] for row in taken.tolist()]
            )
            parts.append(sessions)
            rows += held
        rest = np.flatnonzero(~harmless)
        numbers = [part.numbers[row] for row in rest.tolist()]
        rows += [frozenset({number}) for number in numbers]
        tardy = TardyElements(keys[rest], times[rest], clocks[rest], watermarks[rest])
        together = SessionColumns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        replayed = replay_sessions(
            together, len(self.open.keys), tardy, self.rules, part.timeline, self.few_chains
        )
        contents = members(replayed.contents, rows)
        late = [(numbers[row], int(tardy.watermarks[row])) for row in replayed.late.tolist()]
        counts = {
            "windows_opened": replayed.opened,
            "windows_merged": replayed.merged,
            "windows_cleaned": replayed.cleaned,
            "windows_open": len(replayed.open.keys),
            "windows_fired": int(np.count_nonzero(replayed.panes.kinds == 0)),
            "windows_refired": int(np.count_nonzero(replayed.panes.kinds == 1)),
            "rows_late": len(late),
        }
        self.open = replayed.open
        self.held = [
            None if number == NO_CONTENTS else contents[number] for number in replayed.open.contents.tolist()
        ]
        panes = [
            self._pane(row, contents)
            for row in zip(*(column.tolist() for column in replayed.panes), strict=True)
        ]
        opened = [
            self._open(row, contents)
            for row in zip(*(column.tolist() for column in replayed.open), strict=True)
        ]
        return Replayed(panes, opened, late, counts)

    def _on_time(
        self, keys: Longs, times: Longs, clocks: Longs, numbers: Sequence[int]
    ) -> tuple[SessionColumns, list[Numbers]]:
        chains = chain_intervals(keys, times, times, self.rules.gap_ms)
        rows, held = [], []
        for first, beyond in (
            zip(chains.starts.tolist(), [*chains.starts.tolist()[1:], len(keys)], strict=True)
            if len(keys)
            else ()
        ):
            chain = chains.order[first:beyond]
            span = int(times[chain].min()), int(times[chain].max()) + self.rules.gap_ms
            arrivals = int(clocks[chain].min()), int(clocks[chain].max())
            rows.append((int(keys[chain[0]]), *span, len(chain), 0, NO_TIME, *arrivals, NO_CONTENTS))
            held.append(frozenset(numbers[row] for row in chain.tolist()))
        return columns_of(SessionColumns, rows), held

    def _pane(self, row: tuple[int, ...], contents: list[Numbers]) -> tuple[Any, ...]:
        key, start, end, firing, kind, elements, watermark, tick_end, cause, held = row
        result = None if held == NO_CONTENTS else contents[held]
        return (
            key,
            (start, end),
            firing,
            KINDS[kind],
            elements,
            watermark,
            _time(tick_end),
            _time(cause),
            result,
        )

    def _open(self, row: tuple[int, ...], contents: list[Numbers]) -> tuple[Any, ...]:
        key, start, end, elements, firings, fired_at, first, last, held = row
        return (
            key,
            (start, end),
            elements,
            firings,
            _time(fired_at),
            first,
            last,
            None if held == NO_CONTENTS else contents[held],
        )


def _time(value: int) -> int | None:
    return None if value == NO_TIME else value


def check(
    parts: Sequence[Slice], gap: int, lateness: int, purging: bool, pieces: int, few_chains: int
) -> list[Replayed]:
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else EventTimeTrigger()
    theirs = through_operator(
        parts, EventTimeSessionWindows.with_gap(timedelta(milliseconds=gap)), trigger, lateness
    )
    kernel = Columnar(SessionRules(gap, lateness, not purging), pieces, few_chains)
    for part, expected in zip(parts, theirs, strict=True):
        ours = kernel.replay(part)
        assert Counter(ours.panes) == Counter(expected.panes)
        assert Counter(ours.open) == Counter(expected.open)
        assert ours.late == expected.late
        assert ours.counts == {name: expected.counts[name] for name in ours.counts}
    return theirs


@given(
    slices(),
    st.sampled_from([1, 20, 60]),
    st.sampled_from([0, 40, 400]),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 2, 100]),
)
@settings(max_examples=250)
def test_sessions_are_those_of_the_operator(
    parts: list[Slice], gap: int, lateness: int, purging: bool, pieces: int, few_chains: int
) -> None:
    """Chains are walked abreast where there are so many, others one by one: all abreast, few abreast,
    none.
    """
    check(parts, gap, lateness, purging, pieces, few_chains)


@pytest.mark.parametrize("few_chains", [1, 100], ids=["abreast", "one by one"])
def test_sessions_that_a_shorter_lateness_has_expired_are_gone_before_the_first_element(
    few_chains: int,
) -> None:
    """[0, 30) fired under a longer lateness; under none it is over at watermark 50, so neither element finds
    it, and the first, whose own session's last instant is 50, is late."""
    timeline = Timeline(100, 200, 50, 50, np.zeros(0, np.int64), np.zeros(0, np.int64))
    parked = columns_of(SessionColumns, [(1, 0, 30, 1, 1, 40, 10, 10, NO_CONTENTS)])
    nobody = TardyElements(*np.zeros((4, 0), np.int64))
    alone = replay_sessions(parked, 1, nobody, SessionRules(30, 0, True), timeline)
    assert (len(alone.open.keys), alone.cleaned) == (0, 1)
    two = TardyElements(*np.array([[1, 1], [21, 25], [120, 130], [50, 50]], np.int64))
    replayed = replay_sessions(parked, 1, two, SessionRules(30, 0, True), timeline, few_chains)
    assert replayed.late.tolist() == [0]
    assert list(zip(replayed.open.starts.tolist(), replayed.open.ends.tolist(), strict=True)) == [(25, 55)]
    assert (replayed.opened, replayed.merged, replayed.cleaned, len(replayed.panes.keys)) == (1, 0, 1, 0)
