"""Assigners, triggers and evictors as declarations: what is refused, and how they compare, are pickled and
are shown.
"""

import operator
import pickle
from datetime import timedelta
from typing import Any

import pytest

from slackwater import windowing
from slackwater.windowing.errors import (
    ConfigurationError,
    EmptyViewError,
    MissingTimestampError,
    SessionGapError,
    UnsupportedCombinationError,
    UntimedElementError,
)
from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.windows import TimeWindow

SECOND = timedelta(seconds=1)

DECLARATIONS = [
    windowing.TumblingEventTimeWindows.of(SECOND, offset=SECOND / 2),
    windowing.TumblingProcessingTimeWindows.of(SECOND),
    windowing.SlidingEventTimeWindows.of(3 * SECOND, SECOND),
    windowing.SlidingProcessingTimeWindows.of(3 * SECOND, SECOND, -SECOND / 2),
    windowing.CumulateEventTimeWindows.of(3 * SECOND, SECOND),
    windowing.CalendarEventTimeWindows.weeks("Europe/Berlin", first_day="sunday"),
    windowing.EventTimeSessionWindows.with_gap(SECOND),
    windowing.ProcessingTimeSessionWindows.with_gap(SECOND),
    windowing.DynamicEventTimeSessionWindows(gap_ms_of=len),
    windowing.DynamicProcessingTimeSessionWindows(gap_ms_of=len),
    windowing.GlobalWindows.create(),
    windowing.CountWindows.of(3),
    windowing.CountWindows.of(3, 2),
    windowing.GlobalWindows.create_with_end_of_stream_trigger(),
    windowing.EventTimeTrigger(),
    windowing.ProcessingTimeTrigger(),
    windowing.NeverTrigger(),
    windowing.EndOfStreamTrigger(),
    windowing.CountTrigger.of(3),
    windowing.DeltaTrigger.of(1.5, operator.sub),
    windowing.ContinuousEventTimeTrigger.of(SECOND),
    windowing.ContinuousProcessingTimeTrigger.of(SECOND),
    windowing.PurgingTrigger.of(windowing.CountTrigger.of(3)),
    windowing.ProcessingTimeoutTrigger.of(windowing.CountTrigger.of(3), SECOND, True, False),
    windowing.CountEvictor.of(3),
    windowing.TimeEvictor.of(SECOND, do_evict_after=True),
    windowing.DeltaEvictor.of(1.5, operator.sub),
    windowing.ValueStateDescriptor("v", 0, sql_type="long"),
    windowing.ListStateDescriptor("l"),
    windowing.MapStateDescriptor("m", key_sql_type="string"),
    windowing.ReducingStateDescriptor("r", operator.add),
    windowing.TimeWindow(0, 10),
    windowing.GLOBAL_WINDOW,
]


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: type(declaration).__name__)
def test_a_declaration_is_a_value(declaration: Any) -> None:
    copy = pickle.loads(pickle.dumps(declaration))
    assert copy == declaration
    assert repr(copy) == repr(declaration)
    assert repr(declaration).startswith(type(declaration).__name__)
    assert [other for other in DECLARATIONS if other == declaration] == [declaration]


