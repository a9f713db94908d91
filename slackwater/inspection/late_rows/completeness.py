"""How complete windows were when they fired for the first time, under the bound of out-of-orderness that a
lineage had and under longer ones.

    completeness of a window = rows that it had at its first firing / all rows that came for it

All rows are the rows that its newest firing had, and rows that came too late. For a session they include the
rows of all windows that it has absorbed, and late rows that touch it. Left out are windows that still accept
rows (with a long lateness only windows that ended in the newer half of the recorded time), and windows that a
longer bound would not have let fire yet.

A bound that is longer by d moves every watermark back by d, so a window fires d later, and has at its first
firing the rows that a lateness of d would have taken as well. That is exact, because the watermark at the
arrival of each row that came after the first firing is recorded. For rows before it none is recorded, so
shorter bounds have a price only where the source has been read (`source_assignments`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.inspection.late_rows.lateness import LateRowCounts
from slackwater.inspection.late_rows.lateness_advice import LEAST_WINDOWS, STEPS_MS
from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, WindowsOfRow
from slackwater.inspection.late_rows.recorded_assignments import RecordedAssignments
from slackwater.windowing.times import MILLISECOND, to_ms

# The shares of windows whose completeness is reported: the least complete hundredth, and so on.
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5)
# Lower bounds of the bars of a histogram of windows by completeness; the last is of complete windows.
BARS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
# A suggested bound lets at least this share of the windows be complete when they fire.
WORTHWHILE_SHARE = 0.95
_MOST_BOUNDS = 10


@dataclass(frozen=True, kw_only=True)
class BoundPrice:
    """What one bound of out-of-orderness would have done.

    Attributes:
        delay_ms: how much later windows would have fired than they did.
        windows, complete_windows: windows that are looked at; how many had all their rows at their first
            firing.
        rows, rows_at_first_firing: all rows of these windows, and the rows that first firings had.
        quantiles: share of the windows → the completeness that so many of them did not exceed.
        bars: how many windows were as complete as `BARS` says.
        late_rows: rows too late for all of their windows; for sessions an upper bound.
    """

    bound_ms: int
    delay_ms: int
    windows: int
    complete_windows: int
    rows: int
    rows_at_first_firing: int
    quantiles: Mapping[float, float]
    bars: Sequence[int]
    late_rows: int

    @property
    def complete_share(self) -> float | None:
        return self.complete_windows / self.windows if self.windows else None

    @property
    def row_share(self) -> float | None:
        return self.rows_at_first_firing / self.rows if self.rows else None


@dataclass(frozen=True)
class BoundAdvice:
    """The prices of bounds, in rising order, and the suggested one; the declared one where no other is
    better.
    """

    prices: tuple[BoundPrice, ...]
    current: BoundPrice
    suggestion: BoundPrice


def bounds(
    settings: LatenessSettings, bound_ms: int | None = None, *, includes_shorter: bool = False
) -> list[int]:
    """The bounds that may have a price, in rising order: the declared one, longer steps, and `bound_ms`;
    shorter ones where `includes_shorter`. None where triggers decide when windows fire, or watermarks have no
    bound. For sessions only the declared one: under another bound others would have merged.
    """
    if not settings.fires_at_end or settings.bound_ms is None:
        return []
    if settings.windows_of_row is WindowsOfRow.MERGING:
        return [settings.bound_ms]
    steps = {*STEPS_MS, *(() if bound_ms is None else (bound_ms,))}
    return sorted(
        {settings.bound_ms, *(step for step in steps if includes_shorter or step > settings.bound_ms)}
    )


def lateness_of_bound(settings: LatenessSettings, bound_ms: int) -> int:
    assert settings.bound_ms is not None
    return settings.lateness_ms + bound_ms - settings.bound_ms


def advise_on_bound(
    settings: LatenessSettings,
    assignments: RecordedAssignments,
    late_rows: LateRowCounts,
    bound_ms: int | None = None,
) -> BoundAdvice | None:
    """The advice for a lineage; None where no bound has a price.

    Args:
        late_rows: counted by `lateness_of_bound` of all `bounds` that are not shorter, at least.
        bound_ms: gets a price in any case; a shorter one only where the source has been read.
    """
    candidates = bounds(settings, bound_ms, includes_shorter=assignments.needs_of_rows is not None)
    if not candidates:
        return None
    first_firings = _FirstFirings(assignments, settings)
    prices = [
        first_firings.price(bound, _late_rows(lateness_of_bound(settings, bound), assignments, late_rows))
        for bound in first_firings.worth_a_price(candidates, bound_ms)
    ]
    current = next(price for price in prices if not price.delay_ms)
    prices = [price for price in prices if price.windows or price is current or price.bound_ms == bound_ms]
    suggestion = next(
        (
            price
            for price in prices
            if (price.complete_share or 0) >= WORTHWHILE_SHARE
            and price.delay_ms <= settings.lateness_ms
            and (price.delay_ms >= 0 or price.windows >= LEAST_WINDOWS)
        ),
        current,
    )
    return BoundAdvice(tuple(prices), current, suggestion)


def _late_rows(lateness_ms: int, assignments: RecordedAssignments, late_rows: LateRowCounts) -> int:
    rows = assignments.late_rows(lateness_ms)
    return late_rows.total - late_rows.rows_saved(lateness_ms) if rows is None else rows


class _FirstFirings:
    """The windows of a lineage that take no more rows, and the rows that each had when it first fired."""

    def __init__(self, assignments: RecordedAssignments, settings: LatenessSettings) -> None:
        self._assignments, self._settings = assignments, settings
        first, last = settings.runs[0].watermark_in, settings.runs[-1].watermark_out
        self._begin = None if first is None else to_ms(first)
        self._end = None if last is None else to_ms(last)
        recorded_time_ms = (settings.runs[-1].slice_end - settings.runs[0].slice_start) // MILLISECOND
        self.waiting_ms = min(settings.lateness_ms, recorded_time_ms // 2)

    def worth_a_price(self, candidates: Sequence[int], asked_ms: int | None) -> list[int]:
        """The first of `candidates`, and the others under which first firings have more rows than under the
        one before: up to the first under which they have all rows, and no more than fit a table.
        """
        assert self._settings.bound_ms is not None
        delays = np.array(candidates) - self._settings.bound_ms
        order = np.argsort(self._assignments.needed_ms, kind="stable")
        rows = np.concatenate([[0], np.cumsum(self._assignments.rows[order])])
        rows_by_bound = rows[np.searchsorted(self._assignments.needed_ms[order], delays, side="right")]
        gains = np.diff(rows_by_bound)
        best = np.argsort(-gains, kind="stable")[: _MOST_BOUNDS - 1]
        chosen = {
            candidates[0],
            self._settings.bound_ms,
            *(candidates[place + 1] for place in best if gains[place] > 0),
        }
        if asked_ms in candidates:
            chosen.add(asked_ms)
        return sorted(chosen)

    def price(self, bound_ms: int, late_rows: int) -> BoundPrice:
        assert self._settings.bound_ms is not None
        delay_ms, assignments = bound_ms - self._settings.bound_ms, self._assignments
        is_counted = self._have_ended(max(delay_ms, self.waiting_ms))
        rows = self._rows_by_window(np.ones(len(assignments.rows), np.bool_))[is_counted]
        first_rows = self._rows_by_window(assignments.needed_ms <= delay_ms)[is_counted]
        shares = np.sort(first_rows / np.maximum(rows, 1))
        places = np.searchsorted(shares, BARS)
        return BoundPrice(
            bound_ms=bound_ms,
            delay_ms=delay_ms,
            windows=assignments.count_of_all(len(rows)),
            complete_windows=assignments.count_of_all(np.count_nonzero(first_rows == rows)),
            rows=assignments.count_of_all(rows.sum()),
            rows_at_first_firing=assignments.count_of_all(first_rows.sum()),
            quantiles={
                share: float(shares[min(int(share * len(shares)), len(shares) - 1)]) for share in QUANTILES
            }
            if len(shares)
            else {},
            bars=[assignments.count_of_all(count) for count in np.diff([*places, len(shares)])],
            late_rows=late_rows,
        )

    def _have_ended(self, after_ms: int) -> npt.NDArray[np.bool_]:
        """For each window whether the watermark has passed its last millisecond by `after_ms`."""
        last_instants = self._assignments.last_instants
        if self._end is None:
            return np.zeros(len(last_instants), np.bool_)
        have_ended = last_instants + after_ms <= self._end
        if self._assignments.are_whole is not None:
            return have_ended & self._assignments.are_whole
        return have_ended if self._begin is None else have_ended & (last_instants > self._begin)

    def _rows_by_window(self, counts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        assignments = self._assignments
        return np.bincount(
            assignments.windows[counts],
            assignments.rows[counts],
            minlength=len(assignments.last_instants),
        ).astype(np.int64)
