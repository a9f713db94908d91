"""At both ends of the 64-bit range nothing fails that would not fail in Flink, and what wraps in Java wraps
here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.windowing import (
    CumulateEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    OrderMode,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.errors import EndlessWindowsError
from slackwater.windowing.windows import TimeWindow, window_start
from tests.properties.search import searched
from tests.properties.windowing_choices import Choice, evictors, triggers
from tests.properties.windowing_replays import Emitted, Outcome, Play, Step, elements, play, windows_of

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

EDGES = [LONG_MIN, LONG_MAX, 0, 2**62, -(2**62), 2**31]
LONGS = st.one_of(
    st.tuples(st.sampled_from(EDGES), st.integers(-40, 40))
    .map(sum)
    .filter(lambda value: LONG_MIN <= value <= LONG_MAX),
    st.integers(LONG_MIN, LONG_MAX),
)
LENGTHS = st.sampled_from([1, 7, 10, 2**31, 2**61, 2**62, LONG_MAX - 3, LONG_MAX])

# What Flink throws in the same place; nothing else may end a play.
FLINKS_OWN = {
    "MissingTimestampError",
    "MergeIntoPastError",
    "TriggerStateError",
    "UntimedElementError",
    "EmptyViewError",
}


@st.composite
def assigners(draw: st.DrawFn) -> WindowAssigner:
    """Sizes, offsets and gaps up to the greatest long; the windows of one element are few."""
    size = draw(LENGTHS)
    offset = draw(st.integers(-size + 1, size - 1) | st.just(0))
    is_event_time = draw(st.booleans())
    match draw(st.sampled_from(["tumbling", "sliding", "cumulative", "session", "global"])):
        case "tumbling":
            return (TumblingEventTimeWindows if is_event_time else TumblingProcessingTimeWindows)(
                size_ms=size, offset_ms=offset
            )
        case "sliding":
            slide = max(size // draw(st.integers(1, 4)), 1)
            offset %= slide
            sliding: Any = SlidingEventTimeWindows if is_event_time else SlidingProcessingTimeWindows
            return sliding(size_ms=size, slide_ms=slide, offset_ms=offset)
        case "cumulative":
            steps = draw(st.integers(1, 4))
            size = max(size // steps, 1) * steps
            return CumulateEventTimeWindows(size_ms=size, step_ms=size // steps, offset_ms=offset % size)
        case "session":
            return (EventTimeSessionWindows if is_event_time else ProcessingTimeSessionWindows)(gap_ms=size)
        case _:
            return GlobalWindows.create()


def returns(assigner: WindowAssigner, time: int) -> bool:
    """Whether Flink's loop over the windows of an element ends. Near the smallest long a start can step over
    the oldest one and wrap.
    """
    if not isinstance(assigner, SlidingEventTimeWindows | SlidingProcessingTimeWindows):
        return True
    return not LONG_MIN <= time - assigner.size_ms < LONG_MIN + assigner.slide_ms


@st.composite
def extreme_choices(draw: st.DrawFn) -> Choice:
    """Any declaration without a continuous trigger: where the next firing wraps, Flink's fires for ever."""
    assigner = draw(assigners())
    trigger = draw(triggers(assigner).filter(lambda trigger: "Continuous" not in repr(trigger)))
    function = draw(st.sampled_from(["reduce", "aggregate, process", "process in order"]))
    return Choice(
        assigner,
        trigger,
        draw(evictors()),
        function,
        lateness=draw(LONGS.map(abs).filter(lambda value: value <= LONG_MAX)),
    )


def in_range(value: int | None) -> bool:
    return value is None or (type(value) is int and LONG_MIN <= value <= LONG_MAX)


def assert_all_longs(rows: list[Emitted], playing: Play) -> None:
    for row in rows:
        assert in_range(row.timestamp)
        assert not isinstance(row.window, TimeWindow) or all(map(in_range, row.window))
    for operator in playing.operators:
        timers = [*operator.timer_service.event_timers, *operator.timer_service.processing_timers]
        assert all(in_range(time) for time, _, _ in timers)


@st.composite
def extreme_scripts(draw: st.DrawFn) -> list[Step]:
    """Elements anywhere in the range; watermarks and clock in rising order."""
    steps: list[Step] = draw(
        st.lists(
            elements(st.none() | LONGS) | st.sampled_from([("watermark",), ("clock",)]),
            min_size=4,
            max_size=16,
        )
    )
    moments = {
        name: sorted(draw(LONGS) for step in steps if step == (name,)) for name in ("watermark", "clock")
    }
    return [step if step[0] == "element" else (step[0], moments[step[0]].pop(0)) for step in steps]


@pytest.mark.slow
@searched(100, long=500)
@given(choice=extreme_choices(), script=extreme_scripts())
def test_nothing_fails_at_the_ends_of_the_range_that_flink_would_not_fail(
    choice: Choice, script: list[Step]
) -> None:
    times = [0, *(step[-1] for step in script if step[-1] is not None)]  # 0 is what the clock reads at first
    assume(all(returns(choice.assigner, time) for time in times))
    config = choice.config()
    outcomes: dict[OrderMode, list[Outcome]] = {}
    for mode in OrderMode:
        playing = Play(windows_of(config, mode))
        outcomes[mode] = []
        for step in script:
            outcomes[mode].append(playing.step(step))
            if outcomes[mode][-1].error is not None:
                assert outcomes[mode][-1].error in FLINKS_OWN
                break
            assert_all_longs(outcomes[mode][-1].emitted, playing)
        playing.close()
    assert [o.error for o in outcomes[OrderMode.HEAP]] == [o.error for o in outcomes[OrderMode.ROCKSDB]]


