"""The columnar engine is chosen where it is exact; where it is not, one line says why, and asking for it is
refused.
"""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.functions import FunctionEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.planner import EngineNotExact, choose, why_not_columnar
from slackwater.examples.departures import departures
from slackwater.pipelines import vectorized
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)

DELTA = DeltaTrigger.of(2, max)


class Seeing(CountTrigger):
    """Looks at elements, which built-in aggregates do not keep."""

    def on_element(self, element, timestamp, window, context):
        return super().on_element(element, timestamp, window, context)


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
        ({"trigger": DELTA}, "DeltaTrigger has no columnar form"),
        ({"evictor": TimeEvictor.of(timedelta(minutes=1))}, "an evictor takes single elements"),
        ({"window": SlidingEventTimeWindows.of(timedelta(days=1), timedelta(seconds=1))}, "86,400 windows"),
        (
            {"window": EventTimeSessionWindows.with_gap(timedelta(hours=1)), "trigger": CountTrigger.of(2)},
            "CountTrigger has no columnar form",
        ),
        (
            {"trigger": PurgingTrigger.of(DELTA)},
            "PurgingTrigger of DeltaTrigger has no columnar form",
        ),
        ({"trigger": Seeing(max_count=2)}, "Seeing has no columnar form on TumblingEventTimeWindows"),
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


class Longest(ProcessWindowFunction):
    """The longest delay."""

    def process(self, key, context, elements):
        return [max(element.dep_delay or 0 for element in elements)]


class Counting(Longest):
    """Counts its calls in state of the key, which it has from `open`."""

    def open(self, runtime_context):
        self.calls = runtime_context.get_state(CALLS)


class Telling(Longest):
    """Does something when a window is collected."""

    def clear(self, context):
        context.output("collected", context.window.start)


CALLS = ValueStateDescriptor("calls")
OF_ALL = {"select": {}, "process": Longest(), "output": "longest double", "expect": []}
OF_SELECT = {"select": departures.select, "process": None, "output": None}


def test_a_function_of_windows_that_fire_at_their_end_is_called_on_columns():
    choice = choose(replace(departures, **OF_ALL), SCHEMA)
    assert choice.engine == "columnar"
    assert isinstance(choice.make(), FunctionEngine)
    assert isinstance(choose(replace(departures, **OF_ALL), SCHEMA, "operator").make(), OperatorEngine)


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger": CountTrigger.of(2)},
        {"window": GlobalWindows.create(), "trigger": PurgingTrigger.of(CountTrigger.of(2))},
        {"process": Counting(), "trigger": CountTrigger.of(2)},
        {"window": GlobalWindows.create(), "trigger": ContinuousEventTimeTrigger.of(timedelta(hours=1))},
        {
            "process": vectorized(lambda firings: firings),
            "trigger": ContinuousEventTimeTrigger.of(timedelta(hours=1)),
        },
    ],
    ids=lambda value: str(value)[:30],
)
def test_firings_of_other_triggers_are_called_on_columns(changes):
    pipeline = replace(departures, **{**OF_ALL, **changes})
    assert isinstance(choose(pipeline, SCHEMA).make(), FunctionEngine)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"window": EventTimeSessionWindows.with_gap(HOUR)}, "the order in which sessions merge"),
        ({"window": ProcessingTimeSessionWindows.with_gap(HOUR)}, "the order in which sessions merge"),
        ({"window": EventTimeSessionWindows.with_dynamic_gap(max)}, "has no columnar form"),
        ({"trigger": DeltaTrigger.of(2, max)}, "DeltaTrigger has no columnar form"),
        (
            {"trigger": ProcessingTimeoutTrigger.of(CountTrigger.of(2), timedelta(minutes=1))},
            "ProcessingTimeoutTrigger of CountTrigger has no columnar form",
        ),
        ({"trigger": Mine()}, "Mine has no columnar form"),
        ({"process": Telling()}, "its function is told of each window that is collected"),
        ({"process": None, "reduce": max}, "a fold takes elements one by one"),
        ({"trigger": ContinuousEventTimeTrigger.of(HOUR)}, "the order in which a continuous trigger fires"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_a_function_sees_beyond_its_firing_is_the_operators(changes, reason):
    pipeline = replace(departures, **{**OF_ALL, **changes})
    assert reason in (why_not_columnar(pipeline, SCHEMA) or "")
    assert isinstance(choose(pipeline, SCHEMA).make(), OperatorEngine)


def test_a_function_behind_an_evictor_is_called_by_the_operator_engine():
    pipeline = replace(departures, **OF_ALL, evictor=CountEvictor.of(2))
    assert "an evictor takes single elements" in (why_not_columnar(pipeline, SCHEMA) or "")
    assert isinstance(choose(pipeline, SCHEMA).make(), OperatorEngine)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {
                "watermarks": WatermarkStrategy.punctuated(max),
                "process": Counting(),
                "trigger": CountTrigger.of(2),
            },
            "not exact under punctuated watermarks, which rise inside a tick",
        ),
        ({"columns": ["tags"]}, "the column 'tags' of its elements is a list<item: string>"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_functions_of_punctuated_watermarks_or_other_elements_stay_with_the_operator(changes, reason):
    pipeline = replace(departures, **{**OF_ALL, **changes})
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.string())))
    assert reason in (why_not_columnar(pipeline, schema) or "")
    assert isinstance(choose(pipeline, schema).make(), OperatorEngine)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({**OF_SELECT, "trigger": DELTA}, "without its trigger"),
        (
            {
                "watermarks": WatermarkStrategy.punctuated(max),
                "process": Counting(),
                "trigger": CountTrigger.of(2),
                "columns": ["tags", "row"],
            },
            "without its trigger and with columns= that leave out tags, or with bounded watermarks and with "
            "columns= that leave out tags",
        ),
        ({"columns": ["tags", "row"]}, "with columns= that leave out tags"),
        (
            {**OF_SELECT, "trigger": DELTA, "evictor": CountEvictor.of(2)},
            "without its trigger and without its evictor",
        ),
        ({"columns": ["tags"]}, None),
        (
            {**OF_SELECT, "evictor": CountEvictor.of(2)},
            "without its evictor",
        ),
        (
            {
                "watermarks": WatermarkStrategy.punctuated(max),
                "process": Counting(),
                "trigger": CountTrigger.of(2),
            },
            "without its trigger, or with bounded watermarks",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_reason_says_what_would_make_a_pipeline_columnar(changes, hint):
    pipeline = replace(departures, **{**OF_ALL, **changes})
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.string()))) if "columns" in changes else SCHEMA
    why = choose(pipeline, schema).why
    assert why.startswith("not columnar: ")
    assert why.partition("; columnar ")[2] == (hint or "")


def test_no_change_makes_a_trigger_of_ones_own_and_windows_of_ones_own_columnar():
    class Lanes(TumblingEventTimeWindows):
        """Windows of the user's own."""

    windows = Lanes.of(timedelta(hours=1))
    pipeline = replace(departures, window=windows, trigger=Mine())
    assert "; columnar" not in choose(pipeline, SCHEMA).why
