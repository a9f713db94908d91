"""The tables of a window's explanation: what holds it back, what went into it and what has come out of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slackwater.inspection.answer_tables import AnswerTable, Column
from slackwater.inspection.change_text import cause_text, change_text, source_row_text
from slackwater.inspection.windows.window_elements import growth
from slackwater.inspection.windows.window_firings import WindowFiring
from slackwater.inspection.windows.window_life import WindowExplanation

_WINDOW = Column("window", "range")
_SEQ = Column("seq", "id")
_ROW = Column("values", "text")


def holders_table(life: WindowExplanation) -> AnswerTable:
    return AnswerTable(
        title="Source partitions that hold it back",
        columns=[
            Column("source_partition", "text"),
            Column("watermark", heading="allows watermark", help="greatest event time − bound − 1 ms"),
            Column("since", heading="nothing newer since", help="as far back as snapshots show"),
            Column("idle_from", heading="idle from", help="when it counts as idle if nothing arrives"),
            Column("last_arrival"),
            Column("max_event_time", heading="greatest event time", is_wide=True),
        ],
        rows=[
            {**vars(one), "source_partition": one.source_partition or "the source"}
            for one in life.waits_for.held_back_by
        ],
    )


def firings_table(firings: Sequence[WindowFiring], title: str) -> AnswerTable:
    has_several_windows = len({tuple(firing.window.values()) for firing in firings}) > 1
    is_on_branch = any(firing.standing not in ("live", "replaced") for firing in firings)
    results = list(firings[0].values) if firings else []
    return AnswerTable(
        title=title,
        columns=[
            Column("clock", heading="at", help="the clock: the end of the tick, or the arrival of the row"),
            _SEQ,
            Column("standing", heading="where", is_wide=not is_on_branch),
            Column("window", "range", is_wide=not has_several_windows),
            Column("cause"),
            Column("elements"),
            *(Column(f"value of {name}", heading=name) for name in results),
            Column("firing", is_wide=True),
            Column("kind", is_wide=True),
            Column("watermark", is_wide=True),
        ],
        rows=[_firing_row(firing) for firing in firings],
        empty="It has not fired.",
    )


def _firing_row(firing: WindowFiring) -> dict[str, Any]:
    brought_by = "" if firing.brought_by == "run" else f", by {firing.brought_by}"
    withdrawal = ", withdrawn" if firing.is_withdrawal else ""
    return {
        **{name: value for name, value in vars(firing).items() if name != "window"},
        **_bounds(firing.window),
        "cause": f"{firing.cause.text}{withdrawal}{brought_by}",
        **{f"value of {name}": value for name, value in firing.values.items()},
    }


def _bounds(window: Mapping[str, Any]) -> dict[str, Any]:
    return {name: window[name] for name in ("window_start", "window_end")}


def absorbed_table(life: WindowExplanation) -> AnswerTable:
    return AnswerTable(
        title="Windows that merged into it",
        columns=[
            _WINDOW,
            Column("firings"),
            Column("elements"),
            Column("absorbed_at", heading="absorbed"),
            _SEQ,
        ],
        rows=[{**vars(one), **_bounds(one.window)} for one in life.absorbed_windows],
    )


def corrections_table(life: WindowExplanation) -> AnswerTable:
    has_several_windows = len({tuple(row["window"].values()) for row in life.corrections}) > 1
    return AnswerTable(
        title="What was published",
        columns=[
            _SEQ,
            Column("op", heading="change"),
            Column("cause"),
            Column("window", "range", is_wide=not has_several_windows),
            Column("values", "text"),
            Column("at", heading="published", is_wide=True),
            Column("revision", is_wide=True),
        ],
        rows=[
            {
                **row,
                **_bounds(row["window"]),
                "values": change_text(row),
                "cause": cause_text(row["cause"]),
            }
            for row in life.corrections
        ],
        empty="Nothing was published of it.",
    )


def growth_table(life: WindowExplanation) -> AnswerTable:
    """What the window held at the end of each run that changed that."""
    return AnswerTable(
        title="Runs that filled it",
        columns=[
            _SEQ,
            Column("slice", "range"),
            Column("elements", heading="elements by then"),
            Column("firings", heading="firings by then"),
            Column("last_arrival"),
            Column("first_arrival", is_wide=True),
        ],
        rows=[vars(one) for one in growth(life.elements.by_run)],
        empty="No snapshot that is kept holds it.",
    )


def late_table(life: WindowExplanation) -> AnswerTable:
    return AnswerTable(
        title="Rows that came too late",
        columns=[
            Column("arrival_time", heading="arrival"),
            Column("event_time"),
            Column(
                "missing_lateness",
                "duration",
                heading="missing lateness",
                help="so much more allowed lateness would have saved it",
            ),
            _SEQ,
            _ROW,
            Column("watermark", is_wide=True),
        ],
        rows=[{**vars(row), "values": source_row_text(row.values)} for row in life.elements.late_rows],
        total=life.elements.late,
    )


def source_table(life: WindowExplanation, limit: int | None = None) -> AnswerTable:
    return AnswerTable(
        title="Rows of the source",
        columns=[
            Column("arrival_time", heading="arrival"),
            Column("event_time"),
            Column("late"),
            _ROW,
            _SEQ,
            Column("watermark", is_wide=True),
        ],
        rows=[
            {**vars(row), "late": "late" if row.is_late else "", "values": source_row_text(row.values)}
            for row in list(life.elements.rows or ())[:limit]
        ],
        empty="The source has no rows of it.",
    )


def timers_table(life: WindowExplanation) -> AnswerTable:
    return AnswerTable(
        title="Pending timers",
        columns=[Column("time"), Column("domain"), Column("purpose"), Column("service", is_wide=True)],
        rows=() if life.parked_state is None else life.parked_state.timers,
        empty="No timer is pending.",
    )


def parked_parts(life: WindowExplanation) -> Iterator[tuple[str, Any]]:
    """What an open window holds in its parked state: accumulated parts, contents, and state of functions."""
    parked_state = life.parked_state
    if parked_state is None:
        return
    yield from parked_state.readable_parts()
    for name in ("contents", "trigger_state", "user_state"):
        value = getattr(parked_state, name)
        if value is not None:
            yield name.replace("_", " "), value
    for state in parked_state.states:
        yield f"rows of {state.state_name}", state.rows
