"""Slices and the windows that hold them are those that the assigners give, for any size, slide or step,
offset and sign of time.
"""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    CumulateEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.columnar.arrays.groups import run_starts
from slackwater.windowing.columnar.numbered_windows import windows_on

TIMES = st.lists(st.integers(-500, 500), min_size=1, max_size=20)


def assigned(assigner, time):
    return [(window.start, window.end) for window in assigner.assign_windows(None, time, None)]


@st.composite
def assigners(draw):
    size, slide, offset = draw(st.integers(1, 60)), draw(st.integers(1, 60)), draw(st.integers(-59, 59))
    if draw(st.booleans(), label="cumulative"):
        size = slide * draw(st.integers(1, 5))
        return CumulateEventTimeWindows(size_ms=size, step_ms=slide, offset_ms=offset % size)
    offset = offset % min(size, slide) if abs(offset) >= min(size, slide) else offset
    if size == slide:
        return TumblingEventTimeWindows(size_ms=size, offset_ms=offset)
    return SlidingEventTimeWindows(size_ms=size, slide_ms=slide, offset_ms=offset)


@settings(max_examples=400)
@given(assigners(), TIMES)
def test_windows_are_those_of_the_assigner_in_its_order(assigner, times):
    windows = windows_on(assigner.grid, lateness_ms=7)
    slices = windows.slices(np.array(times))
    row_windows = windows.explode(slices)
    for row, time in enumerate(times):
        numbers = row_windows.windows[row_windows.rows == row]
        expected = assigned(assigner, time)
        starts, ends = windows.starts(numbers), windows.ends(numbers)
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected
        assert windows.assignments(slices[[row]]) == len(expected)
        assert windows.windows_per_slice(slices)[row] == len(expected)
        assert windows.numbers(ends).tolist() == numbers.tolist()
        assert windows.cleanup_times(numbers).tolist() == [end - 1 + 7 for _, end in expected]
        last_instants = [end - 1 for _, end in expected]
        assert (numbers <= windows.newest_passed(time)).tolist() == [
            instant <= time for instant in last_instants
        ]
        for instant, number in zip(last_instants, numbers.tolist(), strict=True):
            assert (windows.newest_passed(instant), windows.newest_passed(instant - 1)) == (
                number,
                number - 1,
            )
        if expected:
            assert windows.earliest_last_instants(slices)[row] == min(end for _, end in expected) - 1


@settings(max_examples=400)
@given(assigners(), st.lists(st.tuples(st.integers(0, 3), st.integers(-100, 100)), min_size=1, max_size=20))
def test_windows_span_the_slices_that_they_hold(assigner, elements):
    windows = windows_on(assigner.grid, lateness_ms=0)
    assume(windows.overlap)
    cells = sorted({(key, int(windows.slices(np.array([time]))[0])) for key, time in elements})
    keys, slices = np.array(cells).T
    numbers, spans = windows.window_spans(slices, run_starts(keys))
    expected = {}
    for row, (key, cell) in enumerate(cells):
        for number in windows.explode(np.array([cell])).windows.tolist():
            expected.setdefault((key, number), []).append(row)
    found = zip(keys[spans.firsts].tolist(), numbers.tolist(), strict=True)
    rows = [list(range(first, beyond)) for first, beyond in zip(spans.firsts, spans.beyonds, strict=True)]
    assert list(zip(found, rows, strict=True)) == sorted(expected.items())


@settings(max_examples=200)
@given(assigners(), st.integers(-300, 300), st.integers(-300, 300))
def test_two_times_are_of_one_slice_exactly_when_no_window_divides_them(assigner, one, other):
    windows = windows_on(assigner.grid, lateness_ms=0)
    first, second = windows.slices(np.array([one, other]))
    between = range(min(one, other), max(one, other) + 1)
    is_divided = any(assigned(assigner, time) != assigned(assigner, one) for time in between)
    assert (first == second) == (not is_divided)
