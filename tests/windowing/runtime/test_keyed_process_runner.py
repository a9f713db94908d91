"""Each row of a process function says what made it: an element, a timer of event time at a tick's end, or a
timer of the clock.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slackwater.windowing import KeyedProcessFunction, ReducingStateDescriptor
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.keyed_process_runner import KeyedProcessRunner


class SetsBothTimers(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.maximum = runtime_context.get_reducing_state(ReducingStateDescriptor("seen", max))

    def process_element(self, value: Any, context: Any) -> Any:
        self.maximum.add(value)
        context.timer_service.register_event_time_timer(context.timestamp + 2)
        context.timer_service.register_processing_time_timer(
            context.timer_service.current_processing_time + 5
        )
        context.output("seen", value)
        yield "element", value
        if value == 13:
            raise ValueError("thirteen")

    def on_timer(self, timestamp: int, context: Any) -> Any:
        return [(context.time_domain, self.maximum.get())]


def runner(on_error: Any = "fail") -> KeyedProcessRunner:
    """A slice from 100 on, in which the watermark becomes 101 at 110 and 120 at 120."""
    timeline = SimpleNamespace(initial=90, tick_ends=np.array([110, 120]), watermarks=np.array([101, 120]))
    return KeyedProcessRunner(
        SetsBothTimers(),
        STRING,
        key_groups=KeyGroupRange(0, 127),
        max_parallelism=128,
        order_mode=OrderMode.ROCKSDB,
        timeline=timeline,
        from_ms=100,
        on_error=on_error,
    )


def test_each_row_names_the_element_or_tick_that_caused_it() -> None:
    run = runner()
    run.process_element("a", 1, 98, 101)
    run.process_element("a", 2, 118, 112)
    run.finish(121)
    rows = run.rows
    columns = rows.values, rows.timestamps, rows.ordinals(), rows.watermarks, rows.tick_ends
    assert list(zip(*columns, rows.cause_arrivals, strict=True)) == [
        (("element", 1), 98, 0, 90, None, 101),
        (("processing", 1), None, 0, 90, None, None),  # due at 107, before the tick's end
        (("event", 1), 100, 0, 101, 110, None),
        (("element", 2), 118, 0, 101, None, 112),
        (("processing", 2), None, 1, 101, None, None),  # due at 118
        (("event", 2), 120, 0, 120, 120, None),
    ]
    assert [(row.tag, row.value, row.timestamp, row.window) for row in run.side_rows] == [
        ("seen", 1, 98, None),
        ("seen", 2, 118, None),
    ]
    assert run.counts() == {
        "rows_accepted": 2,
        "rows_quarantined": 0,
        "timers_pending": 0,
        "rows_emitted": 6,
        "side_rows": 2,
    }
    run.close()


def test_an_undone_element_leaves_no_row_and_is_noted_with_its_position() -> None:
    run = runner("quarantine")
    run.process_element("a", 1, 98, 101)
    run.process_element("a", 13, 99, 101)
    run.process_element("b", 2, 99, 102)
    assert list(zip(run.rows.keys, run.rows.values, strict=True)) == [
        ("a", ("element", 1)),
        ("b", ("element", 2)),
    ]
    assert [item.position for item in run.failed_elements] == [1]
    assert (
        "ValueError while processing an element: thirteen [key 'a', window None, timestamp 99]"
        in run.failed_elements[0].reason
    )
    assert run.counts() == {
        "rows_accepted": 2,
        "rows_quarantined": 1,
        "timers_pending": 4,
        "rows_emitted": 2,
        "side_rows": 2,
    }
    assert len(run.side_rows) == 2
    run.close()


def test_without_quarantine_a_failing_element_ends_the_run() -> None:
    run = runner()
    with pytest.raises(UserCodeError, match="thirteen") as failure:
        run.process_element("a", 13, 99, 101)
    assert not failure.value.undone and run.elements_processed == 0
    run.close()
