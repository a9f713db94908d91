"""The columnar engine is chosen where it is exact; where it is not, one line says why, and asking for it is
refused.
"""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from slackwater.jobs.engines.columnar import ColumnarEngine
from slackwater.jobs.engines.operator import OperatorEngine
from slackwater.jobs.engines.planner import EngineNotExact, choose, why_not_columnar
from slackwater.jobs.examples.departures import departures
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    WatermarkStrategy,
)


class Mine(EventTimeTrigger):
    """A user's own code, of which only its base class is known."""


SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("carrier", pa.string()),
        ("row", pa.int64()),
        ("dep_delay", pa.float64()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
    ]
)


def test_windows_and_aggregates_with_columnar_forms_run_on_columns():
    choice = choose(departures, SCHEMA)
    assert choice.engine == "columnar"
    assert isinstance(choice.make(), ColumnarEngine)


def test_the_operator_engine_may_be_asked_for():
    choice = choose(departures, SCHEMA, "operator")
    assert (choice.engine, choice.why) == ("operator", "asked for")
    assert isinstance(choice.make(), OperatorEngine)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"order_mode": "heap"}, "order_mode='heap' keeps the history of a heap"),
        ({"trigger": ProcessingTimeTrigger()}, "ProcessingTimeTrigger"),
        ({"evictor": TimeEvictor.of(timedelta(minutes=1))}, "an evictor sees elements one by one"),
        ({"window": SlidingEventTimeWindows.of(timedelta(days=1), timedelta(seconds=1))}, "86,400 windows"),
        (
            {"window": EventTimeSessionWindows.with_gap(timedelta(hours=1)), "trigger": CountTrigger.of(2)},
            "CountTrigger has no columnar form",
        ),
        (
            {"trigger": PurgingTrigger.of(ProcessingTimeTrigger())},
            "PurgingTrigger of ProcessingTimeTrigger has no columnar form",
        ),
        ({"trigger": Mine()}, "Mine has no columnar form on TumblingEventTimeWindows"),
        (
            {"trigger": ContinuousEventTimeTrigger(interval_ms=(1 << 62) + 1)},
            "adds intervals to times until they wrap",
        ),
        (
            {"watermarks": WatermarkStrategy.punctuated(max), "trigger": CountTrigger(max_count=2)},
            "punctuated watermarks, which rise inside a tick",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_not_exact_on_columns_stays_with_the_operator_engine(changes, reason):
    pipeline = replace(departures, **changes)
    assert reason in (why_not_columnar(pipeline, SCHEMA) or "")
    assert choose(pipeline, SCHEMA).engine == "operator"
    with pytest.raises(EngineNotExact) as refused:
        choose(pipeline, SCHEMA, "columnar")
    assert reason in str(refused.value)
    assert refused.value.exit_code == 2
