"""Evictors on lists of element numbers: which elements of a firing its function sees, and which stay.

    contents of a window    4 9 12 15                    (as earlier firings have left them)
    before the function     4 evicted     9 12 15        the function sees these
    after the function      9 evicted     12 15          these stay in the window

What is evicted is gone for later firings. A firing whose window has lost all of its elements does not take
place, as in Flink, whose state of such a window is empty.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from slackwater.engine.functions.firing_moments import FiringTime, clocks_of, windows_of
from slackwater.engine.functions.increments import Increments
from slackwater.engine.functions.lazy_rows import RowMaker
from slackwater.engine.functions.left_over import LeftToOperator, leaving_errors
from slackwater.windowing import CountEvictor, Evictor, TimeEvictor
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    OpenWindows,
    rows_of,
)
from slackwater.windowing.evictors import EvictorContext, TimestampedValue
from slackwater.windowing.java import wrap_long
from slackwater.windowing.windows import Window

Evict: TypeAlias = Callable[[Longs, Window, EvictorContext], Longs]  # element numbers → those that stay


class Eviction(NamedTuple):
    """Firings and windows of a slice after their evictor; `lists` are the elements that each firing shows."""

    firings: Firings
    lists: ElementLists
    windows: OpenWindows
    accumulators: ElementLists


class NumberEvictor:
    """A pipeline's evictor, on numbers of elements; `rows` makes elements for one that looks at them."""

    def __init__(self, evictor: Evictor, times: Longs, rows: RowMaker) -> None:
        self._evictor = evictor
        self._times = times
        self._rows = rows
        self.before: Evict = self._before
        self.after: Evict = self._after
        rule: Evict | None = None
        if type(evictor) is CountEvictor:
            rule = self._newest
        elif type(evictor) is TimeEvictor:
            rule = self._recent
        if rule is not None:
            assert isinstance(evictor, CountEvictor | TimeEvictor)
            is_after = evictor.do_evict_after
            self.before, self.after = (_all, rule) if is_after else (rule, _all)

    def _newest(self, numbers: Longs, window: Window, time: EvictorContext) -> Longs:
        assert isinstance(self._evictor, CountEvictor)
        return numbers[max(len(numbers) - self._evictor.max_count, 0) :]

    def _recent(self, numbers: Longs, window: Window, time: EvictorContext) -> Longs:
        assert isinstance(self._evictor, TimeEvictor)
        if not len(numbers):
            return numbers
        times = self._times[numbers]
        recent: Longs = numbers[times > wrap_long(int(times.max()) - self._evictor.size_ms)]
        return recent

    def _before(self, numbers: Longs, window: Window, time: EvictorContext) -> Longs:
        values, places = self._values(numbers)
        with leaving_errors("the evictor"):
            self._evictor.evict_before(values, len(values), window, time)
        return _survivors(values, places, numbers)

    def _after(self, numbers: Longs, window: Window, time: EvictorContext) -> Longs:
        values, places = self._values(numbers)
        with leaving_errors("the evictor"):
            self._evictor.evict_after(values, len(values), window, time)
        return _survivors(values, places, numbers)

    def _values(self, numbers: Longs) -> tuple[list[TimestampedValue], dict[int, tuple[int, object]]]:
        rows, times = self._rows.rows(numbers), self._times[numbers].tolist()
        values = list(map(TimestampedValue, rows, times))
        return values, {id(value): (place, value) for place, value in enumerate(values)}


def _survivors(
    values: list[TimestampedValue], places: dict[int, tuple[int, object]], numbers: Longs
) -> Longs:
    """The numbers of the elements that an evictor has left in its list, in the list's order."""
    places_left = [places.get(id(value), (-1, None))[0] for value in values]
    if -1 in places_left:
        raise LeftToOperator("the evictor puts other elements into the window")
    survivors: Longs = numbers[np.array(places_left, np.int64)]
    return survivors


def _all(numbers: Longs, window: Window, time: EvictorContext) -> Longs:
    return numbers


