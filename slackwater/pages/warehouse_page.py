"""The first page: every pipeline of the warehouse that its reader may see, how healthy it is, and its newest
runs as bars.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from slackwater.inspection.health.findings import Colour
from slackwater.inspection.health.report import PipelineHealth, pipeline_health
from slackwater.inspection.runs.run_series import RunFigures
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import Site, site_of
from slackwater.readable import count_text, number_text, range_text
from slackwater.tables.errors import NoRuns

router = APIRouter()
_BARS = 30


@router.get("/", name="warehouse")
def warehouse_page(request: Request) -> Response:
    site, now = site_of(request), datetime.now(UTC)
    health_by_name = {name: _health(site, name, now) for name in site.visible_names(request)}
    healths = [health for health in health_by_name.values() if health is not None]
    return render(
        request,
        "warehouse.html",
        healths=sorted(healths, key=lambda health: -health.colour.rank),
        idle_names=[name for name, health in health_by_name.items() if health is None],
        small_bars=lambda health, href: small_bars(health.series[-_BARS:], href),
        verb=site.command("health"),
    )


def _health(site: Site, name: str, now: datetime) -> PipelineHealth | None:
    """How a pipeline is; None where it has never run."""
    if not site.has_tables(name):
        return None
    try:
        health = pipeline_health(name, site.declaration(name), site.warehouse, now)
    except NoRuns:
        return None
    return health if health.series or health.colour is Colour.RED else None


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
