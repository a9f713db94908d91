"""The page of a window: what it waits for, its life as a drawing, and what has come out of it, as `slackwater
explain` prints it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.inspection.windows import window_tables as tables
from slackwater.inspection.windows.window_answer import answer, further_sentences, short_time_text, title
from slackwater.inspection.windows.window_life import (
    WindowExplanation,
    WindowQuestion,
    WindowStatus,
    explain_window,
)
from slackwater.inspection.windows.window_search import (
    NoSuchWindow,
    SeveralWindows,
    WindowName,
    window_texts,
)
from slackwater.pages.drawing.table_view import table_view
from slackwater.pages.frame.links import link, moment_of
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView
from slackwater.pages.window_plot import window_plot
from slackwater.pipelines import Pipeline
from slackwater.pipelines.window_columns import identifying_columns
from slackwater.readable import value_text

router = APIRouter()
ROWS = 100
_TONES = {
    WindowStatus.OPEN: "accent",
    WindowStatus.HAS_FIRED: "accent",
    WindowStatus.NEVER_FIRED: "bad",
    WindowStatus.LATE_ROWS_ONLY: "late",
}

Text = Annotated[str | None, Query(max_length=4000)]


@router.get("/{pipeline}/window", name="window")
def window_page(
    request: Request,
    view: PipelineInPath,
    *,
    key: Text = None,
    start: Text = None,
    column: Annotated[list[str] | None, Query()] = None,
    run: Text = None,
    elements: bool = False,
) -> Response:
    declaration = view.declaration
    keys = [] if declaration is None else list(declaration.keys)
    query = {"key": key or "", "start": start or "", "run": run or ""}
    values: dict[str, Any] = {"life": None, "message": "", "choices": ()}
    if declaration is None:
        values["message"] = (
            f"{view.name} is not registered here, so its windows can't be explained: start the pages with "
            "--pipelines."
        )
    elif key or start or (not keys and not _has_bounds(declaration)):
        columns = dict(text.split("=", 1) for text in column or () if "=" in text)
        question = WindowQuestion(
            key=(key or "") if keys else None,
            name=WindowName(moment_of(start), columns),
            at=(run or "").strip() or None,
            reads_source=elements,
            row_limit=ROWS,
        )
        values |= _answer(request, view, declaration, question, query)
    other_query = {**query, "column": column, "elements": None if elements else "true"}
    return render(
        request,
        "window.html",
        pipeline=view.name,
        view=view,
        keys=keys,
        asked=query,
        has_elements=elements,
        elements_link=link(request, "window", other_query, pipeline=view.name),
        verb=_verb(view, query, column or (), reads_source=elements),
        **values,
    )


def _answer(
    request: Request,
    view: PipelineView,
    pipeline: Pipeline,
    question: WindowQuestion,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """The explanation; or why there is none, with windows to choose from."""
    try:
        life = explain_window(pipeline, view.site.warehouse.root, question)
    except NoSuchWindow as error:
        choices = _choices(request, view, error.nearest, query)
        return {"status": 404, "message": error.message, "choices": choices}
    except SeveralWindows as error:
        return {"message": error.message, "choices": _choices(request, view, error.windows, query)}
    return _parts(request, view, pipeline, life)


def _has_bounds(pipeline: Pipeline) -> bool:
    return pipeline.window is not None and "window_start" in identifying_columns(pipeline)


def _choices(
    request: Request, view: PipelineView, windows: Sequence[Mapping[str, Any]], query: Mapping[str, str]
) -> list[tuple[str, str]]:
    choices = []
    starts = Counter(window["window_start"] for window in windows)
    for window, text in zip(windows, window_texts(windows), strict=True):
        start, end = window["window_start"], window["window_end"]
        moment = start or end
        own_columns = [f"{name}={value}" for name, value in window.items() if not name.startswith("window_")]
        if start is not None and starts[start] > 1 and not own_columns:
            own_columns.append(f"window_end={end.isoformat()}")
        named_by = {"start": None if moment is None else moment.isoformat(), "column": own_columns}
        href = link(request, "window", {**query, **named_by}, pipeline=view.name)
        choices.append((text, href))
    return choices


def _parts(
    request: Request, view: PipelineView, pipeline: Pipeline, life: WindowExplanation
) -> dict[str, Any]:
    draw = partial(
        table_view, links={"seq": lambda row: link(request, "run", pipeline=view.name, seq=row["seq"])}
    )
    return {
        "life": life,
        "heading": title(life),
        "answer": answer(life),
        "sentences": [sentence.replace("`", "") for sentence in further_sentences(life)],
        "short_time": short_time_text,
        "tone": _TONES.get(life.window.status, ""),
        "plot": window_plot(life, is_event_time=pipeline.windows.is_event_time),
        "holders": draw(tables.holders_table(life), also=("max_event_time",)),
        "firings": draw(tables.firings_table(life.firings, "Firings"), also=("watermark",), tone=_tone),
        "replaced_firings": draw(
            tables.firings_table(life.replaced_firings, "Firings that no longer count"), also=("watermark",)
        ),
        "absorbed_windows": draw(tables.absorbed_table(life)),
        "corrections": draw(tables.corrections_table(life), also=("at",)),
        "growth": draw(tables.growth_table(life)),
        "late_rows": draw(tables.late_table(life)),
        "source_rows": draw(tables.source_table(life, ROWS), also=("watermark",), tone=_tone),
        "row_limit": ROWS,
        "timers": draw(tables.timers_table(life)),
        "parked_facts": [(name, _fact_text(value)) for name, value in tables.parked_parts(life)],
    }


def _tone(column: str, row: Mapping[str, Any]) -> str | None:
    """What a late row has caused, and the row itself, stand out."""
    return "late" if (column == "cause" and row["kind"] == "late") or column == "late" else None


def _fact_text(value: Any) -> Any:
    return value if isinstance(value, dict | list) else value_text(value)


def _verb(view: PipelineView, query: Mapping[str, str], columns: Sequence[str], *, reads_source: bool) -> str:
    options = {"--key": query["key"], "--window": query["start"].replace(" ", "T"), "--run": query["run"]}
    words = [word for text in columns for word in ("--column", text)]
    return view.command("explain", *words, *(["--elements"] if reads_source else []), options=options)