def java_start(timestamp: int, offset: int, size: int) -> int:
    """Flink's formula on machine integers, which wrap by themselves."""
    with np.errstate(over="ignore"):
        ts, remainder = np.int64(timestamp), np.fmod(np.int64(timestamp) - np.int64(offset), np.int64(size))
        return int(ts - (remainder + np.int64(size)) if remainder < 0 else ts - remainder)


@given(timestamp=LONGS, offset=LONGS, size=LENGTHS)
def test_window_starts_wrap_as_machine_integers_do(timestamp: int, offset: int, size: int) -> None:
    assert window_start(timestamp, offset, size) == java_start(timestamp, offset, size)


class Clock:
    """What an assigner may ask for."""

    def __init__(self, now: int) -> None:
        self.current_processing_time = now


@given(assigner=assigners(), time=LONGS.filter(lambda time: time != LONG_MIN))
def test_windows_of_every_assigner_wrap_as_machine_integers_do(assigner: WindowAssigner, time: int) -> None:
    assume(returns(assigner, time))
    windows = list(assigner.bind(Clock(time))("x", time))
    assert windows == list(assigner.assign_windows("x", time, Clock(time)))
    with np.errstate(over="ignore"):
        match assigner:
            case SlidingEventTimeWindows() | SlidingProcessingTimeWindows():
                size, slide = np.int64(assigner.size_ms), np.int64(assigner.slide_ms)
                start, expected = np.int64(java_start(time, assigner.offset_ms, assigner.slide_ms)), []
                while start > np.int64(time) - size:
                    expected.append((int(start), int(start + size)))
                    start = start - slide
            case CumulateEventTimeWindows():
                step = np.int64(assigner.step_ms)
                start = java_start(time, assigner.offset_ms, assigner.size_ms)
                end, expected = np.int64(java_start(time, assigner.offset_ms, assigner.step_ms)) + step, []
                while (
                    end <= np.int64(start) + np.int64(assigner.size_ms)
                    and len(expected) < assigner.grid.most_windows
                ):
                    expected.append((int(start), int(end)))
                    end = end + step
            case TumblingEventTimeWindows() | TumblingProcessingTimeWindows():
                start = np.int64(java_start(time, assigner.offset_ms, assigner.size_ms))
                expected = [(int(start), int(start + np.int64(assigner.size_ms)))]
            case EventTimeSessionWindows() | ProcessingTimeSessionWindows():
                expected = [(time, int(np.int64(time) + np.int64(assigner.gap_ms)))]
            case _:
                return
    assert windows == [TimeWindow(*bounds) for bounds in expected]


@given(time=LONGS, lateness=LONGS.filter(lambda value: value >= 0), watermark=LONGS)
def test_lateness_and_cleanup_add_up_as_in_flink(time: int, lateness: int, watermark: int) -> None:
    """Windows of one millisecond, so that the last instant is the timestamp: accepted, late, or dropped
    without a word.
    """
    if time == LONG_MIN:
        return
    choice = Choice(TumblingEventTimeWindows(size_ms=1), None, None, "reduce", lateness=lateness)
    script: list[Step] = [("watermark", watermark), ("element", "a", 1, time)]
    outcome = play(windows_of(choice.config(), OrderMode.ROCKSDB), script)[-1]
    with np.errstate(over="ignore"):
        total = int(np.int64(time) + np.int64(lateness))
    cleanup = total if total >= time else LONG_MAX
    is_late = total <= watermark
    if cleanup > watermark:
        assert outcome.held.get("window-contents") == 1
        has_fired = time <= watermark
        assert [row.kind for row in outcome.emitted] == ["row"] * has_fired
        timers = ({time} if not has_fired else set()) | ({cleanup} if cleanup != LONG_MAX else set())
        assert outcome.held.get("event timers", 0) == len(timers)
    else:
        assert not any(outcome.held.values())
        assert [row.kind for row in outcome.emitted] == (["late"] if is_late else [])


@pytest.mark.parametrize("ms_after_the_first", range(1_000, 1_333, 30))
def test_sliding_windows_whose_starts_wrap_past_the_oldest_are_refused_before_they_fill_memory(
    ms_after_the_first: int,
) -> None:
    """The oldest start has to lie above -2**63 + ms - 1000. Starts 333 ms apart step over the few
    milliseconds below that, unless one of them falls there, and begin again at 2**63.
    """
    assigner = SlidingEventTimeWindows(size_ms=1_000, slide_ms=333)
    timestamp = LONG_MIN + ms_after_the_first
    first_start = next(start for start in range(LONG_MIN, LONG_MIN + 333) if start % 333 == 0)
    if first_start <= timestamp - 1_000:
        starts = [window.start for window in assigner.aligned_windows(timestamp)]
        assert starts == [s for s in range(timestamp, timestamp - 1_000, -1) if s % 333 == 0]
    else:
        with pytest.raises(EndlessWindowsError, match="sliding windows"):
            assigner.aligned_windows(timestamp)
