"""Says the advice on lateness and bound in sentences: what was late, which setting would be better at which
price, and how exact the numbers are.
"""

from slackwater.inspection.late_rows.completeness import BoundAdvice
from slackwater.inspection.late_rows.lateness_advice import MOST_STATE, LatenessAdvice, LatenessPrice
from slackwater.inspection.late_rows.lateness_settings import WindowsOfRow
from slackwater.readable import (
    count_text,
    exact_duration_text,
    number_text,
    range_text,
    share_text,
    size_text,
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
