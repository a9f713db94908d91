"""The page of a pipeline: its runs, and how they have changed over time."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from slackwater.jobs.inspection.runs.run_series import RunFigures, run_series
from slackwater.jobs.pages.drawing.plots import ACCENT, SECOND, Plot, plot_times
from slackwater.jobs.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.jobs.pages.frame.links import link
from slackwater.jobs.pages.frame.rendering import render
from slackwater.jobs.pages.frame.site import PipelineInPath

router = APIRouter()


@router.get("/{pipeline}", name="pipeline")
def pipeline_page(request: Request, view: PipelineInPath) -> Response:
    tables = view.inspection.tables
    runs = run_series(tables, tables.ledger.head())
    return render(
        request,
        "pipeline.html",
        pipeline=view.name,
        view=view,
        plots=[_rows_plot(runs)],
        runs=_runs_table(request, view.name, runs),
    )


def _rows_plot(runs: tuple[RunFigures, ...]) -> Plot:
    times = plot_times(run.slice_start for run in runs)
    return Plot(
        name="rows",
        title="Rows read",
        note="By the start of each run’s slice; orange rows came too late for every window of theirs.",
        traces=[
            {
                "type": "bar",
                "name": "read",
                "x": times,
                "y": [run.rows_read for run in runs],
                "marker": {"color": ACCENT},
            },
            {
                "type": "bar",
                "name": "too late",
                "x": times,
                "y": [run.rows_late for run in runs],
                "marker": {"color": SECOND},
            },
        ],
        layout={"xaxis": {"type": "date"}, "barmode": "overlay"},
        numbers=TableView(
            caption="Rows read by each run",
            columns=[
                PageColumn("slice start", "time"),
                PageColumn("read", "number"),
                PageColumn("too late", "number"),
            ],
            rows=[(run.slice_start, run.rows_read, run.rows_late) for run in runs],
        ),
    )


def _runs_table(request: Request, name: str, runs: tuple[RunFigures, ...]) -> TableView:
    return TableView(
        caption="Live runs, newest first",
        columns=[
            *(PageColumn("run", "number"), PageColumn("slice", "range"), PageColumn("verdict")),
            *(PageColumn("rows", "number"), PageColumn("too late", "number"), PageColumn("fired", "number")),
            *(PageColumn("refired", "number"), PageColumn("open", "number"), PageColumn("took", "duration")),
        ],
        rows=[
            (
                Cell(run.seq, link(request, "run", pipeline=name, seq=run.seq)),
                *((run.slice_start, run.slice_end), run.verdict),
                *(run.rows_read, Cell(run.rows_late, tone="late" if run.rows_late else None)),
                *(run.windows_fired, run.windows_refired, run.windows_open, run.seconds * 1000),
            )
            for run in reversed(runs)
        ],
    )
