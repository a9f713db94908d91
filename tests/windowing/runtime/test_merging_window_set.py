"""What the recorded cases do not reach: the safe mode, and when a set needs persisting."""

import pytest

from slackwater.windowing import EventTimeSessionWindows, TimeWindow
from slackwater.windowing.errors import UnknownWindowError
from slackwater.windowing.runtime.merging_windows import MergingWindowSet

SESSIONS = EventTimeSessionWindows(gap_ms=10)


def no_merge(*arguments: object) -> None:
    raise AssertionError(arguments)


def merged_session(is_flink_exact: bool) -> MergingWindowSet:
    """[0, 31) on the contents of [0, 20)."""
    windows = MergingWindowSet(SESSIONS, (), is_flink_exact)
    windows.add_window(TimeWindow(0, 20), no_merge)
    assert windows.add_window(TimeWindow(10, 31), lambda *arguments: None) == TimeWindow(0, 31)
    return windows


def test_an_element_whose_window_equals_a_merged_session_loses_its_contents_only_when_exact() -> None:
    exact, safe = merged_session(True), merged_session(False)
    for windows in (exact, safe):
        assert windows.add_window(TimeWindow(0, 31), no_merge) == TimeWindow(0, 31)
    assert exact.state_window(TimeWindow(0, 31)) == TimeWindow(0, 31)
    assert safe.state_window(TimeWindow(0, 31)) == TimeWindow(0, 20)


def test_only_a_changed_set_needs_persisting() -> None:
    pairs = merged_session(False).pairs()
    windows = MergingWindowSet(SESSIONS, pairs)
    assert windows.add_window(TimeWindow(5, 15), no_merge) == TimeWindow(0, 31)
    assert not windows.has_changed
    windows.add_window(TimeWindow(50, 60), no_merge)
    assert windows.has_changed
    windows.retire_window(TimeWindow(50, 60))
    assert not windows.has_changed
    assert windows.pairs() == pairs


def test_an_unknown_window_cannot_be_retired() -> None:
    with pytest.raises(UnknownWindowError, match="in flight are none"):
        MergingWindowSet(SESSIONS).retire_window(TimeWindow(0, 1))
