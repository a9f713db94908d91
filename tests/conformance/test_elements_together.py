"""The recorded cases pass, in exact order, when the operator processes elements by the code for many elements
of one key at once wherever that is allowed; and it is allowed often enough to prove something.
"""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pytest

from slackwater.conformance import play
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.shared_windows import takes_together
from slackwater.windowing.runtime.window_operator import WindowOperator
from tests.conformance.test_recorded_traces import CASES, trace

AT_LEAST = {
    "window_tumbling": 900,
    "window_sliding": 500,
    "window_functions": 500,
    "window_restore": 200,
    "window_evictors": 150,
}

LONGEST = ("window_restore", "window_session", "window_triggers", "window_edge_cases")


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many elements were processed "together" and how many "alone"."""
    elements_by_way: Counter[str] = Counter()
    process_one, initialize = WindowOperator.process_element, WindowOperator.__init__

    def note_order_mode(
        self: Any, config: Any, output: Any, clock: Any, *, order_mode: OrderMode, **others: Any
    ) -> None:
        initialize(self, config, output, clock, order_mode=order_mode, **others)
        self.may = takes_together(config.assigner, config.trigger, order_mode)

    def process_element(self: Any, key: Any, value: Any, timestamp: int | None) -> None:
        if self.may and value is not None and timestamp is not None:
            windows = self.config.assigner.assign_windows(value, timestamp, None)
            if windows and all(window.max_timestamp() > self.current_watermark for window in windows):
                elements_by_way["together"] += 1
                self.shared_windows.process_elements(key, [value], [timestamp], 0)
                return
        elements_by_way["alone"] += 1
        process_one(self, key, value, timestamp)

    monkeypatch.setattr(WindowOperator, "__init__", note_order_mode)
    monkeypatch.setattr(WindowOperator, "process_element", process_element)
    return elements_by_way


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONGEST else ())
        for name in sorted(CASES)
        if name.startswith("window_") and name != "window_start"
    ],
)
def test_every_recorded_case_passes(name: str, ways: Counter[str]) -> None:
    out = io.StringIO()
    play([trace(name)], out)
    assert out.getvalue() == f"{CASES[name]} passed, 0 failed, 0 unplayable\n"
    assert ways["together"] >= AT_LEAST.get(name, 0), ways
