"""The page of one run: where its rows went, how long it took, what it checked, and what it changed."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from slackwater.inspection.runs.run_account import corrections_by_cause, run_after, run_before
from slackwater.pages.drawing.answer_table import cause_cell
from slackwater.pages.drawing.flow_drawing import rows_flow, windows_flow
from slackwater.pages.drawing.plots import ACCENT, Plot
from slackwater.pages.drawing.run_tables import checks_table, figures_table
from slackwater.pages.drawing.table_view import TableView, page_columns
from slackwater.pages.frame.links import link
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView, RestateForm
from slackwater.readable import count_text, time_text
from slackwater.runs.staging.slices import iso
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow, RowKind
from slackwater.windowing.times import to_ms

router = APIRouter()

# A ledger row's seq: a signed 64-bit integer from 1.
Seq = Annotated[int, Path(ge=1, le=2**63 - 1)]
# Phases that took no longer are drawn in milliseconds.
_SHORT_SECONDS = 2


@router.get("/{pipeline}/runs/{seq}", name="run")
def run_page(request: Request, view: PipelineInPath, seq: Seq) -> Response:
    tables = view.inspection.tables
    row = view.inspection.run(seq)
    is_run = row.kind in RUN_KINDS
    before = run_before(tables, row)
    after_seq = run_after(tables, row, tables.ledger.head())
    return render(
        request,
        "run.html",
        pipeline=view.name,
        run=row,
        is_run=is_run,
        standing=_standing(view, row),
        before_link=None if before is None else _run_link(request, view, before.seq),
        after_link=None if after_seq is None else _run_link(request, view, after_seq),
        flows=[rows_flow(row), windows_flow(row, before)] if is_run else [],
        phases=_phases_plot(row) if row.phase_seconds else None,
        checks=checks_table(view.inspection.checks_of(row.run_id)) if is_run else None,
        inputs=_inputs_table(row),
        corrections=_corrections_table(request, view, seq),
        figures=None if before is None else figures_table([before], [row], str(before.seq), str(seq)),
        before=before,
        diff_link=None
        if row.parent_seq is None
        else link(request, "diff", {"a": row.parent_seq, "b": seq}, pipeline=view.name),
        record=list(_record(row)),
        commands=list(_commands(view, row)),
        restate_form=_restate_form(view, row),
    )


def _run_link(request: Request, view: PipelineView, seq: int) -> str:
    return link(request, "run", pipeline=view.name, seq=seq)


def _standing(view: PipelineView, row: LedgerRow) -> str:
    """Whether the row is live, as a clause."""
    lineage = view.inspection.lineage_of([row])[row.seq]
    if row.kind in RUN_KINDS:
        if lineage is None:
            return "no longer live: other runs replaced it, or its branch was dropped"
        return "live on main" if lineage == "main" else f"on the branch {lineage}, not published"
    return f"made the runs {lineage} live on {row.branch}" if lineage else f"on {row.branch}"


def _phases_plot(row: LedgerRow) -> Plot:
    phases = list(row.phase_seconds.items())
    is_short = max(row.phase_seconds.values()) < _SHORT_SECONDS
    scale, unit = (1000, "ms") if is_short else (1, "s")
    return Plot(
        name="phases",
        title="Time by phase",
        note="“session” is the start of Spark.",
        traces=[
            {
                "type": "bar",
                "orientation": "h",
                "x": [seconds * scale for _, seconds in reversed(phases)],
                "y": [phase for phase, _ in reversed(phases)],
                "marker": {"color": ACCENT},
                "hovertemplate": f"%{{y}}: %{{x:,.3~r}} {unit}<extra></extra>",
            }
        ],
        layout={
            "xaxis": {"title": {"text": unit}, "showgrid": True, "rangemode": "tozero"},
            "yaxis": {"type": "category", "nticks": len(phases)},
            "hovermode": "closest",
        },
        numbers=TableView(
            caption="Time by phase",
            columns=page_columns({"phase": "text", "time": "duration"}),
            rows=[(phase, seconds * 1000) for phase, seconds in phases],
        ),
    )


def _inputs_table(row: LedgerRow) -> TableView:
    return TableView(
        caption="Inputs",
        columns=page_columns(
            {
                **{"table": "text", "version": "exact", "rows": "number"},
                **{"files": "number", "size": "size", "table id": "code"},
            }
        ),
        rows=[
            (item.table, item.version, item.rows, item.files, item.bytes, item.table_id)
            for item in row.inputs
        ],
        empty="It has read no source.",
    )


def _corrections_table(request: Request, view: PipelineView, seq: int) -> TableView:
    """How many published rows the row of the ledger has changed, by cause."""
    by_cause = corrections_by_cause(view.inspection.tables, seq)
    return TableView(
        caption="Changes of published rows by cause",
        columns=page_columns({"cause": "text", **dict.fromkeys(_OPS, "number")}),
        rows=[(cause_cell(cause), *(counts.get(op, 0) for op in _OPS)) for cause, counts in by_cause.items()],
        empty="It has changed no published row.",
    )


_OPS = ("insert", "update", "withdraw")


def _record(row: LedgerRow) -> Iterator[tuple[str, str]]:
    """The other columns of the ledger that somebody may look for."""
    yield "run id", row.run_id
    yield "branch", row.branch
    yield "after ledger row", "–" if row.parent_seq is None else str(row.parent_seq)
    yield "attempt", str(row.attempt)
    yield "engine", row.engine or "–"
    if row.place is not None:
        yield "replayed by", f"{row.place}: {row.place_reason}"
    if row.kind in RUN_KINDS:
        yield "watermark before", time_text(row.watermark_in)
        yield "watermark after", time_text(row.watermark_out)
        yield "rows folded in", count_text(row.rows_folded, "straggler")
    yield "committed", time_text(row.committed_at)
    yield "written by", f"slackwater {row.version or '?'}, format {row.format_version}"
    for name in ("config_hash", "code_hash", "state_hash", "output_hash"):
        value = getattr(row, name)
        if value is not None:
            yield name.replace("_", " "), value


def _restate_form(view: PipelineView, row: LedgerRow) -> RestateForm | None:
    """How to restate the slice of a run in the Airflow that shows these pages."""
    airflow = view.site.airflow
    if airflow is None or row.kind != RowKind.RUN or row.slice_start is None or row.slice_end is None:
        return None
    return airflow.restate_form(view.name, row.slice_start, row.slice_end)


def _commands(view: PipelineView, row: LedgerRow) -> Iterator[tuple[str, str]]:
    yield view.command("runs", row.seq), "The same on a terminal"
    if row.kind not in RUN_KINDS:
        return
    yield view.command("verify", row.seq), "Replay it, and compare hashes and counts"
    yield view.command("state windows", "--run", row.seq), "The windows that it left open"
    if row.kind == RowKind.RUN and row.slice_start is not None and row.slice_end is not None:
        times = ("--from", iso(to_ms(row.slice_start)), "--to", iso(to_ms(row.slice_end)))
        yield view.command("backfill", *times), "Restate its slice: this writes"
