"""Draws a row of small bars, one for each run: how many rows it read, and how many of them came too late."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from slackwater.inspection.runs.run_series import RunFigures
from slackwater.readable import count_text, number_text, range_text

_WIDTH, _GAP, _HEIGHT = 5, 2, 28


def small_bars(runs: Sequence[RunFigures], href: Callable[[int], str]) -> Markup:
    """An SVG of one bar for each of `runs`, oldest first; `href`: seq of a run → URL of its page."""
    most = max((run.rows_read for run in runs), default=0) or 1
    width = len(runs) * (_WIDTH + _GAP)
    bars = [_bar(run, place * (_WIDTH + _GAP), most, href(run.seq)) for place, run in enumerate(runs)]
    return Markup(
        '<svg class="drawing" width="{}" height="{}" role="group" '
        'aria-label="rows read by the last {}">{}</svg>'
    ).format(width, _HEIGHT, count_text(len(runs), "run"), Markup("").join(bars))


def _bar(run: RunFigures, x: int, most: int, href: str) -> Markup:
    height = max(1, round(run.rows_read / most * (_HEIGHT - 2)))
    late_height = min(height, max(2, round(run.rows_late / most * (_HEIGHT - 2)))) if run.rows_late else 0
    title = (
        f"run {run.seq}, {range_text(run.slice_start, run.slice_end)}: {count_text(run.rows_read, 'row')}, "
        f"{number_text(run.rows_late)} too late"
    )
    return Markup(
        '<a href="{}" tabindex="-1" aria-hidden="true"><title>{}</title>'
        '<rect class="f-none" x="{}" y="0" width="{}" height="{}" pointer-events="all"/>'
        '<rect class="f-accent" x="{}" y="{}" width="{}" height="{}"/>'
        '<rect class="f-second" x="{}" y="{}" width="{}" height="{}"/></a>'
    ).format(
        *(href, title, x, _WIDTH + _GAP, _HEIGHT),
        *(x, _HEIGHT - height, _WIDTH, height),
        *(x, _HEIGHT - late_height, _WIDTH, late_height),
    )
