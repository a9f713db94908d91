"""The whole advice on lateness and bound for a pipeline, for verb and page: how late rows came, the prices of
settings as tables, and in sentences what was late, which setting would be better at which price, and how
exact the numbers are.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from slackwater.inspection.answer_tables import AnswerTable, Column
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows.completeness import (
    BARS,
    BoundAdvice,
    BoundPrice,
    advise_on_bound,
    bounds,
    lateness_of_bound,
)
from slackwater.inspection.late_rows.lateness import LateRowCounts
from slackwater.inspection.late_rows.lateness_advice import (
    MOST_STATE,
    LatenessAdvice,
    LatenessPrice,
    advise,
    latenesses,
)
from slackwater.inspection.late_rows.lateness_settings import LatenessSettings, WindowsOfRow
from slackwater.inspection.late_rows.recorded_assignments import RecordedAssignments
from slackwater.inspection.sql.views import LineageViews
from slackwater.pipelines import Pipeline
from slackwater.readable import (
    count_text,
    exact_duration_text,
    number_text,
    range_text,
    share_text,
    size_text,
)
from slackwater.tables.warehouse import Warehouse

# Widths of bars that people can read off an axis.
_WIDTHS_MS = (
    *(number * 1000 for number in (1, 2, 5, 10, 15, 30)),
    *(number * 60_000 for number in (1, 2, 5, 10, 15, 30)),
    *(number * 3_600_000 for number in (1, 2, 3, 6, 12)),
    *(number * 86_400_000 for number in (1, 2, 5, 10, 30)),
)
_MOST_BARS = 40
# The latest rows beyond this share are in the last bar, so that a few of them do not squeeze all others.
_SHARE_ON_AXIS = 0.999


@dataclass(frozen=True)
class LatenessDistribution:
    """Rows that came after their window's end, by the least lateness with which it takes them; a row counts
    once for each window. Bar n holds the needs above n · width up to (n + 1) · width, the last one all above
    it.
    """

    width_ms: int
    taken_rows: Sequence[int]
    late_rows: Sequence[int]

    @classmethod
    def of(cls, assignments: RecordedAssignments, lateness_ms: int) -> "LatenessDistribution":
        """The histogram of what was recorded; the axis reaches `lateness_ms` in any case."""
        is_late = assignments.firings >= 0
        needed_ms, rows = assignments.needed_ms[is_late], assignments.rows[is_late]
        is_taken = assignments.is_taken[is_late]
        most = max(lateness_ms, int(np.quantile(needed_ms, _SHARE_ON_AXIS)) if len(needed_ms) else 1)
        width = next((width for width in _WIDTHS_MS if most <= width * _MOST_BARS), _WIDTHS_MS[-1])
        bars = min(-(-most // width), 10 * _MOST_BARS)
        places = np.clip((needed_ms - 1) // width, 0, bars - 1)
        taken_rows, late_rows = (
            np.bincount(places[mask], rows[mask], minlength=bars).astype(np.int64)
            for mask in (is_taken, ~is_taken)
        )
        return cls(
            width,
            [assignments.count_of_all(count) for count in taken_rows],
            [assignments.count_of_all(count) for count in late_rows],
        )


# So many firings and late rows are read, unless more runs are asked for.
MOST_ROWS = 3_000_000


@dataclass(frozen=True)
class LateRowAdvice:
    """The prices of latenesses, the prices of bounds (None where none is known), and how late rows came."""

    lateness: LatenessAdvice
    bound: BoundAdvice | None
    distribution: LatenessDistribution

    @property
    def settings(self) -> LatenessSettings:
        return self.lateness.settings

    @property
    def summary(self) -> str:
        return summary(self.lateness)

    @property
    def suggestions(self) -> list[str]:
        """The suggested lateness, and the suggested bound where one has a price, each with its price."""
        bounds = [] if self.bound is None else [bound_suggestion(self.bound)]
        return [lateness_suggestion(self.lateness), *bounds]

    @property
    def notes(self) -> list[str]:
        return exactness(self.lateness)


def advice_of(
    inspection: Inspection,
    *,
    lateness_ms: int | None = None,
    bound_ms: int | None = None,
    last_runs: int | None = None,
    reading: tuple[Pipeline, Warehouse] | None = None,
) -> LateRowAdvice:
    """The advice for main.

    Args:
        lateness_ms, bound_ms: get a price in any case; a bound only if it is longer than the declared one.
        last_runs: look at so many of the newest runs; None: at as many as can be read in a moment.
        reading: the pipeline and the warehouse of its source, to read the rows from there: then shorter
            bounds have a price, too, and for windows that overlap every number is exact.

    Raises:
        UsageError, NoLateness: there is no run, or no row can be too late here.
        NotFromSource, NeedsSpark, CannotRepeat, SnapshotGone: see `assignments_of_source`.
    """
    head = inspection.run(None)
    settings = LatenessSettings.of(inspection, head).with_newest_runs(last_runs, MOST_ROWS)
    with LineageViews.over(inspection, settings.row_of_runs(head)) as views:
        if reading is None:
            assignments = RecordedAssignments.of(views, settings)
        else:
            from slackwater.inspection.late_rows.source_assignments import assignments_of_source

            assignments = assignments_of_source(inspection, *reading, settings)
        steps = [lateness_of_bound(settings, bound) for bound in bounds(settings, bound_ms)]
        late_rows = LateRowCounts.of(views.query, [*latenesses(settings, lateness_ms), *steps])
    return LateRowAdvice(
        advise(inspection, settings, assignments, late_rows, lateness_ms),
        advise_on_bound(settings, assignments, late_rows, bound_ms),
        LatenessDistribution.of(assignments, settings.lateness_ms),
    )


def summary(advice: LatenessAdvice) -> str:
    """What the advice is about: `1,310 of 27,004 rows of 31 runs were too late, …`."""
    settings, runs = advice.settings, advice.settings.runs
    bound = "" if settings.bound_ms is None else f" and a bound of {exact_duration_text(settings.bound_ms)}"
    return (
        f"{number_text(advice.rows_late)} of {count_text(advice.rows_read, 'row')} in "
        f"{_runs_text(advice)} ({range_text(runs[0].slice_start, runs[-1].slice_end)}) were too "
        f"late, with an allowed lateness of {exact_duration_text(settings.lateness_ms)}{bound}."
    )


def _runs_text(advice: LatenessAdvice) -> str:
    runs = len(advice.settings.runs)
    live_runs = runs + len(advice.settings.earlier_runs)
    newest = f"the newest {number_text(runs)} of " if runs < live_runs else ""
    return newest + count_text(live_runs, "run")


def lateness_suggestion(advice: LatenessAdvice) -> str:
    current, suggestion = advice.current, advice.suggestion
    if suggestion == current:
        return _reason_to_stay(advice)
    beginning = (
        f"An allowed lateness of {exact_duration_text(suggestion.lateness_ms)} instead of "
        f"{exact_duration_text(current.lateness_ms)}"
    )
    if suggestion.lateness_ms < current.lateness_ms:
        return f"{beginning} would have lost no row, and kept {_open_windows_text(suggestion, current)}."
    least = "at least " if advice.settings.windows_of_row is WindowsOfRow.MERGING else ""
    return (
        f"{beginning} would have saved {least}{number_text(suggestion.rows_saved)} of "
        f"{count_text(advice.rows_late, 'late row')}, {_refires_text(advice)}and kept "
        f"{_open_windows_text(suggestion, current)}."
    )


def _reason_to_stay(advice: LatenessAdvice) -> str:
    lateness = exact_duration_text(advice.settings.lateness_ms)
    if not advice.rows_late:
        shorter = [price for price in advice.prices if price.lateness_ms < advice.current.lateness_ms]
        is_known = bool(shorter and shorter[-1].rows_lost)
        return f"Keep the allowed lateness of {lateness}: no row was too late" + (
            ", and a shorter one would have lost some." if is_known else "."
        )
    if advice.current.rows_saved == advice.rows_late:
        return f"Keep the allowed lateness of {lateness}: rows were too late under a smaller one alone."
    return (
        f"Keep the allowed lateness of {lateness}: no longer one would have saved late rows with at most "
        f"{MOST_STATE} times as many open windows."
    )


def _refires_text(advice: LatenessAdvice) -> str:
    before, after = advice.current, advice.suggestion
    if before.refires is None or after.refires is None:
        return ""
    if before.windows_refired is None or after.windows_refired is None:
        return f"fired sessions again {number_text(after.refires - before.refires)} times more, "
    about = "about " if advice.is_sample else ""
    windows = count_text(after.windows_refired - before.windows_refired, "window")
    return f"refired {about}{windows} more, "


def _open_windows_text(suggestion: LatenessPrice, current: LatenessPrice) -> str:
    if suggestion.windows_open is None or current.windows_open is None:
        return "windows open for that much longer"
    size = "" if suggestion.state_bytes is None else f" ({size_text(suggestion.state_bytes)})"
    return (
        f"about {count_text(suggestion.windows_open, 'window')}{size} open instead of "
        f"{number_text(current.windows_open)}"
    )


def bound_suggestion(advice: BoundAdvice) -> str:
    current, suggestion = advice.current, advice.suggestion
    share = share_text(current.complete_share)
    if not current.windows:
        return "No window has fired and been collected yet, so nothing is known of how complete they were."
    if suggestion == current:
        return (
            f"Keep the bound of {exact_duration_text(current.bound_ms)}: {share} of the windows were "
            "complete when they first fired."
        )
    direction = "later" if suggestion.delay_ms > 0 else "earlier"
    return (
        f"A bound of {exact_duration_text(suggestion.bound_ms)} instead of "
        f"{exact_duration_text(current.bound_ms)} would have let {share_text(suggestion.complete_share)} "
        f"instead of {share} of the windows be complete when they first fired, each "
        f"{exact_duration_text(abs(suggestion.delay_ms))} {direction}."
    )


def exactness(advice: LatenessAdvice) -> list[str]:
    settings = advice.settings
    sentences = []
    if settings.windows_of_row is WindowsOfRow.MERGING:
        sentences.append(
            "Rows saved are a lower bound: a session that a late row would have joined may end later than "
            "the row's own. What a shorter lateness would have lost is not known."
        )
    elif advice.missed_by_taken_rows:
        sentences.append(
            "Rows saved are exact. Other windows took rows for which "
            f"{count_text(advice.missed_by_taken_rows, 'window')} had ended; firings for these would come on "
            "top."
        )
    else:
        sentences.append("Rows saved are exact.")
    if not settings.fires_at_end:
        sentences.append("When windows fire is decided by the pipeline's trigger, so firings are not shown.")
    if advice.is_sample:
        sentences.append("Firings and the completeness of windows are estimated from a sample of windows.")
    sentences.append("Open windows and state are estimated, as the average at the ends of the newest runs.")
    return sentences


_LATE_ROWS = Column("late_rows", help="rows too late for every window of theirs")


def lateness_table(advice: LatenessAdvice, chosen_ms: int | None = None) -> AnswerTable:
    """The price of each lateness. `chosen_ms`: one that the reader wants to see."""
    return AnswerTable(
        title="What another allowed lateness would have done",
        columns=[
            Column("lateness_ms", "exact_duration", heading="allowed lateness"),
            Column("note", heading=""),
            _LATE_ROWS,
            Column("rows_saved", help="of the rows that were too late"),
            Column("rows_lost", is_optional=True, help="of the rows that windows took late"),
            Column("windows_refired", help="windows that fire again for late rows"),
            Column("windows_open", heading="open windows", help="at the end of a run, on average"),
            Column("state_bytes", "size", heading="state", help="what these take in storage"),
            Column("refires", help="firings for late rows"),
        ],
        rows=[
            {**asdict(price), "note": _note(price, advice, is_chosen=price.lateness_ms == chosen_ms)}
            for price in advice.prices
        ],
    )


def bound_table(advice: BoundAdvice | None, chosen_ms: int | None = None) -> AnswerTable | None:
    """The price of each bound; None where none is known. `chosen_ms`: one that the reader wants to see."""
    if advice is None or not advice.current.windows:
        return None
    return AnswerTable(
        title="How complete windows would have been under another bound",
        columns=[
            Column("bound_ms", "exact_duration", heading="bound"),
            Column("note", heading=""),
            Column("delay_ms", "exact_duration", heading="fires later by"),
            Column(
                "complete_share",
                "share",
                heading="complete windows",
                help="windows that had all their rows when they first fired",
            ),
            Column("row_share", "share", heading="rows at first firing", help="of all rows of these windows"),
            Column(
                "least_complete",
                "share",
                heading="least complete 5 %",
                help="how complete the least complete windows were at most",
            ),
            _LATE_ROWS,
        ],
        rows=[
            {
                **asdict(price),
                "complete_share": price.complete_share,
                "row_share": price.row_share,
                "least_complete": price.quantiles.get(0.05),
                "bars": {str(least): windows for least, windows in zip(BARS, price.bars, strict=True)},
                "note": _note(price, advice, is_chosen=price.bound_ms == chosen_ms),
            }
            for price in advice.prices
        ],
    )


def _note(price: LatenessPrice | BoundPrice, advice: LatenessAdvice | BoundAdvice, *, is_chosen: bool) -> str:
    if price == advice.current:
        return "declared"
    if price == advice.suggestion:
        return "suggested"
    return "chosen" if is_chosen else ""
