"""Equal timers of one key group fire by their bytes: key as Flink serializes it, then window; for any key
type and mix of windows.
"""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import SlidingEventTimeWindows
from slackwater.windowing.key_types import BYTE, DATE, INT, LONG, STRING, TupleKey
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.testing import OperatorHarness, Runtime
from slackwater.windowing.triggers import EventTimeTrigger, TriggerResult

TEXTS = st.text(st.sampled_from("ab\x00\x7fé\uffff\U0001f600"), max_size=3) | st.sampled_from(
    ["x" * 126, "x" * 127, "x" * 128]
)
KEYS = {
    BYTE: st.integers(-(2**7), 2**7 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    STRING: TEXTS,
    DATE: st.dates(min_value=date(1960, 1, 1)),
    TupleKey((STRING, INT)): st.tuples(TEXTS, st.sampled_from([-2, -1, 0, 1, 256])),
    TupleKey((STRING, STRING)): st.tuples(TEXTS, TEXTS),
}


class FiresAgain(EventTimeTrigger):
    """Fires at every timer, the cleanup timer included, so that one key has timers of two windows at one
    time.
    """

    def on_event_time(self, timestamp, window, context):
        return TriggerResult.FIRE


@pytest.mark.slow
@pytest.mark.parametrize("key_type", KEYS, ids=lambda key_type: key_type.name)
@given(data=st.data())
def test_equal_timers_fire_by_the_bytes_of_key_and_window(key_type, data):
    keys = data.draw(st.lists(KEYS[key_type], min_size=1, max_size=8, unique=True))
    elements = data.draw(
        st.lists(st.tuples(st.sampled_from(keys), st.integers(-30, 30)), min_size=1, max_size=20)
    )
    windows = SlidingEventTimeWindows.of(timedelta(milliseconds=20), timedelta(milliseconds=10))
    config = (
        WindowOperatorBuilder(key_type, windows)
        .trigger(FiresAgain())
        .allowed_lateness_ms(20)
        .reduce(lambda a, b: a + b)
    )
    harness = OperatorHarness(config, Runtime(max_parallelism=1))
    for key, timestamp in elements:
        harness.process_element(key, 1, timestamp)
    harness.process_watermark(1000)

    spans = {
        (key, (start, start + 20))
        for key, timestamp in elements
        for start in range(timestamp // 10 * 10 - 10, timestamp // 10 * 10 + 1, 10)
    }
    timers = [(end - 1 + lateness, key, (start, end)) for key, (start, end) in spans for lateness in (0, 20)]
    timers.sort(
        key=lambda timer: (
            timer[0],
            key_type.serialize(timer[1])
            + b"".join(bound.to_bytes(8, "big", signed=True) for bound in timer[2]),
        )
    )
    assert [(pane.key, tuple(pane.window)) for pane in harness.panes] == [
        (key, window) for _, key, window in timers
    ]
