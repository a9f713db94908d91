"""What the figures of the last runs show: the lag of the watermark, late rows, and state that grows. Each is
judged against earlier runs of the same pipeline.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from statistics import median

from slackwater.inspection.health.findings import (
    LEAST_HISTORY,
    Colour,
    Finding,
    Subject,
    colour_of,
    is_far_above,
    worst,
)
from slackwater.inspection.runs.run_series import RunFigures
from slackwater.readable import (
    count_text,
    duration_text,
    number_text,
    share_text,
    size_text,
    time_text,
)

# A lag, late rows or state of no more than this are nobody's business, however unusual they are.
_SMALL_LAG = timedelta(hours=1)
_FEW_LATE_ROWS = 20
_FEW_WINDOWS = 1000
_FEW_BYTES = 10_000_000
# A watermark that has not moved for so many runs, though each of them accepted rows, is stuck.
_STUCK_RUNS = 3
# Growth is judged on the last runs, against the first half, of no fewer runs.
_RECENT_RUNS = 7
_LEAST_GROWTH_RUNS = 16


def judge_watermark(subject: Subject) -> Finding:
    runs = [run for run in subject.series if not run.closes]
    if subject.is_closed or not runs:
        return Finding(Colour.GREEN, "the lineage is closed" if runs else "there are no runs yet")
    newest = runs[-1]
    lag = newest.watermark_lag
    if lag is None or newest.watermark is None:
        has_rows = any(run.rows_accepted for run in runs)
        return Finding(
            Colour.YELLOW if has_rows else Colour.GREEN,
            "there is no watermark yet"
            + (", though rows were accepted: no window can fire" if has_rows else ""),
        )
    history = [run.watermark_lag.total_seconds() for run in runs[:-1] if run.watermark_lag is not None]
    text = f"the watermark is {duration_text(lag)} behind the end of the last slice"
    if history:
        text += f" (usually {duration_text(1000 * median(history))})"
    is_unusual = lag > _SMALL_LAG and is_far_above(lag.total_seconds(), history)
    colours = [colour_of(lag, subject.thresholds.watermark_lag)]
    if is_unusual:
        colours.append(Colour.YELLOW)
    if _is_stuck(runs):
        colours.append(Colour.RED)
        text = (
            f"the watermark has stood at {time_text(newest.watermark)} for {_runs_at_watermark(runs)} runs, "
            "though rows arrive: no window fires"
        )
    colour = worst(colours)
    command = None if colour is Colour.GREEN else f"slackwater state watermarks {subject.pipeline}"
    return Finding(colour, text, command, lag.total_seconds())


def _is_stuck(runs: Sequence[RunFigures]) -> bool:
    """Whether the watermark stood still for long over the last runs, though each has accepted rows."""
    before_and_last = runs[-_STUCK_RUNS - 1 :]
    return (
        len(before_and_last) > _STUCK_RUNS
        and len({run.watermark for run in before_and_last}) == 1
        and runs[-1].slice_end - before_and_last[0].slice_end > _SMALL_LAG
        and all(run.rows_accepted for run in before_and_last[1:])
    )


def _runs_at_watermark(runs: Sequence[RunFigures]) -> int:
    count = 0
    for run in reversed(runs[:-1]):
        if run.watermark != runs[-1].watermark:
            break
        count += 1
    return count


def judge_late_rows(subject: Subject) -> Finding:
    runs = [run for run in subject.series if run.late_share is not None]
    if not runs:
        return Finding(Colour.GREEN, "no rows were read yet")
    newest, share = runs[-1], runs[-1].late_share
    history = [run.late_share for run in runs[:-1] if run.late_share is not None]
    assert share is not None
    text = f"{share_text(share)} of the last run's rows came too late"
    if history:
        text += f" (usually {share_text(median(history))})"
    is_unusual = newest.rows_late >= _FEW_LATE_ROWS and is_far_above(share, history)
    colour = colour_of(share, subject.thresholds.late_share) if is_unusual else Colour.GREEN
    command = None if colour is Colour.GREEN else f"slackwater late report {subject.pipeline}"
    return Finding(colour, text, command, share)


def judge_state(subject: Subject) -> Finding:
    runs = [run for run in subject.series if not run.closes and run.slice_end > _warm_since(subject)]
    if len(runs) < _LEAST_GROWTH_RUNS:
        text = f"growth is judged from {_LEAST_GROWTH_RUNS} runs on"
        return Finding(None if runs else Colour.GREEN, text if runs else "no run has warmed up yet")
    growths = [
        _growth(runs, lambda run: run.windows_open, _FEW_WINDOWS, "open windows", number_text),
        _growth(runs, lambda run: run.timers_pending, _FEW_WINDOWS, "pending timers", number_text),
        _growth(runs, lambda run: run.state_bytes, _FEW_BYTES, "the snapshot", size_text),
    ]
    factor, growth_text = max(filter(None, growths), key=itemgetter(0))
    colour = colour_of(factor, subject.thresholds.growth)
    newest = subject.series[-1]
    if colour is Colour.GREEN:
        text = f"{count_text(newest.windows_open, 'open window')}, not growing by themselves"
        return Finding(colour, text, value=factor)
    return Finding(colour, growth_text, f"slackwater state windows {subject.pipeline}", factor)


def _warm_since(subject: Subject) -> datetime:
    """When a window that was opened at the start of the lineage is gone for sure: until then parked state
    grows. Where that is not known, a quarter of the runs is left out.
    """
    first, declaration = subject.series[0].slice_start, subject.declaration
    if declaration is None or declaration.window is None:
        return subject.series[len(subject.series) // 4].slice_start
    if first > declaration.start:  # type: ignore[operator]
        return first
    assert isinstance(declaration.start, datetime)
    watermarks_bound = timedelta(milliseconds=getattr(declaration.watermarks, "out_of_orderness_ms", 0) or 0)
    window = timedelta(milliseconds=declaration.window_ms)
    return declaration.start + window + declaration.allowed_lateness + watermarks_bound


def _growth(
    runs: Sequence[RunFigures],
    amount: Callable[[RunFigures], int | None],
    small: int,
    name: str,
    written: Callable[[float], str],
) -> tuple[float, str] | None:
    """By which factor an amount has grown beyond the rows read, from the first half of the runs to the last
    ones, and a clause that says so; factor 1 where it is small. None where it is known of too few runs.
    """
    amounts = [(value, run.rows_read) for run in runs if (value := amount(run)) is not None]
    earlier, recent = amounts[: len(amounts) // 2], amounts[-_RECENT_RUNS:]
    if len(earlier) < LEAST_HISTORY:
        return None
    before, after = (median(value for value, _ in part) for part in (earlier, recent))
    rows_before, rows_after = (median(rows for _, rows in part) for part in (earlier, recent))
    if after - before < small:
        return 1.0, ""
    rows_factor = max(1.0, rows_after / max(1, rows_before))
    factor = after / max(1, before) / rows_factor
    rows_text = "as many rows" if rows_factor < 1.05 else f"{rows_factor:.1f} times the rows"
    return factor, f"{name} grew from {written(int(before))} to {written(int(after))} on {rows_text}"
