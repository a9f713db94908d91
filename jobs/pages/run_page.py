"""The page of one run: where its rows went, what it checked, and what it changed."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from slackwater.jobs.pages.frame.rendering import render
from slackwater.jobs.pages.frame.site import PipelineInPath

router = APIRouter()

# A ledger row's seq: a signed 64-bit integer from 1.
Seq = Annotated[int, Path(ge=1, le=2**63 - 1)]


@router.get("/{pipeline}/runs/{seq}", name="run")
def run_page(request: Request, view: PipelineInPath, seq: Seq) -> Response:
    run = view.inspection.run(seq)
    return render(request, "run.html", pipeline=view.name, view=view, run=run)
