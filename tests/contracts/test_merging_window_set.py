"""Which window an element ends up in, under which state window its contents stand, and what a merge
reports.
"""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import EventTimeSessionWindows, MergingWindowAssigner
from slackwater.windowing.errors import UnknownWindowError
from slackwater.windowing.runtime.merging_windows import MergingWindowSet
from slackwater.windowing.windows import TimeWindow

W = TimeWindow
Merge = tuple[TimeWindow, set[TimeWindow], TimeWindow, set[TimeWindow]]


class Sessions:
    """A MergingWindowSet of one key, with the merges of each step."""

    def __init__(
        self,
        *pairs: tuple[TimeWindow, TimeWindow],
        assigner: MergingWindowAssigner | None = None,
        exact: bool = True,
    ) -> None:
        self.windows = MergingWindowSet(assigner or EventTimeSessionWindows(gap_ms=3), pairs, exact)

    def add(self, new: TimeWindow) -> tuple[TimeWindow, list[Merge]]:
        merges: list[Merge] = []

        def on_merge(result: Any, absorbed: list[Any], target: Any, sources: list[Any]) -> None:
            merges.append((result, set(absorbed), target, set(sources)))

        return self.windows.add_window(new, on_merge), merges

    @property
    def mapping(self) -> dict[TimeWindow, TimeWindow]:
        return dict(self.windows.pairs())


def test_the_first_merge_keeps_the_state_window_that_was_there() -> None:
    sessions = Sessions()
    assert sessions.add(W(0, 4)) == (W(0, 4), [])
    assert sessions.add(W(1, 5)) == (W(0, 5), [(W(0, 5), {W(0, 4)}, W(0, 4), set())])
    assert sessions.add(W(4, 6)) == (W(0, 6), [(W(0, 6), {W(0, 5)}, W(0, 4), set())])
    assert sessions.mapping == {W(0, 6): W(0, 4)}


def test_windows_apart_stay_apart() -> None:
    sessions = Sessions()
    for window in (W(0, 3), W(5, 8), W(20, 23)):
        assert sessions.add(window) == (window, [])
    assert sessions.mapping == {W(0, 3): W(0, 3), W(5, 8): W(5, 8), W(20, 23): W(20, 23)}


def test_a_bridge_collects_both_and_leaves_one_state_window() -> None:
    sessions = Sessions()
    sessions.add(W(0, 3))
    sessions.add(W(5, 8))
    result, [(merged, absorbed, target, sources)] = sessions.add(W(3, 5))
    assert (result, merged, absorbed) == (W(0, 8), W(0, 8), {W(0, 3), W(5, 8)})
    assert {target} | sources == absorbed
    assert len(sources) == 1
    assert sessions.mapping == {W(0, 8): target}


def test_a_window_that_covers_one_takes_its_place_but_not_its_state_window() -> None:
    sessions = Sessions()
    sessions.add(W(1, 4))
    assert sessions.add(W(0, 10)) == (W(0, 10), [(W(0, 10), {W(1, 4)}, W(1, 4), set())])
    assert sessions.mapping == {W(0, 10): W(1, 4)}


def test_a_window_that_covers_several_absorbs_them_and_is_not_among_the_absorbed() -> None:
    sessions = Sessions()
    for window in (W(1, 3), W(5, 7), W(9, 11)):
        sessions.add(window)
    result, [(merged, absorbed, target, sources)] = sessions.add(W(0, 20))
    assert (result, merged, absorbed) == (W(0, 20), W(0, 20), {W(1, 3), W(5, 7), W(9, 11)})
    assert {target} | sources == absorbed
    assert len(sources) == 2


def test_a_window_inside_one_in_flight_joins_it_without_a_merge() -> None:
    sessions = Sessions()
    sessions.add(W(0, 10))
    assert sessions.add(W(3, 6)) == (W(0, 10), [])
    assert sessions.mapping == {W(0, 10): W(0, 10)}


