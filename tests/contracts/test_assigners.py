"""Which windows an element gets: every assigner, by hand; alignment, offsets, merging, and the ends of the
64-bit range.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from slackwater.windowing import (
    GLOBAL_WINDOW,
    CumulateEventTimeWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.errors import ConfigurationError, MissingTimestampError, SessionGapError
from slackwater.windowing.windows import TimeWindow, merge_time_windows, window_start

W = TimeWindow
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DAY, HOUR = 86_400_000, 3_600_000


class Clock:
    """The context of an assigner: a clock that stands still."""

    def __init__(self, now: int = 0) -> None:
        self.current_processing_time = now


def windows_at(assigner: WindowAssigner, time: int, element: Any = "x") -> list[Any]:
    """The windows of an element at `time` in the assigner's own domain; of the plain and of the bound way to
    ask, which must agree.
    """
    clock = Clock(time if not assigner.is_event_time else 77)
    timestamp = time if assigner.is_event_time else 77
    plain = list(assigner.assign_windows(element, timestamp, clock))
    bound = assigner.bind(clock)
    assert list(bound(element, timestamp)) == plain
    assert list(bound(element, timestamp)) == plain, "asked again, when it may have remembered"
    return plain


TUMBLING = [TumblingEventTimeWindows, TumblingProcessingTimeWindows]
SLIDING = [SlidingEventTimeWindows, SlidingProcessingTimeWindows]
SESSIONS = [EventTimeSessionWindows, ProcessingTimeSessionWindows]
DYNAMIC = [DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows]


@pytest.mark.parametrize("tumbling", TUMBLING)
@pytest.mark.parametrize(
    ("offset", "time", "window"),
    [
        (0, 0, W(0, 5000)),
        (0, 4999, W(0, 5000)),
        (0, 5000, W(5000, 10000)),
        (0, -1, W(-5000, 0)),
        (0, -5000, W(-5000, 0)),
        (0, -5001, W(-10000, -5000)),
        (100, 100, W(100, 5100)),
        (100, 5099, W(100, 5100)),
        (100, 5100, W(5100, 10100)),
        (100, 99, W(-4900, 100)),
        (-100, 0, W(-100, 4900)),
        (-100, 4899, W(-100, 4900)),
        (-100, 4900, W(4900, 9900)),
        (-100, -101, W(-5100, -100)),
    ],
)
def test_tumbling_windows_follow_each_other(
    tumbling: Any, offset: int, time: int, window: TimeWindow
) -> None:
    assert windows_at(tumbling(size_ms=5000, offset_ms=offset), time) == [window]


@pytest.mark.parametrize("sliding", SLIDING)
@pytest.mark.parametrize(
    ("size", "slide", "offset", "time", "starts"),
    [
        (5000, 1000, 0, 0, [0, -1000, -2000, -3000, -4000]),
        (5000, 1000, 0, 4999, [4000, 3000, 2000, 1000, 0]),
        (5000, 1000, 0, 5000, [5000, 4000, 3000, 2000, 1000]),
        (5000, 1000, 100, 100, [100, -900, -1900, -2900, -3900]),
        (5000, 1000, -100, 0, [-100, -1100, -2100, -3100, -4100]),
        (30, 20, 0, 5, [0, -20]),
        (10, 3, -2, -7, [-8, -11, -14]),
        (10, 10, 0, 15, [10]),
        (10, 30, 0, 15, []),
        (10, 30, 0, 35, [30]),
        (7, 2, 0, 6, [6, 4, 2, 0]),
    ],
)
def test_sliding_windows_overlap_newest_first(
    sliding: Any, size: int, slide: int, offset: int, time: int, starts: list[int]
) -> None:
    assigner = sliding(size_ms=size, slide_ms=slide, offset_ms=offset)
    assert windows_at(assigner, time) == [W(start, start + size) for start in starts]


@pytest.mark.parametrize("sessions", SESSIONS)
def test_each_element_opens_a_session_of_one_gap(sessions: Any) -> None:
    for time in (0, 4999, -7):
        assert windows_at(sessions(gap_ms=5000), time) == [W(time, time + 5000)]


@pytest.mark.parametrize("dynamic", DYNAMIC)
def test_a_dynamic_gap_comes_from_the_element(dynamic: Any) -> None:
    assigner = dynamic(gap_ms_of=len)
    assert windows_at(assigner, 10, "x" * 30) == [W(10, 40)]
    assert windows_at(assigner, 10, "x") == [W(10, 11)]


@pytest.mark.parametrize("dynamic", DYNAMIC)
@pytest.mark.parametrize("gap", [0, -1])
def test_a_dynamic_gap_that_is_not_above_zero_is_refused_at_its_element(dynamic: Any, gap: int) -> None:
    with pytest.raises(
        SessionGapError, match=rf"{dynamic.__name__} needs gap > 0 for each element, got {gap} ms"
    ) as refusal:
        dynamic(gap_ms_of=lambda element: gap).assign_windows("x", 5, Clock())
    assert refusal.value.flink == "IllegalArgumentException"


def test_every_element_is_in_the_one_global_window() -> None:
    assert (
        windows_at(GlobalWindows.create(), 5)
        == windows_at(GlobalWindows.create(), LONG_MIN)
        == [GLOBAL_WINDOW]
    )
    assert GlobalWindow() is GLOBAL_WINDOW
    assert (GLOBAL_WINDOW.max_timestamp(), GLOBAL_WINDOW.serialize(), GLOBAL_WINDOW.java_hash()) == (
        LONG_MAX,
        b"\x00",
        0,
    )


MERGING = [*(sessions(gap_ms=10) for sessions in SESSIONS), *(dynamic(gap_ms_of=len) for dynamic in DYNAMIC)]


@pytest.mark.parametrize("assigner", MERGING, ids=lambda assigner: type(assigner).__name__)
@pytest.mark.parametrize(
    ("windows", "merges"),
    [
        ([], {}),
        ([W(0, 0)], {}),
        ([W(0, 1)], {}),
        ([W(0, 1), W(0, 1)], {}),
        (
            [W(0, 1), W(1, 2), W(2, 3), W(4, 5), W(5, 6)],
            {W(0, 3): {W(0, 1), W(1, 2), W(2, 3)}, W(4, 6): {W(4, 5), W(5, 6)}},
        ),
        ([W(1, 1), W(0, 2), W(4, 7), W(5, 6)], {W(0, 2): {W(1, 1), W(0, 2)}, W(4, 7): {W(5, 6), W(4, 7)}}),
        ([W(10, 20), W(0, 9)], {}),
        ([W(9, 20), W(0, 9)], {W(0, 20): {W(9, 20), W(0, 9)}}),
    ],
)
def test_windows_merge_when_they_overlap_or_touch(
    assigner: MergingWindowAssigner, windows: list[TimeWindow], merges: dict
) -> None:
    calls: list[tuple[TimeWindow, set[TimeWindow]]] = []
    assigner.merge_windows(windows, lambda result, members: calls.append((result, set(members))))
    assert dict(calls) == merges
    assert [result for result, _ in calls] == sorted(merges), "in ascending order of their starts, each once"


CUMULATIVE = CumulateEventTimeWindows.of(timedelta(days=1), timedelta(hours=6), timedelta(hours=1))


@pytest.mark.parametrize(
    ("hour", "ends"),
    [(1, [7, 13, 19, 25]), (6.999, [7, 13, 19, 25]), (7, [13, 19, 25]), (24.9, [25]), (0.9, [1])],
)
def test_cumulative_windows_begin_together_and_end_a_step_apart(hour: float, ends: list[int]) -> None:
    start = HOUR - (DAY if hour < 1 else 0)
    windows = windows_at(CUMULATIVE, int(hour * HOUR))
    assert windows == [W(start, end * HOUR) for end in ends], "the shortest first, as in Flink"


@pytest.mark.parametrize(
    ("size", "step", "offset"), [(10, 4, 0), (10, 0, 0), (10, -5, 0), (10, 20, 0), (10, 5, 10)]
)
def test_the_greatest_size_is_a_multiple_of_the_step(size: int, step: int, offset: int) -> None:
    with pytest.raises(ConfigurationError, match=r"CumulateEventTimeWindows needs (step|abs)"):
        CumulateEventTimeWindows(size_ms=size, step_ms=step, offset_ms=offset)


def test_a_step_divides_the_size_into_at_most_ten_million() -> None:
    with pytest.raises(ConfigurationError, match="needs size / step <= 10000000, got 10000001 ms / 1 ms"):
        CumulateEventTimeWindows(size_ms=10_000_001, step_ms=1)


PROPERTIES: list[tuple[WindowAssigner, bool, type, type]] = [
    *((tumbling(size_ms=5), tumbling is TUMBLING[0], TimeWindow, WindowAssigner) for tumbling in TUMBLING),
    *(
        (sliding(size_ms=5, slide_ms=2), sliding is SLIDING[0], TimeWindow, WindowAssigner)
        for sliding in SLIDING
    ),
    (CUMULATIVE, True, TimeWindow, WindowAssigner),
    *(
        (sessions(gap_ms=5), sessions is SESSIONS[0], TimeWindow, MergingWindowAssigner)
        for sessions in SESSIONS
    ),
    *(
        (dynamic(gap_ms_of=len), dynamic is DYNAMIC[0], TimeWindow, MergingWindowAssigner)
        for dynamic in DYNAMIC
    ),
    (GlobalWindows.create(), False, GlobalWindow, WindowAssigner),
]


@pytest.mark.parametrize(
    ("assigner", "is_event_time", "window_type", "kind"), PROPERTIES, ids=lambda value: type(value).__name__
)
def test_assigners_tell_their_domain_their_windows_and_their_trigger(
    assigner: WindowAssigner, is_event_time: bool, window_type: type, kind: type
) -> None:
    assert assigner.is_event_time is is_event_time
    assert assigner.window_type is window_type
    assert isinstance(assigner, MergingWindowAssigner) is (kind is MergingWindowAssigner)
    if window_type is TimeWindow:
        assert assigner.get_default_trigger() == (
            EventTimeTrigger() if is_event_time else ProcessingTimeTrigger()
        )


def test_global_windows_never_fire_unless_asked_to_at_the_end_of_the_stream() -> None:
    assert GlobalWindows.create().get_default_trigger() == NeverTrigger()
    assert GlobalWindows.create_with_end_of_stream_trigger().get_default_trigger() == EndOfStreamTrigger()


ASSIGNERS: list[tuple[Callable[[], WindowAssigner], WindowAssigner]] = [
    (
        lambda: TumblingEventTimeWindows.of(timedelta(seconds=5), timedelta(milliseconds=500)),
        TUMBLING[0](size_ms=5000, offset_ms=500),
    ),
    (
        lambda: TumblingProcessingTimeWindows.of(timedelta(minutes=1), -timedelta(seconds=8)),
        TUMBLING[1](size_ms=60_000, offset_ms=-8000),
    ),
    (
        lambda: SlidingEventTimeWindows.of(timedelta(seconds=5), timedelta(seconds=1)),
        SLIDING[0](size_ms=5000, slide_ms=1000),
    ),
    (
        lambda: SlidingProcessingTimeWindows.of(
            timedelta(seconds=5), timedelta(seconds=1), timedelta(milliseconds=3)
        ),
        SLIDING[1](size_ms=5000, slide_ms=1000, offset_ms=3),
    ),
    (
        lambda: CumulateEventTimeWindows.of(timedelta(minutes=1), timedelta(seconds=5)),
        CumulateEventTimeWindows(size_ms=60_000, step_ms=5000),
    ),
    (lambda: EventTimeSessionWindows.with_gap(timedelta(seconds=5)), SESSIONS[0](gap_ms=5000)),
    (lambda: ProcessingTimeSessionWindows.with_gap(timedelta(hours=1)), SESSIONS[1](gap_ms=HOUR)),
]


@pytest.mark.parametrize(
    ("make", "expected"), ASSIGNERS, ids=[type(expected).__name__ for _, expected in ASSIGNERS]
)
def test_durations_of_all_units_become_milliseconds(
    make: Callable[[], WindowAssigner], expected: WindowAssigner
) -> None:
    assert make() == expected


@pytest.mark.parametrize("sessions", SESSIONS)
def test_a_dynamic_gap_is_declared_as_a_duration_of_the_element(sessions: Any) -> None:
    assigner = sessions.with_dynamic_gap(lambda element: timedelta(seconds=len(element)))
    assert type(assigner).__name__ == f"Dynamic{sessions.__name__}"
    assert windows_at(assigner, 10, "xy") == [W(10, 2010)]
    with pytest.raises(SessionGapError):
        assigner.assign_windows("", 10, Clock())
    endless = sessions.with_dynamic_gap(lambda element: timedelta(days=366_000, milliseconds=len(element)))
    assert windows_at(endless, 10, "") == [W(10, 10 + 366_000 * 86_400_000)]
    with pytest.raises(SessionGapError, match=r"at most 366,000 days, got 366000 days, 0:00:00.001000"):
        endless.assign_windows("x", 10, Clock())


@pytest.mark.parametrize(
    "assigner",
    [TUMBLING[0](size_ms=10), SLIDING[0](size_ms=10, slide_ms=5), CUMULATIVE],
    ids=["tumbling", "sliding", "cumulative"],
)
def test_aligned_event_time_windows_need_a_timestamp(assigner: WindowAssigner) -> None:
    for ask in (
        lambda: assigner.assign_windows("x", LONG_MIN, Clock()),
        lambda: assigner.bind(Clock())("x", LONG_MIN),
    ):
        with pytest.raises(
            MissingTimestampError, match=rf"{type(assigner).__name__} needs a timestamp"
        ) as refusal:
            ask()
        assert refusal.value.flink == "RuntimeException"


def test_sessions_take_an_element_without_timestamp_at_the_smallest_long() -> None:
    assert windows_at(EventTimeSessionWindows(gap_ms=10), LONG_MIN) == [W(LONG_MIN, LONG_MIN + 10)]


def test_processing_time_windows_do_not_look_at_the_timestamp() -> None:
    for assigner in (TUMBLING[1](size_ms=10), SLIDING[1](size_ms=10, slide_ms=10)):
        assert list(assigner.assign_windows("x", LONG_MIN, Clock(25))) == [W(20, 30)]


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [
        (0, 0, 10, 0),
        (9, 0, 10, 0),
        (10, 0, 10, 10),
        (-1, 0, 10, -10),
        (-10, 0, 10, -10),
        (-11, 0, 10, -20),
        (5, 3, 10, 3),
        (2, 3, 10, -7),
        (3, 3, 10, 3),
        (5, -3, 10, -3),
        (-4, -3, 10, -13),
        (LONG_MAX, 0, 10, 9223372036854775800),
        (LONG_MAX, -5, 10, 9223372036854775801),
        (LONG_MIN + 1, 0, 10, 9223372036854775806),
        (LONG_MIN + 1, 5, 10, 9223372036854775805),
        (1470902048450, 0, 7 * DAY, 1470873600000),
        (1470902048450, 4 * DAY, 7 * DAY, 1470614400000),
        (1470902048450, -8 * HOUR, DAY, 1470844800000),
    ],
)
def test_window_starts_as_recorded(timestamp: int, offset: int, size: int, start: int) -> None:
    assert window_start(timestamp, offset, size) == start
    assert windows_at(TumblingEventTimeWindows(size_ms=size, offset_ms=offset), timestamp)[0].start == start


def test_the_end_of_a_session_wraps_silently() -> None:
    assert windows_at(EventTimeSessionWindows(gap_ms=10), LONG_MAX - 3) == [W(LONG_MAX - 3, LONG_MIN + 6)]


def test_the_end_of_a_tumbling_window_wraps_silently() -> None:
    assert windows_at(TumblingEventTimeWindows(size_ms=10), LONG_MAX) == [
        W(9223372036854775800, LONG_MIN + 2)
    ]


def test_windows_are_half_open_and_touching_ones_intersect() -> None:
    assert W(0, 10).max_timestamp() == 9
    assert W(5, LONG_MIN).max_timestamp() == LONG_MAX
    for other, intersects in {
        W(10, 20): True,
        W(11, 20): False,
        W(-5, 0): True,
        W(-5, -1): False,
        W(3, 4): True,
        W(-5, 50): True,
    }.items():
        assert W(0, 10).intersects(other) is intersects is other.intersects(W(0, 10))
    assert W(0, 10).cover(W(5, 20)) == W(5, 20).cover(W(0, 10)) == W(0, 20)


@pytest.mark.parametrize(
    ("window", "hash_code"),
    [
        (W(0, 10), -1456339591),
        (W(20, 30), -1050646736),
        (W(0, 30), 1775512178),
        (W(40, 50), -223939498),
        (W(0, 1000), -341513513),
        (W(-5, 5), 0),
        (W(1000, 4000), 1040397190),
        (W(5, 8), -1242005039),
        (W(10, 13), -1101448027),
    ],
)
def test_java_hash_codes_of_windows_as_recorded(window: TimeWindow, hash_code: int) -> None:
    assert window.java_hash() == hash_code


def test_windows_serialize_as_two_big_endian_longs() -> None:
    assert W(1, -1).serialize() == bytes.fromhex("0000000000000001ffffffffffffffff")


def test_a_merge_of_equal_starts_keeps_the_order_of_their_coming() -> None:
    calls: list[Any] = []
    merge_time_windows(
        [W(0, 4), W(0, 6), W(0, 4)], lambda result, members: calls.append((result, set(members)))
    )
    assert calls == [(W(0, 6), {W(0, 4), W(0, 6)})]
