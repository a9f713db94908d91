"""What another allowed lateness would have done to a lineage, from what its runs have recorded, and the one
that is worth its price.

Exact, for windows that do not merge and fire at their end:
- rows saved by a longer lateness, and rows lost by a shorter one: each late row has recorded the watermark at
  its arrival, which lateness does not move;
- firings of windows for late rows: each late row makes each of its windows fire once (`late_refires` may let
  rows share a firing).
Where more rows were late than are looked at, firings and windows are estimated from a sample of the windows.

A lower bound, for sessions: a session that a late row would have joined may end later than its own window.
For windows that overlap, firings of windows that missed a row which another window took are not recorded;
they are known where the source has been read (`source_assignments`).

Estimated: the state. A longer lateness keeps a window for that much longer, so at a run's end those are open
as well whose last millisecond the watermark has passed by the lateness or less. Their bytes are those of an
open window of the recorded snapshots, on average.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

import numpy as np

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows.lateness import LateRowCounts
from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, WindowsOfRow
from slackwater.inspection.late_rows.recorded_assignments import Longs, RecordedAssignments
from slackwater.inspection.runs.run_series import snapshot_bytes
from slackwater.windowing.times import to_ms

# Latenesses as people declare them.
_HOURS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18)
_DAYS = (1, 2, 3, 4, 5, 6, 7, 10, 14, 21, 30, 45, 60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 365)
STEPS_MS = (
    0,
    *(number * 60_000 for number in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(number * 3_600_000 for number in _HOURS),
    *(number * 86_400_000 for number in _DAYS),
)
# So many latenesses below the declared one, and above it, a table has at most.
_MOST_SHORTER = 4
_MOST_LONGER = 8
# A suggested lateness saves at least this share of the late rows.
WORTHWHILE_SHARE = 0.9
# … and lets at most so many times the windows be open.
MOST_STATE = 2
# A shorter lateness or bound is suggested only where so many windows have fired.
LEAST_WINDOWS = 50
# At the ends of so many of the newest runs the open windows are counted.
_RUN_ENDS = 30


@dataclass(frozen=True, kw_only=True)
class LatenessPrice:
    """What one allowed lateness would have done; None where it is not known.

    Attributes:
        late_rows: rows that would have been too late for all of their windows.
        rows_saved: how many of the late rows would have been taken; for sessions a lower bound.
        rows_lost: how many rows that windows took late would have been lost, counted once for each window.
            None for sessions.
        refires, windows_refired: firings of windows for late rows, and windows with such a firing. None where
            the trigger decides.
        windows_open, state_bytes: windows open at the ends of the newest runs, on average, and their size in
            storage.
    """

    lateness_ms: int
    late_rows: int | None
    rows_saved: int
    rows_lost: int | None
    refires: int | None
    windows_refired: int | None
    windows_open: int | None
    state_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class LatenessAdvice:
    """The prices of latenesses, in rising order, and the suggested one; the declared one where no other is
    better.

    Attributes:
        rows_read, rows_late: rows of the runs that the advice is about, and how many were too late.
        missed_by_taken_rows: windows that had ended for rows that other windows took; firings for them would
            come on top. 0 where the source has been read, which counts them.
        is_sample: whether firings and windows were estimated from a sample.
    """

    settings: LatenessSettings
    prices: tuple[LatenessPrice, ...]
    suggestion: LatenessPrice
    rows_read: int
    rows_late: int
    missed_by_taken_rows: int
    is_sample: bool

    @property
    def current(self) -> LatenessPrice:
        return self.price(self.settings.lateness_ms)

    def price(self, lateness_ms: int) -> LatenessPrice:
        return next(price for price in self.prices if price.lateness_ms == lateness_ms)


def latenesses(settings: LatenessSettings, lateness_ms: int | None = None) -> list[int]:
    """The latenesses that have a price, in rising order: steps, the declared one and `lateness_ms`."""
    return sorted({*STEPS_MS, settings.lateness_ms, *(() if lateness_ms is None else (lateness_ms,))})


def advise(
    inspection: Inspection,
    settings: LatenessSettings,
    assignments: RecordedAssignments,
    late_rows: LateRowCounts,
    lateness_ms: int | None = None,
) -> LatenessAdvice:
    """The advice for a lineage; `late_rows` are counted by `latenesses`, at least."""
    extra = () if lateness_ms is None else (lateness_ms,)
    steps = latenesses(settings, lateness_ms)
    rows_late = late_rows.total
    open_windows = _open_windows(inspection, settings, assignments)
    prices = [_price(step, late_rows, settings, assignments, open_windows) for step in steps]
    current = prices[steps.index(settings.lateness_ms)]
    has_evidence = sum(run.windows_fired for run in settings.runs) >= LEAST_WINDOWS
    candidates = prices if has_evidence else prices[steps.index(settings.lateness_ms) :]
    suggestion = _suggestion(candidates, current, rows_late)
    return LatenessAdvice(
        settings=settings,
        prices=_worth_showing(
            prices, current.lateness_ms, {current.lateness_ms, suggestion.lateness_ms, *extra}
        ),
        suggestion=suggestion,
        rows_read=sum(run.rows_read for run in settings.runs),
        rows_late=rows_late,
        missed_by_taken_rows=sum(run.assignments_missed for run in settings.runs)
        if assignments.needs_of_rows is None
        else 0,
        is_sample=assignments.is_sample,
    )


def _price(
    lateness_ms: int,
    late_rows: LateRowCounts,
    settings: LatenessSettings,
    assignments: RecordedAssignments,
    open_windows: Callable[[int], tuple[int | None, int | None]],
) -> LatenessPrice:
    rows_saved = late_rows.rows_saved(lateness_ms)
    is_merging = settings.windows_of_row is WindowsOfRow.MERGING
    is_known = settings.fires_at_end and not (is_merging and lateness_ms < settings.lateness_ms)
    rows_lost = assignments.rows_lost(lateness_ms) if is_known else None
    is_counted = rows_lost == 0 or (rows_lost is not None and settings.windows_of_row is WindowsOfRow.ONE)
    rows_late = late_rows.total - rows_saved + (rows_lost or 0) if is_counted else None
    windows_open, state_bytes = open_windows(lateness_ms)
    return LatenessPrice(
        lateness_ms=lateness_ms,
        late_rows=rows_late if assignments.needs_of_rows is None else assignments.late_rows(lateness_ms),
        rows_saved=rows_saved,
        rows_lost=rows_lost,
        refires=assignments.refires(lateness_ms) if is_known else None,
        windows_refired=assignments.windows_refired(lateness_ms) if is_known and not is_merging else None,
        windows_open=windows_open,
        state_bytes=state_bytes,
    )


def _suggestion(prices: Sequence[LatenessPrice], current: LatenessPrice, rows_late: int) -> LatenessPrice:
    """The least of `prices` that saves most of the rows that the declared lateness leaves late, and at most
    doubles the open windows; where no row was late, the least that loses none.
    """
    if not rows_late:
        return next(price for price in prices if price.rows_lost == 0 or price == current)
    most_windows = MOST_STATE * max(current.windows_open or 0, 1)
    affordable = [
        price
        for price in prices
        if price.rows_saved > current.rows_saved and (price.windows_open or 0) <= most_windows
    ]
    rows_enough = current.rows_saved + WORTHWHILE_SHARE * (rows_late - current.rows_saved)
    saving_enough = [price for price in affordable if price.rows_saved >= rows_enough]
    return next(iter(saving_enough), max(affordable, key=attrgetter("rows_saved"), default=current))


def _worth_showing(
    prices: Sequence[LatenessPrice], current_ms: int, always: set[int]
) -> tuple[LatenessPrice, ...]:
    """A table's worth of `prices`: a few below the declared lateness, and those above it up to the first that
    leaves nothing to save, without the ones that differ least from the one before. Prices in `always` stay.
    """
    most_saved = prices[-1].rows_saved
    last = next(number for number, price in enumerate(prices) if price.rows_saved == most_saved)
    shorter = [price for price in prices if price.lateness_ms < current_ms]
    longer = [
        price for number, price in enumerate(prices) if current_ms < price.lateness_ms and number <= last
    ]
    while len(longer) > _MOST_LONGER:
        gains = [
            (after.rows_saved - before.rows_saved, number)
            for number, (before, after) in enumerate(pairwise(longer[:-1]), 1)
            if after.lateness_ms not in always
        ]
        if not gains:
            break
        del longer[min(gains)[1]]
    shown = {price.lateness_ms for price in (*shorter[-_MOST_SHORTER:], *longer)} | always
    return tuple(price for price in prices if price.lateness_ms in shown)


def _open_windows(
    inspection: Inspection, settings: LatenessSettings, assignments: RecordedAssignments
) -> Callable[[int], tuple[int | None, int | None]]:
    """A function of an allowed lateness: how many windows would have been open under it at the ends of the
    newest runs that had today's lateness, on average, and their bytes in storage; None where that is not
    known.
    """
    runs = [
        run
        for run in settings.runs[-_RUN_ENDS:]
        if run.watermark_out is not None and settings.lateness_of(run) == settings.lateness_ms
    ]
    if not runs:
        return lambda lateness_ms: (None, None)
    watermarks = np.array([to_ms(run.watermark_out) for run in runs if run.watermark_out], np.int64)
    count_fired = _fired_windows(settings, assignments)
    open_now = np.array([run.windows_open for run in runs], np.int64)
    ever_open = open_now + count_fired(watermarks - settings.lateness_ms)
    sizes = snapshot_bytes(inspection.tables)
    sized_runs = [run for run in runs if run.run_id in sizes and run.windows_open]
    windows_sized = sum(run.windows_open for run in sized_runs)
    window_bytes = sum(sizes[run.run_id] for run in sized_runs) / windows_sized if sized_runs else None

    def windows_and_bytes(lateness_ms: int) -> tuple[int, int | None]:
        windows = max(round(float(np.mean(ever_open - count_fired(watermarks - lateness_ms)))), 0)
        return windows, None if window_bytes is None else round(windows * window_bytes)

    return windows_and_bytes


def _fired_windows(settings: LatenessSettings, assignments: RecordedAssignments) -> Callable[[Longs], Longs]:
    """A function of instants: how many windows that have fired had ended by then. Of runs before those that
    are looked at, only the watermarks and the numbers of firings at their ends are known.
    """
    earlier_runs = [run for run in settings.earlier_runs if run.watermark_out is not None]
    watermarks = np.array([to_ms(run.watermark_out) for run in earlier_runs if run.watermark_out], np.int64)
    counts = np.cumsum([run.windows_fired for run in earlier_runs], dtype=np.int64)
    fired_ends = assignments.fired_ends
    if earlier_runs:
        fired_ends = fired_ends[fired_ends > watermarks[-1]]

    def count_fired(instants: Longs) -> Longs:
        later_counts = np.searchsorted(fired_ends, instants, side="right") * assignments.one_in
        if not earlier_runs:
            return later_counts
        return later_counts + np.interp(instants, watermarks, counts).astype(np.int64)

    return count_fired
