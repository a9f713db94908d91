"""The tables of the page of a window."""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import Request

from slackwater.inspection.changes.change_text import cause_text, change_text, source_row_text
from slackwater.inspection.windows.window_answer import short_time_text
from slackwater.inspection.windows.window_elements import growth
from slackwater.inspection.windows.window_firings import WindowFiring
from slackwater.inspection.windows.window_life import WindowExplanation
from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.pages.frame.links import link
from slackwater.readable import plain_text, value_text


def holders_table(life: WindowExplanation) -> TableView:
    """The source partitions that hold the watermark back, the slowest first."""
    return TableView(
        caption="Source partitions that hold it back",
        columns=[
            PageColumn("source partition"),
            PageColumn("allows watermark", "text", "greatest event time − bound − 1 ms"),
            PageColumn("greatest event time", "time"),
            PageColumn("nothing newer since", "time", "as far back as snapshots show"),
            PageColumn("last arrival", "time"),
            PageColumn("idle from", "time", "it holds nothing back from then on if nothing arrives"),
        ],
        rows=[
            (
                plain_text(one.source_partition) or "the source",
                *(
                    short_time_text(one.watermark),
                    one.max_event_time,
                    one.since,
                    one.last_arrival,
                    one.idle_from,
                ),
            )
            for one in life.waits_for.held_back_by
        ],
    )


def firings_table(
    request: Request, pipeline: str, firings: Sequence[WindowFiring], *, caption: str
) -> TableView:
    """Firings with their values, oldest first."""
    has_windows = len({tuple(firing.window.values()) for firing in firings}) > 1
    results = list(firings[0].values) if firings else []
    return TableView(
        caption=caption,
        columns=[
            PageColumn("at", "time", "the clock: the end of the tick, or the arrival of the row"),
            PageColumn("seq"),
            *([PageColumn("window", "range")] if has_windows else []),
            *(PageColumn("cause"), PageColumn("elements", "number"), PageColumn("watermark")),
            *map(PageColumn, results),
        ],
        rows=[
            (
                firing.clock,
                Cell(
                    firing.seq, link(request, "run", pipeline=pipeline, seq=firing.seq), title=firing.branch
                ),
                *([(firing.window["window_start"], firing.window["window_end"])] if has_windows else []),
                Cell(_cause(firing), tone="late" if firing.kind == "late" else None),
                *(firing.elements, short_time_text(firing.watermark)),
                *(firing.values[name] for name in results),
            )
            for firing in firings
        ],
        empty="It has not fired.",
    )


def _cause(firing: WindowFiring) -> str:
    parts = [firing.cause.text]
    if firing.is_withdrawal:
        parts.append("withdrawn")
    if firing.brought_by != "run":
        parts.append(f"by {firing.brought_by}")
    if firing.standing not in ("live", "replaced"):
        parts.append(f"on {firing.standing}")
    return ", ".join(parts)


def absorbed_table(request: Request, life: WindowExplanation) -> TableView:
    """Windows that a merge made part of this one."""
    return TableView(
        caption="Windows that merged into it",
        columns=[
            *(PageColumn("window", "range"), PageColumn("firings", "number")),
            *(PageColumn("elements", "number"), PageColumn("absorbed", "time"), PageColumn("seq")),
        ],
        rows=[
            (
                (one.window["window_start"], one.window["window_end"]),
                *(one.firings, one.elements, one.absorbed_at),
                Cell(one.seq, link(request, "run", pipeline=life.window.pipeline, seq=one.seq)),
            )
            for one in life.absorbed_windows
        ],
    )


def corrections_table(request: Request, life: WindowExplanation) -> TableView:
    """Changes of the published rows, old → new."""
    return TableView(
        caption="What was published",
        columns=[
            *(PageColumn("seq"), PageColumn("change"), PageColumn("cause")),
            *(PageColumn("values"), PageColumn("published", "time")),
        ],
        rows=[
            (
                Cell(one.seq, link(request, "run", pipeline=life.window.pipeline, seq=one.seq)),
                *(one.op, cause_text(one.cause)),
                Cell(
                    change_text({"old": one.old, "new": one.new, "firing": one.firing, "kind": one.kind}),
                    tone="wrap",
                ),
                one.at.replace(microsecond=0),
            )
            for one in life.corrections
        ],
        empty="Nothing was published of it.",
    )


def growth_table(request: Request, life: WindowExplanation) -> TableView:
    """What the window held at the end of each run that changed that."""
    return TableView(
        caption="How it filled, run by run",
        columns=[
            *(PageColumn("seq"), PageColumn("slice", "range"), PageColumn("elements by then", "number")),
            *(PageColumn("firings by then", "number"), PageColumn("last arrival", "time")),
        ],
        rows=[
            (
                Cell(one.seq, link(request, "run", pipeline=life.window.pipeline, seq=one.seq)),
                (one.slice_start, one.slice_end),
                *(one.elements, one.firings, one.last_arrival),
            )
            for one in growth(life.elements.by_run)
        ],
        empty="No snapshot that is kept holds it.",
    )


def late_table(life: WindowExplanation) -> TableView:
    """Rows that came too late."""
    return TableView(
        caption="Rows that came too late",
        columns=[
            *(PageColumn("arrival", "time"), PageColumn("event time", "time")),
            PageColumn("missing lateness", "duration", "so much more allowed lateness would have saved it"),
            *(PageColumn("seq", "number"), PageColumn("row")),
        ],
        rows=[
            (
                row.arrival_time,
                row.event_time,
                row.missing_lateness,
                row.seq,
                Cell(source_row_text(row.values), tone="wrap"),
            )
            for row in life.elements.late_rows
        ],
    )


def source_table(life: WindowExplanation, most: int) -> TableView:
    """The first rows of the source that belong to the window."""
    return TableView(
        caption="Rows of the source",
        columns=[
            *(PageColumn("arrival", "time"), PageColumn("event time", "time"), PageColumn("late")),
            *(PageColumn("watermark"), PageColumn("row")),
        ],
        rows=[
            (
                *(row.arrival_time, row.event_time),
                Cell("too late", tone="late") if row.is_late else "",
                *(short_time_text(row.watermark), Cell(source_row_text(row.values), tone="wrap")),
            )
            for row in list(life.elements.rows or ())[:most]
        ],
        empty="The source has no rows of it.",
    )


def timers_table(life: WindowExplanation) -> TableView:
    """Pending timers, the next ones first."""
    timers = () if life.parked_state is None else life.parked_state.timers
    return TableView(
        caption="Pending timers",
        columns=[PageColumn("time"), PageColumn("domain"), PageColumn("purpose")],
        rows=[(short_time_text(timer["time"]), timer["domain"], timer["purpose"]) for timer in timers],
        empty="No timer is pending.",
    )


def parked_facts(life: WindowExplanation) -> Iterator[tuple[str, Any]]:
    """The parked state as names and values."""
    state = life.parked_state
    if state is None:
        return
    yield from ((name, value_text(value)) for name, value in state.readable_parts())
    for name, value in (
        ("contents", state.contents),
        ("trigger state", state.trigger_state),
        ("user state", state.user_state),
    ):
        if value is not None:
            yield name, value
    for kept_state in state.states:
        yield f"rows of {kept_state.state_name}", kept_state.rows
