"""Elements are taken together only where they have the same windows, all still ahead; and where order
matters, without any between.
"""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import SlidingEventTimeWindows
from slackwater.windowing.columnar.numbered_windows import FixedWindows
from slackwater.windowing.columnar.shared_windows import steps_of

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-40, 40), st.integers(0, 9)), max_size=40)


@settings(max_examples=300)
@given(
    ROWS, st.booleans(), st.sampled_from([(10, 10), (20, 10), (25, 7), (10, 15)]), st.sampled_from([0, 3, -4])
)
def test_steps_are_those_of_the_definition(rows, keeps_order, size_and_slide, offset):
    size, slide = size_and_slide
    assigner = SlidingEventTimeWindows(size_ms=size, slide_ms=slide, offset_ms=offset)
    keys, times, rises = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    watermarks = np.cumsum(rises) - 60
    steps = steps_of(keys, times, watermarks, FixedWindows(size, slide, offset, 5), keeps_order=keeps_order)
    open_steps, expected = {}, []
    for position, (key, time, watermark) in enumerate(
        zip(keys.tolist(), times.tolist(), watermarks.tolist(), strict=True)
    ):
        ends = [window.max_timestamp() for window in assigner.assign_windows(None, time, None)]
        ahead = [end > watermark for end in ends]
        if keeps_order and slide < size:  # whatever comes between may share a window
            open_steps = {
                owner: group
                for owner, group in open_steps.items()
                if owner[0] != key or owner == (key, *ends)
            }
        if ends and all(ahead):
            group = open_steps.setdefault((key, *ends), [])
            if not group:
                expected.append((True, group))
            group.append(position)
            continue
        expected.append((False, [position]))
    positions_by_step = [steps.order[start:end].tolist() for start, end in pairwise(steps.starts.tolist())]
    assert list(zip(steps.are_together.tolist(), positions_by_step, strict=True)) == expected