def test_every_public_declaration_is_tested_as_a_value() -> None:
    bases = (windowing.WindowAssigner, windowing.Trigger, windowing.Evictor)
    public = {
        value
        for name in windowing.__all__
        if isinstance(value := getattr(windowing, name), type) and issubclass(value, bases)
    }
    assert public - {type(declaration) for declaration in DECLARATIONS} == {
        *bases,
        windowing.MergingWindowAssigner,
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: windowing.TumblingEventTimeWindows.of(10), "must be a timedelta"),
        (lambda: windowing.TumblingEventTimeWindows.of(timedelta(microseconds=1500)), "whole milliseconds"),
        (
            lambda: windowing.TumblingEventTimeWindows.of(SECOND, offset=SECOND),
            r"TumblingEventTimeWindows needs abs\(offset\) < size",
        ),
        (
            lambda: windowing.TumblingProcessingTimeWindows.of(SECOND, offset=-SECOND),
            "TumblingProcessingTimeWindows needs",
        ),
        (lambda: windowing.TumblingEventTimeWindows.of(timedelta(0)), "size > 0, got size 0"),
        (lambda: windowing.SlidingEventTimeWindows.of(SECOND, timedelta(0)), "slide 0"),
        (lambda: windowing.CountWindows.of(0), "size of CountWindows is 0; it is a number of elements"),
        (lambda: windowing.CountWindows.of(3, 0), "slide of CountWindows is 0; it is"),
        (lambda: windowing.CountWindows.of(SECOND), "size of CountWindows is .*; it is a number"),
        (lambda: windowing.SlidingEventTimeWindows.of(timedelta(0), SECOND), "size 0"),
        (
            lambda: windowing.SlidingEventTimeWindows.of(
                timedelta(milliseconds=10_000_001), timedelta(milliseconds=1)
            ),
            "10000001 ms / 1 ms",
        ),
        (lambda: windowing.EventTimeSessionWindows.with_gap(timedelta(0)), "needs gap > 0, got 0 ms"),
        (lambda: windowing.ContinuousEventTimeTrigger.of(timedelta(0)), "needs interval > 0"),
        (
            lambda: WindowOperatorBuilder(STRING, windowing.GlobalWindows.create()).allowed_lateness(-SECOND),
            "cannot be negative, got -1000",
        ),
        (lambda: WindowOperatorBuilder(STRING, "tumbling"), "must be a WindowAssigner, got 'tumbling'"),
        (
            lambda: WindowOperatorBuilder(STRING, windowing.GlobalWindows.create()).aggregate(sum),
            "needs an AggregateFunction",
        ),
        (
            lambda: WindowOperatorBuilder(STRING, windowing.GlobalWindows.create()).process(len),
            "process needs a ProcessWindowFunction",
        ),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_with_class_value_and_rule(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refusal:
        make()
    assert refusal.value.fault == "user"


def test_ten_million_windows_are_allowed_by_event_time_and_more_by_processing_time() -> None:
    millisecond = timedelta(milliseconds=1)
    windowing.SlidingEventTimeWindows.of(10_000_000 * millisecond, millisecond)
    windowing.SlidingProcessingTimeWindows.of(10_000_001 * millisecond, millisecond)


@pytest.mark.parametrize(
    "trigger",
    [
        windowing.DeltaTrigger.of(1, operator.sub),
        windowing.NeverTrigger(),
        windowing.PurgingTrigger.of(windowing.NeverTrigger()),
    ],
)
def test_sessions_refuse_a_trigger_that_cannot_merge(trigger: windowing.Trigger) -> None:
    builder = WindowOperatorBuilder(STRING, windowing.EventTimeSessionWindows.with_gap(SECOND))
    with pytest.raises(UnsupportedCombinationError, match="cannot merge"):
        builder.trigger(trigger)


def test_functions_inside_state_cannot_be_rich() -> None:
    class Rich(windowing.ReduceFunction, windowing.ProcessWindowFunction):
        pass

    with pytest.raises(UnsupportedCombinationError, match="Rich lives inside state"):
        WindowOperatorBuilder(STRING, windowing.GlobalWindows.create()).reduce(Rich())


class Clock:
    current_processing_time = 25


@pytest.mark.parametrize(
    ("assigner", "timestamp", "windows"),
    [
        (windowing.TumblingEventTimeWindows(size_ms=10), -1, [(-10, 0)]),
        (windowing.TumblingEventTimeWindows(size_ms=10, offset_ms=3), 2, [(-7, 3)]),
        (windowing.TumblingProcessingTimeWindows(size_ms=10), None, [(20, 30)]),
        (windowing.SlidingEventTimeWindows(size_ms=30, slide_ms=20), 5, [(0, 30), (-20, 10)]),
        (
            windowing.SlidingEventTimeWindows(size_ms=10, slide_ms=3, offset_ms=-2),
            -7,
            [(-8, 2), (-11, -1), (-14, -4)],
        ),
        (windowing.SlidingEventTimeWindows(size_ms=10, slide_ms=20), 15, []),
        (windowing.SlidingProcessingTimeWindows(size_ms=10, slide_ms=5), None, [(25, 35), (20, 30)]),
        (windowing.EventTimeSessionWindows(gap_ms=10), 5, [(5, 15)]),
        (windowing.EventTimeSessionWindows(gap_ms=10), None, [(LONG_MIN, LONG_MIN + 10)]),
        (windowing.ProcessingTimeSessionWindows(gap_ms=10), 5, [(25, 35)]),
        (windowing.DynamicEventTimeSessionWindows(gap_ms_of=len), 5, [(5, 8)]),
        (windowing.DynamicProcessingTimeSessionWindows(gap_ms_of=len), 5, [(25, 28)]),
    ],
)
def test_windows_of_an_element(
    assigner: windowing.WindowAssigner, timestamp: int | None, windows: list[tuple[int, int]]
) -> None:
    time = LONG_MIN if timestamp is None else timestamp
    assert list(assigner.assign_windows("abc", time, Clock())) == [TimeWindow(*window) for window in windows]
    assign = assigner.bind(Clock())
    assert [list(assign("abc", time)) for _ in range(2)] == 2 * [[TimeWindow(*window) for window in windows]]


@pytest.mark.parametrize(
    "assigner",
    [
        windowing.TumblingEventTimeWindows(size_ms=10),
        windowing.SlidingEventTimeWindows(size_ms=10, slide_ms=5),
    ],
)
def test_aligned_windows_of_event_time_need_a_timestamp(assigner: windowing.WindowAssigner) -> None:
    for assign in (
        assigner.bind(Clock()),
        lambda element, time: assigner.assign_windows(element, time, Clock()),
    ):
        with pytest.raises(MissingTimestampError, match="needs a timestamp"):
            assign("x", LONG_MIN)


def test_a_dynamic_gap_is_a_timedelta_above_zero() -> None:
    assigner = windowing.EventTimeSessionWindows.with_dynamic_gap(lambda element: element)
    assert assigner.assign_windows(SECOND, 0, Clock()) == [TimeWindow(0, 1000)]
    with pytest.raises(SessionGapError, match="gap > 0 for each element, got 0 ms"):
        assigner.assign_windows(timedelta(0), 0, Clock())
    with pytest.raises(ConfigurationError, match="dynamic session gap must be a timedelta"):
        assigner.assign_windows(1000, 0, Clock())


def test_assigners_and_triggers_answer_what_a_planner_asks() -> None:
    sliding = windowing.SlidingEventTimeWindows(size_ms=30, slide_ms=20)
    assert (sliding.is_event_time, sliding.size_ms, sliding.slide_ms, sliding.offset_ms) == (True, 30, 20, 0)
    assert windowing.TumblingEventTimeWindows(size_ms=30).slide_ms == 30
    assert not windowing.TumblingProcessingTimeWindows(size_ms=30).is_event_time
    assert not windowing.GlobalWindows.create().is_event_time
    defaults = [
        declaration.get_default_trigger()
        for declaration in DECLARATIONS
        if isinstance(declaration, windowing.WindowAssigner)
    ]
    event, processing = windowing.EventTimeTrigger(), windowing.ProcessingTimeTrigger()
    assert defaults == [
        event,
        processing,
        event,
        processing,
        event,  # cumulative and calendar windows are of event time only
        event,
        event,
        processing,
        event,
        processing,
        windowing.NeverTrigger(),
        windowing.PurgingTrigger.of(windowing.CountTrigger.of(3)),
        windowing.CountTrigger.of(2),
        windowing.EndOfStreamTrigger(),
    ]
    assert windowing.PurgingTrigger.of(event).purges and not event.purges
    assert windowing.ProcessingTimeoutTrigger.of(windowing.PurgingTrigger.of(event), SECOND).purges


def test_trigger_results_are_two_flags() -> None:
    results = list(windowing.TriggerResult)
    assert [(result.is_fire, result.is_purge) for result in results] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]
    for first in results:
        for second in results:
            merged_result = first.merge(second)
            assert (merged_result.is_fire, merged_result.is_purge) == (
                first.is_fire or second.is_fire,
                first.is_purge or second.is_purge,
            )


