"""Which windows run on whole columns, and what is said of those that do not."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.engines.columnar.windows import why_not
from jobs.pipelines import DeltaSource, Pipeline, count
from windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)

HOUR = timedelta(hours=1)
TUMBLING, SESSIONS, GLOBAL = TumblingEventTimeWindows.of(HOUR), EventTimeSessionWindows.with_gap(HOUR), GlobalWindows.create()


def reason(window: Any, trigger: Trigger | None = None) -> str | None:
    source = DeltaSource("t", event_time="e", arrival_time="a")
    declared = {"window": window, "trigger": trigger, "select": {"n": count()}, "start": "2013-01-01"}
    return why_not(Pipeline(name="p", source=source, watermarks=WatermarkStrategy.monotonous(), key_by="k", **declared))


@pytest.mark.parametrize("window", [TUMBLING, SlidingEventTimeWindows.of(HOUR, HOUR / 4), SESSIONS])
@pytest.mark.parametrize("trigger", [None, EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())])
def test_windows_of_event_time_have_a_form(window: Any, trigger: Trigger | None) -> None:
    assert reason(window, trigger) is None


@pytest.mark.parametrize("trigger", [CountTrigger.of(3), PurgingTrigger.of(CountTrigger.of(3))])
def test_counted_global_windows_have_a_form(trigger: Trigger) -> None:
    assert reason(GLOBAL, trigger) is None


@pytest.mark.parametrize(
    ("window", "trigger", "said"),
    [
        (GLOBAL, None, "NeverTrigger has no columnar form on GlobalWindows"),
        (
            TUMBLING,
            PurgingTrigger.of(CountTrigger.of(3)),
            "PurgingTrigger of CountTrigger has no columnar form on TumblingEventTimeWindows",
        ),
        (SESSIONS, ContinuousEventTimeTrigger.of(HOUR), "ContinuousEventTimeTrigger has no columnar form on EventTimeSessionWindows"),
        (TumblingProcessingTimeWindows.of(HOUR), None, "TumblingProcessingTimeWindows has no columnar form"),
    ],
)
def test_what_has_no_form_is_named_by_its_classes(window: Any, trigger: Trigger | None, said: str) -> None:
    assert reason(window, trigger) == said
