"""The steps in which a window operator takes elements: elements of one key that share all of their windows
are one step, as long as the watermark has reached none of these windows.

Until then nothing reads a window, so only the order of elements within a window can matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs, group_values
from slackwater.windowing.columnar.arrays.orders import stable_order
from slackwater.windowing.columnar.numbered_windows import NumberedWindows


class Steps(NamedTuple):
    """The elements of a slice in the steps in which an operator takes them.

    Attributes:
        order: int64[n], the elements' positions; step i takes order[starts[i] : starts[i + 1]].
        are_together: bool[m], the elements of step i share windows that have not fired; other steps have one
            element.
    """

    order: Longs
    starts: Longs
    are_together: Booleans


def steps_of(
    keys: Longs,
    times_ms: Longs,
    watermarks: Longs,
    windows: NumberedWindows,
    *,
    keeps_order: bool,
    most_together: int | None = None,
) -> Steps:
    """The steps of elements in order of arrival. A step comes where its first element comes, so single
    elements keep their order.

    Args:
        keys: int64[n], equal for equal keys.
        times_ms: int64[n], timestamps whose windows all end within 64 bits.
        watermarks: int64[n], in force at each element; they never fall.
        keeps_order: the order of the elements of one key and window matters.
        most_together: the greatest number of elements per step; None for any.
    """
    slices = windows.slices(times_ms)
    are_ahead = (windows.windows_per_slice(slices) > 0) & (
        windows.earliest_last_instants(slices) > watermarks
    )
    if keeps_order and windows.overlap:
        # An element of another slice may share a window, so it ends the step.
        groups, _ = group_values(keys)
    else:
        groups, _, _ = group_pairs(keys, slices)
    order = stable_order(groups.codes, groups.size)
    is_ahead, slices_in_order = are_ahead[order], slices[order]
    is_start = np.ones(len(order), np.bool_)
    is_start[1:] = (
        (groups.codes[order[1:]] != groups.codes[order[:-1]])
        | (slices_in_order[1:] != slices_in_order[:-1])
        | ~is_ahead[1:]
        | ~is_ahead[:-1]
    )
    starts = np.flatnonzero(is_start)
    if most_together is not None:
        starts = _divide_long_steps(starts, len(order), most_together)
    return _in_order(order, starts, is_ahead)


def _divide_long_steps(starts: Longs, rows: int, most: int) -> Longs:
    """The starts of steps and of the parts of steps with more than `most` elements."""
    lengths = np.diff(np.append(starts, rows))
    if not len(lengths) or lengths.max() <= most:
        return starts
    parts = -(-lengths // most)
    number_in_step = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.asarray(np.repeat(starts, parts) + number_in_step * most, np.int64)


def _in_order(order: Longs, starts: Longs, is_ahead: Booleans) -> Steps:
    """The steps order[starts[i] : starts[i + 1]], each moved to the place of its first element."""
    rows = len(order)
    step_at = np.full(rows, -1, np.int64)
    step_at[order[starts]] = np.arange(len(starts))
    steps = step_at[step_at >= 0]
    lengths = np.diff(np.append(starts, rows))[steps]
    ends = np.cumsum(lengths)
    places = np.repeat(starts[steps] - (ends - lengths), lengths) + np.arange(rows)
    return Steps(order[places], np.concatenate([np.zeros(1, np.int64), ends]), is_ahead[starts[steps]])