def evict(
    firings: Firings,
    increments: Increments,
    windows: OpenWindows,
    windows_at_start: OpenWindows,
    evictor: NumberEvictor,
    *,
    accumulates: bool,
) -> Eviction:
    """Let the evictor take elements from a slice's windows; firings purge unless `accumulates`."""
    takes_place, visible_lists, left_by_owner = _evict_at_firings(firings, increments, evictor, accumulates)
    nothing = np.zeros(0, np.int64)
    lists = [
        np.append(left_by_owner.get(owner, nothing), new_numbers)
        for owner, new_numbers in zip(
            increments.window_owners.tolist(), increments.of_windows.arrays(), strict=True
        )
    ]
    accumulators = ElementLists.from_arrays(lists)
    has_contents = accumulators.lengths > 0
    windows = windows._replace(contents=np.where(has_contents, np.arange(len(lists)), NO_CONTENTS))
    if not takes_place.all():
        windows = _without_empty_firings(windows, windows_at_start, firings, increments, takes_place)
        firings = _renumber(firings, increments.owners, takes_place)
    return Eviction(firings, ElementLists.from_arrays(visible_lists), windows, accumulators)


def _evict_at_firings(
    firings: Firings, increments: Increments, evictor: NumberEvictor, accumulates: bool
) -> tuple[Booleans, list[Longs], dict[int, Longs]]:
    """(whether each firing has elements, the elements shown, what each window's last firing has left)."""
    left_by_owner: dict[int, Longs] = {}
    visible_lists: list[Longs] = []
    takes_place = np.ones(len(firings.keys), np.bool_)
    nothing = np.zeros(0, np.int64)
    times = map(FiringTime, firings.watermarks.tolist(), clocks_of(firings).tolist())
    columns = (increments.owners.tolist(), windows_of(firings), times, increments.of_firings.arrays())
    for place, (owner, window, time, new_numbers) in enumerate(zip(*columns, strict=True)):
        numbers = np.append(left_by_owner.get(owner, nothing), new_numbers)
        if not len(numbers):
            takes_place[place] = False
            continue
        survivors = evictor.before(numbers, window, time)
        visible_lists.append(survivors)
        survivors = evictor.after(survivors, window, time)
        if accumulates:
            left_by_owner[owner] = survivors
    return takes_place, visible_lists, left_by_owner


def _renumber(firings: Firings, owners: Longs, takes_place: Booleans) -> Firings:
    """The firings that take place, each window's counted on from its first number of the slice."""
    firsts = np.full(int(owners.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(firsts, owners, firings.firings)
    order = np.argsort(owners, kind="stable")
    counts = np.cumsum(takes_place[order])
    starts = np.flatnonzero(np.append(True, owners[order][1:] != owners[order][:-1]))
    before = np.append(0, counts)[starts]
    ranks = np.empty(len(owners), np.int64)
    ranks[order] = counts - np.repeat(before, np.diff(np.append(starts, len(order)))) - 1
    numbers = firsts[owners] + ranks
    return rows_of(firings._replace(firings=numbers), takes_place)


def _without_empty_firings(
    windows: OpenWindows,
    windows_at_start: OpenWindows,
    firings: Firings,
    increments: Increments,
    takes_place: Booleans,
) -> OpenWindows:
    """The windows, whose firings without elements do not count."""
    size = int(max(increments.owners.max(initial=-1), increments.window_owners.max(initial=-1))) + 1
    empty_counts = np.bincount(increments.owners[~takes_place], minlength=size)
    last_fired_at = windows.last_fired_at.copy()
    clocks = clocks_of(firings)
    newest = dict(zip(increments.owners[takes_place].tolist(), clocks[takes_place].tolist(), strict=True))
    at_start = dict(
        zip(
            zip(windows_at_start.keys.tolist(), windows_at_start.starts.tolist(), strict=True),
            windows_at_start.last_fired_at.tolist(),
            strict=True,
        )
    )
    for place in np.flatnonzero(empty_counts[increments.window_owners]).tolist():
        owner = int(increments.window_owners[place])
        earlier = at_start.get((int(windows.keys[place]), int(windows.starts[place])), NO_TIME)
        last_fired_at[place] = newest.get(owner, earlier)
    return windows._replace(
        firings=windows.firings - empty_counts[increments.window_owners], last_fired_at=last_fired_at
    )
