"""The recorded cases of Flink's time windows, played with a user's class that mimics `TimeWindow`: every row,
timer and piece of state is the recorded one, but where times have no timestamp, which such a class refuses.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

from slackwater.conformance import play_case, read_cases, window
from slackwater.windowing import MergingWindowAssigner, TimeWindow, WindowAssigner
from tests.conformance.test_recorded_traces import CASES, trace
from tests.properties.own_windows import Spans, SpanSessions

REFUSED = {"window_session": 14, "window_edge_cases": 4, "window_extremes": 20}
PLAYED = [
    name if name == "window_dynamic_session" else pytest.param(name, marks=pytest.mark.slow)
    for name in CASES
    if name.startswith("window_") and name != "window_start"
]


def mimic(plain: WindowAssigner) -> WindowAssigner:
    if plain.window_type is not TimeWindow:
        return plain
    return SpanSessions(plain) if isinstance(plain, MergingWindowAssigner) else Spans(plain)


@pytest.mark.parametrize("name", PLAYED)
def test_a_class_that_mimics_time_windows_does_what_flink_recorded(name: str) -> None:
    declared = window.assigner_from_json
    with patch.object(window, "assigner_from_json", lambda config: mimic(declared(config))):
        mismatches = [mismatch for case in read_cases(trace(name)) if (mismatch := play_case(case))]
    assert [item for item in mismatches if "OwnWindowError" not in str(item)] == []
    assert len(mismatches) == REFUSED.get(name, 0)
