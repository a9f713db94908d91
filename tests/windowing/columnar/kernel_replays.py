"""Slices through a kernel of windows on columns: what is compared with `operator_replays`, in its form.

The accumulators are sets of element numbers, so that a firing shows exactly what it held. Not a test: the
part that the kernels' tests share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    OpenWindows,
    PaneKind,
    Pieces,
    TriggerStates,
    columns_of,
    concatenate,
    rows_of,
)
from tests.windowing.columnar.operator_replays import Slice, SliceRows

LABELS = {
    PaneKind.EARLY: "early",
    PaneKind.ON_TIME: "on_time",
    PaneKind.LATE: "late",
    PaneKind.WITHDRAWN: "withdrawn",
}


@dataclass(frozen=True)
class ElementSets:
    """Accumulators that are sets of element numbers; what is combined must not overlap."""

    sets: tuple[frozenset[int], ...]

    def take(self, rows: Longs | slice) -> ElementSets:
        places = range(len(self.sets))[rows] if isinstance(rows, slice) else rows.tolist()
        return ElementSets(tuple(self.sets[place] for place in places))

    def join(self, others: Sequence[ElementSets]) -> ElementSets:
        return ElementSets(sum((other.sets for other in others), self.sets))

    def combine(self, groups: Groups) -> ElementSets:
        groups_of_numbers = [frozenset[int]()] * groups.size
        for number, code in zip(self.sets, groups.codes.tolist(), strict=True):
            groups_of_numbers[code] = disjoint(groups_of_numbers[code], number)
        return ElementSets(tuple(groups_of_numbers))

    def combine_spans(self, spans: Spans) -> ElementSets:
        return self.take(spans.explode()[0]).combine(spans.explode()[1])

    def running(self, starts: Longs) -> ElementSets:
        begins, so_far, totals = set(starts.tolist()), frozenset[int](), []
        for place, numbers in enumerate(self.sets):
            so_far = numbers if place in begins else disjoint(so_far, numbers)
            totals.append(so_far)
        return ElementSets(tuple(totals))


def disjoint(one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
    """The union of sets that have nothing in common."""
    assert not one & other
    return one | other


Kernel = Callable[[SliceInput[ElementSets], WindowState[ElementSets], Timeline], SliceResult[ElementSets]]
# Of the elements of a slice: which travel as pieces, and which of these make one piece (equal numbers).
Piecing = Callable[[Elements], tuple[Booleans, Longs]]


def no_pieces(elements: Elements) -> tuple[Booleans, Longs]:
    """Every element travels as it is."""
    return np.zeros(len(elements.keys), np.bool_), np.zeros(len(elements.keys), np.int64)


class Replaying:
    """Replays slices with a kernel; what it parks is kept here from slice to slice."""

    def __init__(
        self, kernel: Kernel, piecing: Piecing = no_pieces, places: Callable[[Longs], Longs] = np.copy
    ) -> None:
        """`places` are those of times, as the kernel's pieces count them."""
        self.kernel, self.piecing, self.places = kernel, piecing, places
        nobody = columns_of(OpenWindows, [])
        self.initial_state = WindowState(nobody, columns_of(TriggerStates, []), ElementSets(()))

    def replay(self, part: Slice) -> SliceRows:
        """Panes, open windows, late elements and counts of one slice."""
        columns = np.array([(e.key, e.time, e.arrival) for e in part.elements], np.int64).reshape(-1, 3).T
        elements = Elements(*columns, watermarks=part.timeline.at_arrival(columns[2]))
        numbers = np.array(part.numbers, np.int64)
        in_pieces, piece_numbers = self.piecing(elements)
        pieces, piece_accumulators = self._pieces(
            rows_of(elements, in_pieces), numbers[in_pieces], piece_numbers[in_pieces]
        )
        tardy, tardy_numbers = rows_of(elements, ~in_pieces), numbers[~in_pieces].tolist()
        of_tardy = ElementSets(tuple(frozenset({number}) for number in tardy_numbers))
        slice_result = self.kernel(
            SliceInput(
                pieces=pieces,
                piece_accumulators=piece_accumulators,
                elements=tardy,
                element_accumulators=of_tardy,
            ),
            self.initial_state,
            part.timeline,
        )
        self.initial_state = _parked(slice_result)
        late = [
            (tardy_numbers[row], int(tardy.watermarks[row])) for row in slice_result.late.positions.tolist()
        ]
        kinds = Counter(concatenate(slice_result.firings).kinds.tolist())
        counts = {
            "windows_opened": slice_result.counts.windows_opened,
            "windows_merged": slice_result.counts.windows_merged,
            "windows_cleaned": slice_result.counts.windows_cleaned,
            "windows_open": len(slice_result.windows.keys),
            "windows_fired": kinds[PaneKind.EARLY] + kinds[PaneKind.ON_TIME],
            "windows_refired": kinds[PaneKind.LATE],
            "timers_pending": sum(len(timers.keys) for timers in slice_result.timers),
        }
        return SliceRows(_panes(slice_result), _open(slice_result), late, counts)

    def _pieces(self, elements: Elements, numbers: Longs, pieces: Longs) -> tuple[Pieces, ElementSets]:
        rows, sets = [], []
        for piece in np.unique(pieces).tolist():
            members = rows_of(elements, pieces == piece)
            places = self.places(members.times)
            bounds = (int(places.min()), int(places.max()), len(places))
            rows.append(
                (
                    int(members.keys[0]),
                    *bounds,
                    int(members.clocks.min()),
                    int(members.clocks.max()),
                )
            )
            sets.append(frozenset(numbers[pieces == piece].tolist()))
        return columns_of(Pieces, rows), ElementSets(tuple(sets))


