"""The page of a pipeline: its health, its runs as a graph with branches, and plots of them over time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from slackwater.inspection.health.report import pipeline_health
from slackwater.inspection.runs.lineage_graph import LineageGraph, lineage_graph
from slackwater.inspection.runs.run_series import (
    RunFigures,
    check_series,
    figures_of,
    partition_series,
    snapshot_bytes,
)
from slackwater.inspection.sql.views import LineageViews
from slackwater.pages.attempt_page import attempts_table
from slackwater.pages.drawing.lineage_drawing import lineage_drawing
from slackwater.pages.drawing.plots import Plot
from slackwater.pages.drawing.table_view import Cell, TableView, page_columns
from slackwater.pages.frame.links import link, same_page
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView
from slackwater.pages.lateness_plots import late_row_plots
from slackwater.pages.run_plots import (
    checks_plot,
    firings_plot,
    lag_plot,
    phases_plot,
    rows_plot,
    state_plot,
)
from slackwater.readable import count_text
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.spans import seqs_of

router = APIRouter()

_LAST_RUNS = (30, 90, 365)
# Late rows are counted one by one: of so many runs.
_RUNS_OF_LATE_ROWS = 14
# From this share on the number of a run's late rows is marked.
_LATE_SHARE = 0.01

Last = Annotated[int, Query(ge=1, le=1000)]


@router.get("/{pipeline}", name="pipeline")
def pipeline_page(request: Request, view: PipelineInPath, last: Last = _LAST_RUNS[0]) -> Response:
    inspection = view.inspection
    head = inspection.tables.ledger.head()
    seqs = () if head is None else seqs_of(head.live)[-last:]
    rows = inspection.tables.ledger.rows(min(seqs, default=1) - 1)
    row_by_seq = {row.seq: row for row in rows}
    runs = figures_of((row_by_seq[seq] for seq in seqs), snapshot_bytes(inspection.tables))
    graph = lineage_graph(rows)
    return render(
        request,
        "pipeline.html",
        pipeline=view.name,
        view=view,
        health=pipeline_health(
            view.name, view.declaration, view.site.warehouse, datetime.now(UTC), inspection.tables
        ),
        newest_run=runs[-1] if runs else None,
        lasts=[(f"{count} runs", same_page(request, last=count), count == last) for count in _LAST_RUNS],
        drawing=_drawing(request, view, graph, runs),
        plots=_plots(view, runs, head, last),
        runs=_runs_table(request, view.name, runs),
        attempts=attempts_table(request, view, head, runs[-1].slice_end if runs else None),
        moves=_moves_table(request, view, graph),
        commands=list(_commands(view)),
        keys=", ".join(inspection.key_columns()),
    )


def _drawing(
    request: Request, view: PipelineView, graph: LineageGraph, runs: Sequence[RunFigures]
) -> Markup | None:
    if not runs:
        return None
    ends = [run.row.slice_end for run in graph.runs if run.row.slice_end is not None]
    return lineage_drawing(
        graph,
        runs[0].slice_start,
        max(runs[-1].slice_end, *ends),
        lambda seq: link(request, "run", pipeline=view.name, seq=seq),
    )


def _plots(view: PipelineView, runs: Sequence[RunFigures], head: LedgerRow | None, last: int) -> list[Plot]:
    if head is None or not runs:
        return []
    with LineageViews.over(view.inspection, head) as views:
        partitions, checks = partition_series(views, runs), check_series(views, runs)
    return [
        *(lag_plot(runs, partitions), rows_plot(runs), firings_plot(runs), state_plot(runs)),
        *_late_row_plots(view, min(last, _RUNS_OF_LATE_ROWS, len(runs))),
        *(phases_plot(runs), checks_plot(runs, checks)),
    ]


def _late_row_plots(view: PipelineView, last: int) -> list[Plot]:
    return [
        replace(plot, note=f"{plot.note} Of the newest {count_text(last, 'run')}.")
        for plot in late_row_plots(view.inspection, last)
    ]


def _runs_table(request: Request, name: str, runs: Sequence[RunFigures]) -> TableView:
    return TableView(
        caption="Live runs, newest first",
        columns=page_columns(
            {
                **{"seq": "number", "slice": "range", "verdict": "text"},
                **dict.fromkeys(("rows", "too late", "fired", "refired", "open"), "number"),
                "took": "duration",
            }
        ),
        rows=[
            (
                Cell(run.seq, link(request, "run", pipeline=name, seq=run.seq)),
                *((run.slice_start, run.slice_end), run.verdict),
                *(run.rows_read, Cell(run.rows_late, tone="late" if _has_many_late_rows(run) else None)),
                *(run.windows_fired, run.windows_refired, run.windows_open, run.seconds * 1000),
            )
            for run in reversed(runs)
        ],
        empty="No run was committed yet.",
    )


def _has_many_late_rows(run: RunFigures) -> bool:
    return run.late_share is not None and run.late_share >= _LATE_SHARE


def _moves_table(request: Request, view: PipelineView, graph: LineageGraph) -> TableView:
    return TableView(
        caption="Publications and other changes of main, newest first",
        columns=page_columns(
            {"ledger row": "number", "kind": "text", "slices": "range", "committed": "time"}
        ),
        rows=[
            (
                Cell(row.seq, link(request, "run", pipeline=view.name, seq=row.seq)),
                *(row.kind, (row.slice_start, row.slice_end)),
                None if row.committed_at is None else row.committed_at.replace(microsecond=0),
            )
            for row in reversed(graph.moves)
        ],
        empty="Main has changed by its runs alone.",
    )


def _commands(view: PipelineView) -> Iterator[tuple[str, str]]:
    yield view.command("runs"), "The ledger on a terminal"
    yield view.command("plan"), "What the next run would read and reopen"
    if view.declaration is not None:
        yield view.command("run", "--to", "TIME"), "Catch up, slice after slice: this writes"
