"""The global window with a count trigger, on whole columns: every n-th element of a key fires it.

Arrays of integers in, firings and the rows that make them up out. Order is everything here, so elements come
in order of arrival.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.groups import Groups, group_pairs, run_numbers, run_starts

_NOTHING: Final = -1


class CountedWindows(NamedTuple):
    """The window of each key, one a row; int64[n] each, times in milliseconds.

    Attributes:
        keys: the key's code, ascending; the caller keeps codes and keys apart.
        counts: elements since the last firing.
        elements: accepted so far.
        firings: so far.
        last_fired_at: clock at the newest firing; what it was before where nothing fired.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
        contents: which contents it holds; -1 for none, after a purge.
    """

    keys: Longs
    counts: Longs
    elements: Longs
    firings: Longs
    last_fired_at: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    contents: Longs


class CountFirings(NamedTuple):
    """Firings, one a row.

    Attributes:
        positions: the element that fired, among those given.
        firings: 1, 2, …: Flink's count of the window's firings.
        elements: accepted by the window then.
        contents: what it held.
    """

    positions: Longs
    firings: Longs
    elements: Longs
    contents: Longs


def replay_counts(
    before: CountedWindows, keys: Longs, clocks: Longs, *, max_count: int, accumulates: bool, never: int
) -> tuple[CountFirings, CountedWindows, Contents]:
    """Replay the elements of one slice.

    Args:
        before: the windows at its start. What stands in `contents` is not read: row i of `before` is row i of
            what makes up contents, element j row len(before) + j.
        keys, clocks: int64[m], of the elements in order of arrival.
        max_count: elements a firing.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them.
        never: `last_fired_at` of a window that has not fired.

    Returns:
        The firings, the windows at the slice's end, and which rows make up what they hold.
    """
    everyone = np.union1d(before.keys, keys)
    known = np.searchsorted(everyone, before.keys)
    count, elements, firings = np.zeros((3, len(everyone)), np.int64)
    count[known], elements[known], firings[known] = before.counts, before.elements, before.firings

    owners = np.searchsorted(everyone, keys)
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    starts = run_starts(owners)
    places = np.arange(len(order)) - starts[run_numbers(starts, len(order))]
    passed = count[owners] + places
    fires = (passed + 1) % max_count == 0
    fired_by, fired = owners[fires], order[fires]

    came = np.bincount(owners, minlength=len(everyone))
    last_fired, first, last = np.full((3, len(everyone)), never)
    last_fired[known], first[known], last[known] = (
        before.last_fired_at,
        before.first_arrivals,
        before.last_arrivals,
    )
    last_fired[fired_by] = clocks[fired]  # of several firings of a key the last one counts
    last[owners] = clocks[order]
    is_new = np.ones(len(everyone), np.bool_)
    is_new[known] = False
    new_runs = starts[is_new[owners[starts]]]
    first[owners[new_runs]] = clocks[order[new_runs]]

    holds = np.flatnonzero(before.counts > 0) if not accumulates else np.arange(len(before.keys))
    rows = np.append(holds, order + len(before.keys))
    rows_of = np.append(known[holds], owners)
    if accumulates:
        contents, held = _running(rows, rows_of, np.append(np.zeros(len(holds), np.bool_), fires))
    else:
        contents, held = _batches(
            rows, rows_of, np.append(np.zeros(len(holds), np.int64), passed // max_count)
        )
    newest = np.full(len(everyone), _NOTHING)
    newest[rows_of] = held
    left = (count + came) % max_count
    after = CountedWindows(
        everyone,
        left,
        elements + came,
        firings + (count + came) // max_count,
        last_fired,
        first,
        last,
        newest if accumulates else np.where(left > 0, newest, _NOTHING),
    )
    firing_numbers = firings[owners] + (passed + 1) // max_count
    panes = CountFirings(
        fired, firing_numbers[fires], (elements[owners] + places + 1)[fires], held[len(holds) :][fires]
    )
    return panes, after, contents


def _batches(rows: Longs, owners: Longs, batches: Longs) -> tuple[Contents, Longs]:
    """Contents from one firing to the next, and those of each row."""
    groups, _, _ = group_pairs(owners, batches)
    nothing = np.zeros(0, np.int64)
    return Contents(rows, groups, nothing, nothing, nothing), groups.codes


def _running(rows: Longs, owners: Longs, fires: np.ndarray) -> tuple[Contents, Longs]:
    """All contents so far, wherever a row fires or is the last of its key; and those of each such row."""
    order = np.argsort(owners, kind="stable")
    starts = run_starts(owners[order])
    is_picked = fires[order].copy()
    is_picked[np.append(starts[1:], len(order))[: len(starts)] - 1] = True
    picks = np.flatnonzero(is_picked)
    held = np.full(len(rows), _NOTHING)
    held[order[picks]] = np.arange(len(picks))
    nothing = np.zeros(0, np.int64)
    return Contents(nothing, Groups(nothing, 0), rows[order], starts, picks), held
