"""Turns pieces of grid slices into pieces of windows, and assigns single elements, on time or late."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
    run_starts,
    sum_of_groups,
)
from slackwater.windowing.columnar.kernels import SliceInput
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.window_columns import Pieces

A = TypeVar("A", bound=Accumulators)


class WindowPieces(NamedTuple, Generic[A]):
    """Pieces of windows (`firsts` and `lasts` are the window's number), and the accumulator of each."""

    pieces: Pieces
    accumulators: A


class LateAssignments(NamedTuple, Generic[A]):
    """Late elements that a window still takes, by window and arrival: one row per (element, window)."""

    keys: Longs
    numbers: Longs
    clocks: Longs
    watermarks: Longs
    accumulators: A


def pieces_of_windows(
    slice_input: SliceInput[A], windows: NumberedWindows, newest_collected: int
) -> WindowPieces[A]:
    """Pieces of grid slices as pieces of windows; no arrivals for windows up to `newest_collected`."""
    pieces = slice_input.pieces
    if windows.overlap and len(pieces.keys):
        return _pieces_of_overlapping_windows(
            pieces, slice_input.piece_accumulators, windows, newest_collected
        )
    numbers = windows.newest_windows(pieces.firsts)
    return WindowPieces(pieces._replace(firsts=numbers, lasts=numbers), slice_input.piece_accumulators)


def _pieces_of_overlapping_windows(
    pieces: Pieces, piece_accumulators: A, windows: NumberedWindows, newest_collected: int
) -> WindowPieces[A]:
    """`pieces_of_windows` for windows that overlap.

    All pieces of a (key, grid slice) become one row, sorted by key and slice, so each window of a key is a
    span of consecutive rows:

        rows of a key    │ slice 4 │ slice 5 │ slice 6 │
        window 4         └─────── span ──────┘
        window 5                   └─────── span ──────┘
    """
    groups, keys, slices = group_pairs(pieces.keys, pieces.firsts)
    ascends = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (slices[1:] > slices[:-1]))
    if not ascends.all():  # groups of far keys and slices come in order of appearance
        order = np.lexsort((slices, keys))
        ranks = np.empty(groups.size, np.int64)
        ranks[order] = np.arange(groups.size)
        groups, keys, slices = Groups(ranks[groups.codes], groups.size), keys[order], slices[order]
    numbers, spans = windows.window_spans(slices, run_starts(keys))
    first, last = arrival_bounds(pieces, windows.newest_windows(pieces.firsts), groups, newest_collected)
    is_needed = numbers > newest_collected
    first_of_spans, last_of_spans = np.zeros((2, len(numbers)), np.int64)
    if is_needed.any():
        open_spans = spans.where(is_needed)
        first_of_spans[is_needed], last_of_spans[is_needed] = (
            open_spans.least(first),
            open_spans.greatest(last),
        )
    window_pieces = Pieces(
        keys=keys[spans.firsts],
        firsts=numbers,
        lasts=numbers,
        elements=spans.sum(sum_of_groups(pieces.elements, groups)),
        first_arrivals=first_of_spans,
        last_arrivals=last_of_spans,
    )
    return WindowPieces(window_pieces, piece_accumulators.combine(groups).combine_spans(spans))


def arrival_bounds(
    pieces: Pieces, newest_windows: Longs, groups: Groups, newest_collected: int
) -> tuple[Longs, Longs]:
    """(first, last) arrival of each group; 0 where all windows are collected: only open ones are parked."""
    open_rows = np.flatnonzero(newest_windows > newest_collected)
    if not len(open_rows):
        return np.zeros(groups.size, np.int64), np.zeros(groups.size, np.int64)
    groups_of_open = Groups(groups.codes[open_rows], groups.size)
    first = least_of_groups(pieces.first_arrivals[open_rows], groups_of_open)
    return first, greatest_of_groups(pieces.last_arrivals[open_rows], groups_of_open)


def assign_elements(
    slice_input: SliceInput[A], windows: NumberedWindows
) -> tuple[WindowPieces[A], LateAssignments[A], int]:
    """Assign the single elements to their windows. Returns pieces of the windows that wait for their first
    firing, late elements of windows that have fired, and the number of pairs (element, collected window).
    """
    keys, times, clocks, watermarks = slice_input.elements
    row_windows = windows.explode(windows.slices(times))
    in_force = watermarks[row_windows.rows]
    waits = windows.last_instants(row_windows.windows) > in_force
    is_missed = windows.are_late(row_windows.windows, in_force)
    rows, numbers = row_windows.rows[waits], row_windows.windows[waits]
    on_time = Pieces(
        keys=keys[rows],
        firsts=numbers,
        lasts=numbers,
        elements=np.ones(len(rows), np.int64),
        first_arrivals=clocks[rows],
        last_arrivals=clocks[rows],
    )
    fires_again = ~waits & ~is_missed
    late_rows, numbers = row_windows.rows[fires_again], row_windows.windows[fires_again]
    order = np.lexsort((late_rows, numbers, keys[late_rows]))
    late_rows, numbers = late_rows[order], numbers[order]
    late = LateAssignments(
        keys=keys[late_rows],
        numbers=numbers,
        clocks=clocks[late_rows],
        watermarks=watermarks[late_rows],
        accumulators=slice_input.element_accumulators.take(late_rows),
    )
    part = WindowPieces(on_time, slice_input.element_accumulators.take(rows))
    return part, late, int(np.count_nonzero(is_missed))
