"""Which windows run on whole columns, and what is said of those that do not."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from slackwater.engine.columnar.windows import why_not
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)

HOUR = timedelta(hours=1)
TUMBLING, SESSIONS, GLOBAL = (
    TumblingEventTimeWindows.of(HOUR),
    EventTimeSessionWindows.with_gap(HOUR),
    GlobalWindows.create(),
)


def reason(window: Any, trigger: Trigger | None = None) -> str | None:
    source = DeltaSource("t", event_time="e", arrival_time="a")
    declarations = {"window": window, "trigger": trigger, "select": {"n": agg.count()}, "start": "2013-01-01"}
    return why_not(
        Pipeline(
            name="p", source=source, watermarks=WatermarkStrategy.monotonous(), key_by="k", **declarations
        )
    )


@pytest.mark.parametrize("window", [TUMBLING, SlidingEventTimeWindows.of(HOUR, HOUR / 4), SESSIONS])
@pytest.mark.parametrize("trigger", [None, EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())])
def test_windows_of_event_time_have_a_form(window: Any, trigger: Trigger | None) -> None:
    assert reason(window, trigger) is None


@pytest.mark.parametrize("window", [TUMBLING, SlidingEventTimeWindows.of(HOUR, HOUR / 4), GLOBAL])
@pytest.mark.parametrize("trigger", [CountTrigger.of(3), ContinuousEventTimeTrigger.of(HOUR)])
@pytest.mark.parametrize("outer", [lambda trigger: trigger, PurgingTrigger.of])
def test_windows_that_fire_early_have_a_form(window: Any, trigger: Trigger, outer: Any) -> None:
    assert reason(window, outer(trigger)) is None


@pytest.mark.parametrize("outer", [lambda trigger: trigger, PurgingTrigger.of], ids=["alone", "purging"])
@pytest.mark.parametrize(
    ("window", "trigger"),
    [
        (TumblingProcessingTimeWindows.of(HOUR), ProcessingTimeTrigger()),
        (TumblingProcessingTimeWindows.of(HOUR), CountTrigger.of(3)),
        (SlidingProcessingTimeWindows.of(HOUR, HOUR / 4), ProcessingTimeTrigger()),
        (ProcessingTimeSessionWindows.with_gap(HOUR), ProcessingTimeTrigger()),
    ],
)
def test_windows_of_processing_time_have_a_form(
    window: Any, trigger: Trigger, outer: Callable[[Trigger], Trigger]
) -> None:
    assert reason(window, outer(trigger)) is None


@pytest.mark.parametrize("trigger", [None, NeverTrigger(), EndOfStreamTrigger(), EventTimeTrigger()])
def test_global_windows_that_wait_have_a_form(trigger: Trigger | None) -> None:
    assert reason(GLOBAL, trigger) is None


@pytest.mark.parametrize(
    ("window", "trigger", "expected"),
    [
        (GLOBAL, ProcessingTimeTrigger(), "ProcessingTimeTrigger has no columnar form on GlobalWindows"),
        (
            SESSIONS,
            PurgingTrigger.of(CountTrigger.of(3)),
            "PurgingTrigger of CountTrigger has no columnar form on EventTimeSessionWindows",
        ),
        (
            SESSIONS,
            ContinuousEventTimeTrigger.of(HOUR),
            "ContinuousEventTimeTrigger has no columnar form on EventTimeSessionWindows",
        ),
        (
            TumblingProcessingTimeWindows.of(HOUR),
            EventTimeTrigger(),
            "EventTimeTrigger has no columnar form on TumblingProcessingTimeWindows",
        ),
        (
            DynamicProcessingTimeSessionWindows(gap_ms_of=len),
            None,
            "DynamicProcessingTimeSessionWindows has no columnar form",
        ),
    ],
)
def test_what_has_no_form_is_named_by_its_classes(
    window: Any, trigger: Trigger | None, expected: str
) -> None:
    assert reason(window, trigger) == expected