@pytest.mark.parametrize("exact", [False, True])
def test_adding_a_window_that_is_there_unmerged_changes_nothing(exact: bool) -> None:
    sessions = Sessions(exact=exact)
    sessions.add(W(1, 2))
    assert sessions.add(W(1, 2)) == (W(1, 2), [])
    assert sessions.mapping == {W(1, 2): W(1, 2)}


@pytest.mark.parametrize(("exact", "state_window"), [(True, W(0, 5)), (False, W(0, 4))])
def test_adding_a_window_that_equals_a_merged_one_replaces_it_in_flink_only(
    exact: bool, state_window: TimeWindow
) -> None:
    sessions = Sessions((W(0, 5), W(0, 4)), exact=exact)
    assert sessions.add(W(0, 5)) == (W(0, 5), [])
    assert sessions.mapping == {W(0, 5): state_window}


def test_several_groups_may_merge_at_once() -> None:
    class Pairs(MergingWindowAssigner):
        def merge_windows(self, windows: Any, callback: Any) -> None:
            callback(W(0, 10), [W(0, 4), W(5, 10)])
            callback(W(20, 30), [W(20, 24), W(25, 30)])

    sessions = Sessions((W(0, 4), W(0, 4)), (W(5, 10), W(5, 10)), (W(20, 24), W(20, 24)), assigner=Pairs())
    result, merges = sessions.add(W(25, 30))
    assert result == W(20, 30)
    assert {merged: absorbed for merged, absorbed, _, _ in merges} == {
        W(0, 10): {W(0, 4), W(5, 10)},
        W(20, 30): {W(20, 24)},
    }


def test_a_set_goes_on_from_what_was_persisted_and_later_entries_win() -> None:
    sessions = Sessions((W(1, 4), W(0, 3)), (W(7, 9), W(7, 9)), (W(1, 4), W(2, 3)))
    assert sessions.mapping == {W(1, 4): W(2, 3), W(7, 9): W(7, 9)}
    assert sessions.windows.state_window(W(1, 4)) == W(2, 3)
    assert sessions.windows.state_window(W(0, 3)) is None
    assert sessions.add(W(4, 7)) == (
        W(1, 9),
        [(W(1, 9), {W(1, 4), W(7, 9)}, *_target_and_sources(sessions, W(1, 9), W(2, 3), W(7, 9)))],
    )


def test_only_a_changed_mapping_needs_to_be_persisted() -> None:
    sessions = Sessions((W(0, 10), W(0, 10)))
    assert not sessions.windows.has_changed
    sessions.add(W(3, 6))
    assert not sessions.windows.has_changed
    sessions.add(W(8, 12))
    assert sessions.windows.has_changed


def test_a_retired_window_is_forgotten_and_an_unknown_one_refused() -> None:
    sessions = Sessions((W(0, 10), W(0, 10)), (W(20, 30), W(20, 30)))
    sessions.windows.retire_window(W(0, 10))
    assert sessions.mapping == {W(20, 30): W(20, 30)}
    assert sessions.windows.has_changed
    with pytest.raises(
        UnknownWindowError, match=r"start=0, end=10\) is not in flight; in flight are .*start=20, end=30"
    ):
        sessions.windows.retire_window(W(0, 10))


def test_persisted_pairs_stand_in_hash_order() -> None:
    sessions = Sessions()
    for window in (W(0, 10), W(20, 30), W(40, 50)):  # buckets 11, 0 and 0 of a table of 16
        sessions.add(window)
    assert [window for window, _ in sessions.windows.pairs()] == [W(20, 30), W(40, 50), W(0, 10)]


def _target_and_sources(
    sessions: Sessions, result: TimeWindow, *state_windows: TimeWindow
) -> tuple[TimeWindow, set[TimeWindow]]:
    """Any of the state windows may have become the target, the others must have been folded into it."""
    target = sessions.mapping[result]
    assert target in state_windows
    return target, set(state_windows) - {target}