def values(*pairs: tuple[int, int | None]) -> list[TimestampedValue]:
    return [TimestampedValue(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("evictor", "elements", "remaining_values"),
    [
        (windowing.CountEvictor.of(2), values((1, 0), (2, 0), (3, 0)), [2, 3]),
        (windowing.CountEvictor.of(3), values((1, 0), (2, 0), (3, 0)), [1, 2, 3]),
        (windowing.CountEvictor.of(0), values((1, 0)), []),
        (windowing.TimeEvictor(size_ms=10), values((1, 20), (2, 10), (3, 11)), [1, 3]),
        (windowing.TimeEvictor(size_ms=10), values((1, None), (2, 100), (3, 0)), [1, 2, 3]),
        (windowing.TimeEvictor(size_ms=10), [], []),
        (
            windowing.DeltaEvictor.of(5, lambda old, last: last - old),
            values((1, 0), (6, 0), (2, 0), (7, 0)),
            [6, 7],
        ),
    ],
)
def test_evictors_keep(
    evictor: windowing.Evictor, elements: list[TimestampedValue], remaining_values: list[int]
) -> None:
    evictor.evict_after(elements, len(elements), None, None)  # type: ignore[arg-type]
    evictor.evict_before(elements, len(elements), None, None)  # type: ignore[arg-type]
    assert [element.value for element in elements] == remaining_values


def test_an_evictor_for_after_leaves_before_alone() -> None:
    elements = values((1, 0), (2, 0))
    evictor = windowing.CountEvictor.of(1, do_evict_after=True)
    evictor.evict_before(elements, 2, None, None)  # type: ignore[arg-type]
    assert len(elements) == 2
    evictor.evict_after(elements, 2, None, None)  # type: ignore[arg-type]
    assert [element.value for element in elements] == [2]


def test_evictors_fail_where_flinks_fail() -> None:
    with pytest.raises(UntimedElementError):
        windowing.TimeEvictor(size_ms=10).evict_before(values((1, 5), (2, None)), 2, None, None)  # type: ignore[arg-type]
    with pytest.raises(EmptyViewError):
        windowing.DeltaEvictor.of(1, operator.sub).evict_before([], 0, None, None)  # type: ignore[arg-type]
