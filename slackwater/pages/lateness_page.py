"""The page of a pipeline's late rows: how late they came, and what another allowed lateness or another bound
would have saved and cost, as `slackwater late advise` prints it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.inspection.late_rows.lateness_advice import STEPS_MS
from slackwater.inspection.late_rows.lateness_and_bound import (
    LateRowAdvice,
    advice_of,
    bound_table,
    lateness_table,
)
from slackwater.inspection.late_rows.lateness_settings import NoLateness
from slackwater.pages.drawing.plots import Plot
from slackwater.pages.drawing.table_view import table_view
from slackwater.pages.frame.links import same_page
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath
from slackwater.pages.lateness_plots import bound_price_plot, lateness_price_plot, recorded_plots
from slackwater.readable import NOTHING, count_text, exact_duration_text

router = APIRouter()
# How many of the newest runs a reader may look at.
_LAST_RUNS = (7, 30, 90)
# Milliseconds in a query; a form sends an empty text for none.
_Duration = Annotated[str, Query(pattern=r"^[0-9]{0,12}$")]


class _Choice(NamedTuple):
    """The settings that a reader wants to see beside the steps."""

    lateness_ms: int | None
    bound_ms: int | None


@router.get("/{pipeline}/late", name="late")
def lateness_page(
    request: Request,
    view: PipelineInPath,
    last: Annotated[int | None, Query(ge=1, le=100_000, description="only so many runs")] = None,
    lateness_ms: _Duration = "",
    bound_ms: _Duration = "",
) -> Response:
    choice = _Choice(_milliseconds(lateness_ms), _milliseconds(bound_ms))
    try:
        advice = advice_of(
            view.inspection, lateness_ms=choice.lateness_ms, bound_ms=choice.bound_ms, last_runs=last
        )
    except NoLateness as error:
        return render(request, "lateness.html", pipeline=view.name, view=view, advice=None, why=error.message)
    bounds = bound_table(advice.bound, choice.bound_ms)
    return render(
        request,
        "lateness.html",
        pipeline=view.name,
        view=view,
        advice=advice,
        ranges=_ranges(request, advice, last),
        last=last,
        choice=choice,
        steps=[("", NOTHING), *((step, exact_duration_text(step)) for step in STEPS_MS if step)],
        plots=_plots(advice),
        latenesses=table_view(lateness_table(advice.lateness, choice.lateness_ms), tone=_tone),
        bounds=None if bounds is None else table_view(bounds, tone=_tone),
        commands=[
            (view.command("late advise"), "The same in a terminal; --lateness and --bound add settings"),
            (view.command("late report"), "Which arrivals to restate to re-admit late rows"),
            (view.command("late list"), "Every late row, and the windows that it missed"),
        ],
    )


def _ranges(request: Request, advice: LateRowAdvice, last: int | None) -> list[tuple[str, str, bool]]:
    """How many runs may be looked at: text, URL, whether these are shown."""
    live_runs = len(advice.settings.runs) + len(advice.settings.earlier_runs)
    return [
        (
            "as many as fit" if advice.settings.earlier_runs else count_text(live_runs, "run"),
            same_page(request, last=None),
            last is None,
        ),
        *(
            (f"{number} runs", same_page(request, last=number), last == number)
            for number in _LAST_RUNS
            if number < live_runs
        ),
    ]


def _plots(advice: LateRowAdvice) -> list[Plot]:
    bound_curves = [] if advice.bound is None else [bound_price_plot(advice.bound)]
    curves = [lateness_price_plot(advice.lateness), *bound_curves]
    return [*recorded_plots(advice), *(plot for plot in curves if len(plot.numbers.rows) > 1)]


def _tone(column: str, row: Mapping[str, Any]) -> str | None:
    """The suggested row stands out; other notes do not."""
    return None if column != "note" else "good" if row["note"] == "suggested" else "muted"


def _milliseconds(digits: str) -> int | None:
    return int(digits) if digits else None