def _parked(slice_result: SliceResult[ElementSets]) -> WindowState[ElementSets]:
    """What the next slice restores, as a snapshot gives it back."""
    parked_contents = slice_result.windows.contents
    windows = slice_result.windows._replace(
        contents=np.where(parked_contents == NO_CONTENTS, NO_CONTENTS, np.arange(len(parked_contents)))
    )
    nothing = ElementSets((frozenset(),))
    return WindowState(
        windows, slice_result.triggers, slice_result.accumulators.join([nothing]).take(parked_contents)
    )


def _panes(slice_result: SliceResult[ElementSets]) -> list[tuple[Any, ...]]:
    rows = zip(*(column.tolist() for column in concatenate(slice_result.firings)), strict=True)
    return [
        (
            key,
            _span(start, end),
            firing,
            "count" if start == NO_TIME else LABELS[PaneKind(kind)],
            elements,
            watermark,
            _time(tick_end),
            _time(cause),
            _members(slice_result, contents),
        )
        for key, start, end, firing, kind, elements, watermark, tick_end, cause, contents in rows
    ]


def _open(slice_result: SliceResult[ElementSets]) -> list[tuple[Any, ...]]:
    rows = zip(*(column.tolist() for column in slice_result.windows), strict=True)
    return [
        (key, _span(start, end), elements, firings, _time(at), first, last, _members(slice_result, contents))
        for key, start, end, elements, firings, at, first, last, contents in rows
    ]


def _members(slice_result: SliceResult[ElementSets], contents: int) -> frozenset[int] | None:
    return None if contents == NO_CONTENTS else slice_result.accumulators.sets[contents]


def _span(start: int, end: int) -> tuple[int, int] | None:
    return None if start == NO_TIME else (start, end)


def _time(value: int) -> int | None:
    return None if value == NO_TIME else value


def check(ours: Replaying, parts: Sequence[Slice], theirs: Sequence[SliceRows]) -> None:
    """Every slice gives what the operator gave."""
    for part, expected in zip(parts, theirs, strict=True):
        slice_result = ours.replay(part)
        assert Counter(slice_result.panes) == Counter(expected.panes)
        assert Counter(slice_result.open) == Counter(expected.open)
        assert slice_result.counts == {name: expected.counts[name] for name in slice_result.counts}
