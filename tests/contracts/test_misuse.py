"""Declarations that cannot work are refused at once. The error names the class, the value, the rule, and the
exception that Flink throws.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from slackwater.windowing import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    ProcessAllWindowFunction,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    ReduceFunction,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowFunction,
)
from slackwater.windowing.errors import (
    ConfigurationError,
    KeyGroupError,
    KeyTypeError,
    UnsupportedCombinationError,
    WindowingError,
)
from slackwater.windowing.functions import Function
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange, default_max_parallelism
from slackwater.windowing.key_types import STRING, key_type
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder

SECOND, MS = timedelta(seconds=1), timedelta(milliseconds=1)
ILLEGAL, UNSUPPORTED = "IllegalArgumentException", "UnsupportedOperationException"


@dataclass(frozen=True)
class Misuse:
    """A declaration that cannot work.

    Attributes:
        what: is wrong.
        declare: what a user writes.
        says: what the message must hold: class, value, rule.
        error, flink: our class, and the Java exception in the same place. Where `flink` is empty Java's
            compiler refuses, or nobody does.
    """

    what: str
    declare: Callable[[], Any]
    says: tuple[str, ...]
    error: type[WindowingError] = ConfigurationError
    flink: str = ILLEGAL


class RichReduce(Function, ReduceFunction):
    """A reduce function that wants to be opened."""


class RichAggregate(Function, AggregateFunction):
    """An aggregate function that wants to be opened."""


def tumbling() -> WindowOperatorBuilder:
    return WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(SECOND))


def sessions(assigner: Any = EventTimeSessionWindows) -> WindowOperatorBuilder:
    return WindowOperatorBuilder(
        STRING, assigner(gap_ms=5) if assigner in FIXED_GAPS else assigner(gap_ms_of=len)
    )


TUMBLING = [TumblingEventTimeWindows, TumblingProcessingTimeWindows]
SLIDING = [SlidingEventTimeWindows, SlidingProcessingTimeWindows]
FIXED_GAPS = [EventTimeSessionWindows, ProcessingTimeSessionWindows]
DYNAMIC_GAPS = [DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows]
CONTINUOUS = [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger]

ALIGNED_ASSIGNERS = [
    Misuse(
        f"{cls.__name__}: size {size}, offset {offset}",
        lambda cls=cls, size=size, offset=offset: cls.of(size * MS, offset * MS),
        (cls.__name__, "abs(offset) < size and size > 0", f"size {size} and offset {offset} ms"),
    )
    for cls in TUMBLING
    for size, offset in [(-1, 0), (0, 0), (10, 20), (10, 10), (10, -10), (10, -11), (-5, -1)]
]
SLIDES = [
    Misuse(
        f"{cls.__name__}: size {size}, slide {slide}, offset {offset}",
        lambda cls=cls, size=size, slide=slide, offset=offset: cls.of(size * MS, slide * MS, offset * MS),
        (
            cls.__name__,
            "abs(offset) < slide and size > 0",
            f"size {size}, slide {slide}",
            f"offset {offset} ms",
        ),
    )
    for cls in SLIDING
    for size, slide, offset in [
        (-2, 1, 0),
        (0, 1, 0),
        (2, -1, 0),
        (2, 0, 0),
        (20, 10, 10),
        (20, 10, -10),
        (20, 10, 11),
    ]
]
GAPS = [
    Misuse(
        f"{cls.__name__}: gap {gap}",
        lambda cls=cls, gap=gap: cls.with_gap(gap * MS),
        (cls.__name__, "gap > 0", f"got {gap} ms"),
    )
    for cls in FIXED_GAPS
    for gap in (0, -1)
]
INTERVALS = [
    Misuse(
        f"{cls.__name__}: {value}",
        lambda cls=cls, value=value: cls.of(value * MS),
        (cls.__name__, "interval > 0", f"got {value} ms"),
        flink="",
    )
    for cls in CONTINUOUS
    for value in (0, -5)
]
NOT_DURATIONS = [
    Misuse(
        f"{name}: {value!r}",
        lambda declare=declare, value=value: declare(value),
        (
            "must be a timedelta" if not isinstance(value, timedelta) else "must be whole milliseconds",
            repr(value),
        ),
        flink="",
    )
    for name, declare in {
        "tumbling size": TumblingEventTimeWindows.of,
        "tumbling offset": lambda value: TumblingProcessingTimeWindows.of(SECOND, value),
        "sliding size": lambda value: SlidingEventTimeWindows.of(value, SECOND),
        "slide": lambda value: SlidingProcessingTimeWindows.of(SECOND, value),
        "gap": EventTimeSessionWindows.with_gap,
        "lateness": lambda value: tumbling().allowed_lateness(value),
        "interval": ContinuousEventTimeTrigger.of,
        "timeout": lambda value: ProcessingTimeoutTrigger.of(CountTrigger.of(1), value),
        "time evictor": TimeEvictor.of,
    }.items()
    for value in (5, 1.5, "5s", None, timedelta(microseconds=1500))
]
NOT_MERGING = [
    Misuse(
        f"{assigner.__name__} with {trigger!r}",
        lambda assigner=assigner, trigger=trigger: sessions(assigner).trigger(trigger),
        (assigner.__name__, "merges windows", type(trigger).__name__, "cannot merge"),
        UnsupportedCombinationError,
        UNSUPPORTED,
    )
    for assigner in [*FIXED_GAPS, *DYNAMIC_GAPS]
    for trigger in (
        DeltaTrigger.of(1, operator.sub),
        NeverTrigger(),
        EndOfStreamTrigger(),
        PurgingTrigger.of(DeltaTrigger.of(1, operator.sub)),
        ProcessingTimeoutTrigger.of(CountTrigger.of(1), SECOND),
    )
]
OTHERS = [
    Misuse(
        "more than ten million windows for an element",
        lambda: SlidingEventTimeWindows.of(timedelta(seconds=10_001), MS),
        ("SlidingEventTimeWindows", "size / slide <= 10000000", "10001000 ms / 1 ms"),
    ),
    Misuse(
        "negative lateness",
        lambda: tumbling().allowed_lateness(-MS),
        ("allowed lateness", "cannot be negative", "-1 ms"),
    ),
    Misuse(
        "rich reduce",
        lambda: tumbling().reduce(RichReduce()),
        ("RichReduce", "lives inside state"),
        UnsupportedCombinationError,
        UNSUPPORTED,
    ),
    Misuse(
        "rich aggregate",
        lambda: tumbling().aggregate(RichAggregate()),
        ("RichAggregate", "lives inside state"),
        UnsupportedCombinationError,
        UNSUPPORTED,
    ),
    Misuse(
        "no assigner",
        lambda: WindowOperatorBuilder(STRING, "x"),
        ("must be a WindowAssigner", "'x'"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse(
        "no key type",
        lambda: WindowOperatorBuilder("long", GlobalWindows.create()),
        ("must be a KeyType", "'long'"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse("no trigger", lambda: tumbling().trigger("x"), ("must be a Trigger", "'x'"), flink=""),  # type: ignore[arg-type]
    Misuse(
        "no trigger for sessions", lambda: sessions().trigger(None), ("must be a Trigger", "None"), flink=""
    ),  # type: ignore[arg-type]
    Misuse("no evictor", lambda: tumbling().evictor("x"), ("must be an Evictor", "'x'"), flink=""),  # type: ignore[arg-type]
    Misuse(
        "purging nothing", lambda: PurgingTrigger.of("x"), ("PurgingTrigger", "a Trigger", "'x'"), flink=""
    ),  # type: ignore[arg-type]
    Misuse(
        "a timeout around nothing",
        lambda: ProcessingTimeoutTrigger.of(None, SECOND),  # type: ignore[arg-type]
        ("ProcessingTimeoutTrigger", "a Trigger", "None"),
        flink="",
    ),
    Misuse(
        "reduce without a function",
        lambda: tumbling().reduce(None),
        ("reduce", "ReduceFunction", "None"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse(
        "aggregate with a callable",
        lambda: tumbling().aggregate(sum),
        ("aggregate", "AggregateFunction", "sum"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse(
        "process without a function",
        lambda: tumbling().process(None),
        ("process", "ProcessWindowFunction", "None"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse(
        "process with an older function",
        lambda: tumbling().process(WindowFunction()),  # type: ignore[arg-type]
        ("process", "ProcessWindowFunction", "WindowFunction object"),
        flink="",
    ),
    Misuse(
        "apply with a newer function",
        lambda: tumbling().apply(ProcessWindowFunction()),  # type: ignore[arg-type]
        ("apply", "WindowFunction", "ProcessWindowFunction object"),
        flink="",
    ),
    Misuse(
        "apply without a function",
        lambda: tumbling().apply(None),
        ("apply", "WindowFunction", "None"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse(
        "reduce with half a function",
        lambda: tumbling().reduce(max, len),
        ("ProcessWindowFunction", "len"),
        flink="",
    ),  # type: ignore[arg-type]
    Misuse("parallelism 0", lambda: default_max_parallelism(0), ("between 1 and 32768", "0"), KeyGroupError),
    Misuse(
        "parallelism 32769",
        lambda: default_max_parallelism(32769),
        ("between 1 and 32768", "32769"),
        KeyGroupError,
    ),
    Misuse(
        "more operators than key groups",
        lambda: KeyGroupRange.ranges(9, 8),
        ("9 operators", "8 key groups"),
        KeyGroupError,
    ),
    Misuse("a range backwards", lambda: KeyGroupRange(5, 4), ("0 <= first <= last", "5 to 4"), KeyGroupError),
    Misuse(
        "a range below zero", lambda: KeyGroupRange(-1, 4), ("0 <= first <= last", "-1 to 4"), KeyGroupError
    ),
    Misuse(
        "a range too far",
        lambda: KeyGroupIndex(STRING, KeyGroupRange(0, 8), 8),
        ("0 to 8", "8"),
        KeyGroupError,
    ),
    Misuse("arrays as keys", lambda: key_type("bytes"), ("'bytes'", "string"), KeyTypeError),
]


@pytest.mark.parametrize(
    "misuse",
    [*ALIGNED_ASSIGNERS, *SLIDES, *GAPS, *INTERVALS, *NOT_DURATIONS, *NOT_MERGING, *OTHERS],
    ids=lambda misuse: misuse.what,
)
def test_a_misuse_is_refused_with_class_value_and_rule(misuse: Misuse) -> None:
    with pytest.raises(misuse.error) as refusal:
        misuse.declare()
    assert type(refusal.value) is misuse.error
    assert [fact for fact in misuse.says if fact not in str(refusal.value)] == [], str(refusal.value)
    assert refusal.value.fault == "user"
    if misuse.flink:
        assert refusal.value.flink == misuse.flink


ALLOWED_DECLARATIONS: list[Callable[[], Any]] = [
    lambda: TumblingEventTimeWindows.of(10 * MS, 9 * MS),
    lambda: TumblingEventTimeWindows.of(10 * MS, -9 * MS),
    lambda: SlidingEventTimeWindows.of(10_000_000 * MS, MS),
    lambda: SlidingProcessingTimeWindows.of(10_000_001 * MS, MS),
    lambda: SlidingEventTimeWindows.of(MS, SECOND),
    lambda: sessions().trigger(PurgingTrigger.of(CountTrigger.of(1))),
    lambda: CountTrigger.of(0),
    lambda: TimeEvictor.of(timedelta(0)),
    lambda: tumbling().allowed_lateness(timedelta(0)),
    lambda: tumbling().process(ProcessAllWindowFunction()),
    lambda: default_max_parallelism(32768),
]


@pytest.mark.parametrize("declare", ALLOWED_DECLARATIONS)
def test_declarations_at_the_edge_of_what_flink_allows_are_allowed(declare: Callable[[], Any]) -> None:
    assert declare() is not None


def test_a_users_trigger_merges_only_when_it_says_so() -> None:
    class Silent(Trigger):
        """Does not say that it merges."""

    class Merging(Trigger):
        """Says that it merges."""

        can_merge = True

    with pytest.raises(UnsupportedCombinationError, match="Silent"):
        sessions().trigger(Silent())
    assert sessions().trigger(Merging()) is not None
