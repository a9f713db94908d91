"""The first page: every pipeline of the warehouse that its reader may see, with its newest runs as bars."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from slackwater.jobs.errors import SlackwaterError
from slackwater.jobs.inspection.runs.run_series import RunFigures, run_series
from slackwater.jobs.pages.drawing.small_bars import small_bars
from slackwater.jobs.pages.frame.rendering import render
from slackwater.jobs.pages.frame.site import PipelineView, site_of
from slackwater.jobs.tables.errors import NoRuns

router = APIRouter()
_BARS = 30


@dataclass(frozen=True)
class ListedPipeline:
    """A pipeline of the list.

    Attributes:
        runs: its newest live runs, oldest first; empty where it has never run.
        fault: why its tables can't be read; None where they can.
    """

    name: str
    runs: tuple[RunFigures, ...] = ()
    fault: str | None = None

    @property
    def last(self) -> RunFigures | None:
        return self.runs[-1] if self.runs else None


@router.get("/", name="warehouse")
def warehouse_page(request: Request) -> Response:
    site = site_of(request)
    names = site.visible_names(request)
    pipelines = [_listed_pipeline(PipelineView(site, name)) for name in names]
    return render(
        request,
        "warehouse.html",
        pipelines=[pipeline for pipeline in pipelines if pipeline.runs or pipeline.fault],
        waiting=[pipeline.name for pipeline in pipelines if not (pipeline.runs or pipeline.fault)],
        small_bars=small_bars,
    )


def _listed_pipeline(view: PipelineView) -> ListedPipeline:
    try:
        tables = view.inspection.tables
        return ListedPipeline(view.name, run_series(tables, tables.ledger.head(), last=_BARS))
    except NoRuns:
        return ListedPipeline(view.name)
    except SlackwaterError as error:
        return ListedPipeline(view.name, fault=error.message)
