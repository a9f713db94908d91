"""The page of a pipeline's late rows: how late they came, and what another allowed lateness or another bound
would have saved and cost. It shows what `slackwater late advise` prints.
"""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.inspection.late_rows import lateness_sentences
from slackwater.inspection.late_rows.completeness import BoundAdvice, BoundPrice
from slackwater.inspection.late_rows.lateness_advice import STEPS_MS, LatenessAdvice, LatenessPrice
from slackwater.inspection.late_rows.lateness_and_bound import LateRowAdvice, advice_of
from slackwater.inspection.late_rows.lateness_settings import NoLateness
from slackwater.pages.drawing.plots import Plot
from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.pages.frame.links import same_page
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath
from slackwater.pages.lateness_plots import (
    bound_price_plot,
    completeness_plot,
    lateness_distribution_plot,
    lateness_price_plot,
)
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
    lateness, bound = advice.lateness, advice.bound
    sentences = [lateness_sentences.lateness_suggestion(lateness)]
    if bound is not None:
        sentences.append(lateness_sentences.bound_suggestion(bound))
    return render(
        request,
        "lateness.html",
        pipeline=view.name,
        view=view,
        advice=advice,
        summary=lateness_sentences.summary(lateness),
        sentences=sentences,
        notes=lateness_sentences.exactness(lateness, bound),
        ranges=_ranges(request, advice, last),
        last=last,
        choice=choice,
        steps=[("", NOTHING), *((step, exact_duration_text(step)) for step in STEPS_MS if step)],
        plots=_plots(advice),
        latenesses=_latenesses(lateness, choice.lateness_ms),
        bounds=None if bound is None or not bound.current.windows else _bounds(bound, choice.bound_ms),
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
    plots = [lateness_distribution_plot(advice.distribution, advice.settings.lateness_ms)]
    curves = [lateness_price_plot(advice.lateness)]
    if advice.bound is not None:
        plots.append(completeness_plot(advice.bound.current))
        curves.append(bound_price_plot(advice.bound))
    return [*plots, *(plot for plot in curves if len(plot.numbers.rows) > 1)]


def _latenesses(advice: LatenessAdvice, chosen_ms: int | None) -> TableView:
    return TableView(
        caption="What another allowed lateness would have done",
        columns=[
            PageColumn("allowed lateness"),
            PageColumn("note"),
            PageColumn("late rows", "number", "rows too late for every window of theirs"),
            PageColumn("saved", "number", "of the rows that were too late"),
            PageColumn("lost", "number", "of the rows that windows took late"),
            PageColumn("windows refired", "number", "windows that fire again for late rows"),
            PageColumn("firings", "number", "firings for late rows"),
            PageColumn("open windows", "number", "at the end of a run, on average"),
            PageColumn("state", "size", "what these take in storage"),
        ],
        rows=[
            (
                exact_duration_text(price.lateness_ms),
                _note(price, advice, is_chosen=price.lateness_ms == chosen_ms),
                *(price.late_rows, price.rows_saved, price.rows_lost),
                *(price.windows_refired, price.refires, price.windows_open, price.state_bytes),
            )
            for price in advice.prices
        ],
    )


def _bounds(advice: BoundAdvice, chosen_ms: int | None) -> TableView:
    return TableView(
        caption="How complete windows would have been under another bound",
        columns=[
            PageColumn("bound"),
            PageColumn("note"),
            PageColumn("fires later by"),
            PageColumn("complete windows", "share", "windows that had all their rows when they first fired"),
            PageColumn("rows at first firing", "share", "of all rows of these windows"),
            PageColumn("least complete 5 %", "share", "how complete the least complete windows were at most"),
            PageColumn("late rows", "number", "rows too late for every window of theirs"),
        ],
        rows=[
            (
                exact_duration_text(price.bound_ms),
                _note(price, advice, is_chosen=price.bound_ms == chosen_ms),
                exact_duration_text(price.delay_ms) if price.delay_ms else "",
                *(price.complete_share, price.row_share, price.quantiles.get(0.05), price.late_rows),
            )
            for price in advice.prices
        ],
    )


def _note(
    price: LatenessPrice | BoundPrice, advice: LatenessAdvice | BoundAdvice, *, is_chosen: bool
) -> Cell | str:
    """What a row of a table is beside its numbers."""
    if price == advice.current:
        return Cell("declared", tone="muted")
    if price == advice.suggestion:
        return Cell("suggested", tone="good")
    return Cell("chosen", tone="muted") if is_chosen else ""


def _milliseconds(digits: str) -> int | None:
    return int(digits) if digits else None
