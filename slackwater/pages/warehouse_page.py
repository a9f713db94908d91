"""The first page: every pipeline of the warehouse that its reader may see, how healthy it is, and its newest
runs as bars.
"""

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response

from slackwater.inspection.health.findings import Colour
from slackwater.inspection.health.report import PipelineHealth, pipeline_health
from slackwater.pages.drawing.small_bars import small_bars
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import Site, site_of
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
