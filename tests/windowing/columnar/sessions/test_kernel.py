"""Sessions on whole columns are those of the window operator: firings, what they hold, withdrawals, late
elements and open sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import EventTimeSessionWindows, EventTimeTrigger, PurgingTrigger
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.sessions.chains import SessionRules, chain_intervals
from slackwater.windowing.columnar.sessions.kernel import is_harmless, replay_sessions
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import Elements, OpenWindows, Pieces, columns_of
from tests.windowing.columnar.kernel_replays import ElementSets, Replaying
from tests.windowing.columnar.kernel_replays import check as check_slices
from tests.windowing.columnar.operator_replays import Slice, slices, through_operator


def sessions(rules: SessionRules, batches: int, few_chains: int) -> Replaying:
    """Harmless elements come as pieces: the sessions of each batch."""

    def piecing(elements: Elements) -> tuple[Booleans, Longs]:
        batch_of = np.arange(len(elements.keys)) % batches
        places = np.zeros(len(elements.keys), np.int64)
        harmless = is_harmless(elements.times, elements.watermarks)
        for batch in range(batches):
            rows = np.flatnonzero(harmless & (batch_of == batch))
            times = elements.times[rows]
            chains = chain_intervals(elements.keys[rows], times, times, rules.gap_ms)
            places[rows] = chains.numbers() * batches + batch
        return harmless, places

    return Replaying(lambda *inputs: replay_sessions(*inputs, rules, few_chains), piecing)


def check(
    parts: Sequence[Slice], gap: int, lateness: int, purging: bool, pieces: int, few_chains: int
) -> None:
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else EventTimeTrigger()
    assigner = EventTimeSessionWindows.with_gap(timedelta(milliseconds=gap))
    theirs = through_operator(parts, assigner, trigger, lateness)
    check_slices(sessions(SessionRules(gap, lateness, not purging), pieces, few_chains), parts, theirs)


@pytest.mark.slow
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
    rules = SessionRules(30, 0, True)

    def replayed(*elements: tuple[int, int, int, int]) -> SliceResult[ElementSets]:
        parked = columns_of(OpenWindows, [(1, 0, 30, 1, 1, 40, 10, 10, 0)])
        sets = ElementSets(tuple(frozenset({number}) for number in range(len(elements))))
        pieces, nothing = columns_of(Pieces, []), ElementSets(())
        slice_input = SliceInput(pieces, nothing, columns_of(Elements, elements), sets)
        initial_state = WindowState(parked, None, ElementSets((frozenset({-1}),)))
        return replay_sessions(slice_input, initial_state, timeline, rules, few_chains)

    untouched = replayed()
    assert (len(untouched.windows.keys), untouched.counts.windows_cleaned) == (0, 1)
    result = replayed((1, 21, 120, 50), (1, 25, 130, 50))
    assert result.late.positions.tolist() == [0]
    assert list(zip(result.windows.starts.tolist(), result.windows.ends.tolist(), strict=True)) == [(25, 55)]
    assert (
        result.counts.windows_opened,
        result.counts.windows_merged,
        result.counts.windows_cleaned,
    ) == (1, 0, 1)
    assert sum(len(firings.keys) for firings in result.firings) == 0
