"""Draws the life of a window: to the right event time, upwards the clock on which rows arrive.

clock ▲                 ┊ window ┊        ┊ cleanup
      │                 ┊        ┊      ● ╱   a row that came too late
      │                 ┊   ●    ┊  ◆ ╱       a firing by a late row
      │                 ┊        ◆╱           a firing on time: the watermark reaches the end
      │                 ┊ ●   ╱  ┊
      │                 ┊   ╱●   ┊            rows, right of the watermark when they arrive
      └──────────────────────────────────► event time
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from slackwater.inspection.windows.window_firings import WindowFiring
from slackwater.inspection.windows.window_life import WindowExplanation
from slackwater.pages.drawing.plots import (
    ACCENT,
    BAD,
    GREY,
    LINE,
    SECOND,
    THIRD,
    Plot,
    line,
    plot_times,
    vertical_line,
)
from slackwater.pages.drawing.table_view import TableView, page_columns
from slackwater.windowing.times import to_ms

_SOFT = "var(--accent-soft)"


def window_plot(life: WindowExplanation, *, is_event_time: bool) -> Plot:
    """The life of a window as a drawing; windows of processing time have their bounds on the clock."""
    elements, is_parked = life.elements, life.parked_state is not None
    rows = (*elements.late_rows, *(elements.rows or ()))
    firings = _own_firings(life)
    event_times = [
        *(life.window.columns["window_start"], life.window.columns["window_end"], life.window.cleanup_time),
        *([life.waits_for.present] if is_parked else []),
        *(firing.watermark for firing in firings),
        *(row.event_time for row in rows),
    ]
    clocks = [
        *(elements.first_arrival, elements.last_arrival),
        *([life.waits_for.clock] if is_parked else []),
        *(firing.clock for firing in firings),
        *(row.arrival_time for row in rows),
    ]
    return Plot(
        name="life",
        title="Its life",
        note="To the right event time, upwards the clock on which rows arrive. The band is the window; the "
        "line joins the moments at which the watermark is recorded.",
        traces=[trace for trace in _traces(life) if trace["x"]],
        layout={
            "xaxis": {"title": {"text": "event time"}, "showgrid": True, **_axis(event_times)},
            "yaxis": {"title": {"text": "clock"}, "rangemode": "normal", "nticks": 6, **_axis(clocks)},
            "hovermode": "closest",
            "shapes": _shapes(life, is_event_time=is_event_time),
            "annotations": _annotations(life, is_event_time=is_event_time),
        },
        numbers=_numbers(life),
        height=400,
    )


def _axis(moments: Iterable[datetime | None]) -> dict[str, Any]:
    """An axis of time that shows `moments`, with some room on both sides."""
    times = [time for time in plot_times(moments) if time is not None]
    if not times:
        return {"type": "date"}
    least, greatest = min(times), max(times)
    room = max((greatest - least) // 8, 60_000)
    return {"type": "date", "range": [least - room, greatest + room]}


def _traces(life: WindowExplanation) -> list[dict[str, Any]]:
    points = life.watermarks
    emitting_firings = [firing for firing in _own_firings(life) if not firing.is_withdrawal]
    timer_firings = [firing for firing in emitting_firings if firing.cause == "timer"]
    other_firings = [firing for firing in emitting_firings if firing.cause != "timer"]
    rows = [row for row in life.elements.rows or () if not row.is_late]
    late_rows = {
        (row.event_time, row.arrival_time)
        for row in (*life.elements.late_rows, *(row for row in life.elements.rows or () if row.is_late))
    }
    return [
        line(
            "watermark",
            plot_times(point.watermark for point in points),
            plot_times(point.clock for point in points),
            GREY,
        ),
        _dots("row", [(row.event_time, row.arrival_time) for row in rows], ACCENT, "circle", 6),
        _dots("too late", sorted(late_rows), SECOND, "circle", 8),
        _firing_dots("fired on a timer", timer_firings, THIRD),
        _firing_dots("fired by a row", other_firings, BAD),
    ]


def _own_firings(life: WindowExplanation) -> list[WindowFiring]:
    """The live firings of the window itself that have a place in event time and on the clock."""
    columns = dict(life.window.columns)
    return [
        firing
        for firing in life.firings
        if dict(firing.window) == columns and None not in (firing.clock, firing.watermark)
    ]


def _dots(
    name: str, points: Sequence[tuple[datetime, datetime]], colour: str, symbol: str, size: int
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": plot_times(event_time for event_time, _ in points),
        "y": plot_times(arrival for _, arrival in points),
        "marker": {"color": colour, "symbol": symbol, "size": size},
    }


def _firing_dots(name: str, firings: Sequence[WindowFiring], colour: str) -> dict[str, Any]:
    points = [(firing.watermark, firing.clock) for firing in firings]
    return {
        **_dots(name, points, colour, "diamond", 10),  # type: ignore[arg-type]
        "text": [f"firing {firing.firing}, {firing.elements} elements" for firing in firings],
        "hovertemplate": "%{text}<br>watermark %{x}<br>clock %{y}<extra></extra>",
    }


def _bounds(life: WindowExplanation) -> tuple[int | None, int | None]:
    start, end = life.window.columns["window_start"], life.window.columns["window_end"]
    return None if start is None else to_ms(start), None if end is None else to_ms(end)


def _shapes(life: WindowExplanation, *, is_event_time: bool) -> list[Mapping[str, Any]]:
    """The window as a band, and its cleanup as a line."""
    start, end = _bounds(life)
    along, across = ("x", "y") if is_event_time else ("y", "x")
    shapes: list[Mapping[str, Any]] = []
    if start is not None and end is not None:
        shapes.append(
            {
                "type": "rect",
                f"{along}0": start,
                f"{along}1": end,
                f"{across}0": 0,
                f"{across}1": 1,
                f"{across}ref": "paper",
                "fillcolor": _SOFT,
                "line": {"width": 0},
                "layer": "below",
            }
        )
    if life.window.cleanup_time is not None and is_event_time:
        shapes.append(vertical_line(to_ms(life.window.cleanup_time) + 1, LINE))
    return shapes


def _annotations(life: WindowExplanation, *, is_event_time: bool) -> list[Mapping[str, Any]]:
    start, end = _bounds(life)
    if not is_event_time:
        return []
    places = []
    if start is not None and end is not None:
        places.append(((start + end) // 2, "window", "center"))
    if life.window.cleanup_time is not None:
        places.append((to_ms(life.window.cleanup_time) + 1, "cleanup", "right"))
    return [
        {
            "x": place,
            "y": 1,
            "yref": "paper",
            "yanchor": "top",
            "xanchor": anchor,
            "xshift": -4 if anchor == "right" else 0,
            "text": text,
            "showarrow": False,
            "font": {"size": 11, "color": GREY},
        }
        for place, text, anchor in places
    ]


def _numbers(life: WindowExplanation) -> TableView:
    late_rows = {(row.arrival_time, row.event_time) for row in life.elements.late_rows}
    late_rows |= {(row.arrival_time, row.event_time) for row in life.elements.rows or () if row.is_late}
    events: list[tuple[datetime, str, datetime]] = [
        *((point.clock, "watermark", point.watermark) for point in life.watermarks),
        *((row.arrival_time, "row", row.event_time) for row in life.elements.rows or () if not row.is_late),
        *((arrival, "row, too late", event_time) for arrival, event_time in late_rows),
        *(
            (firing.clock, f"firing {firing.firing}, {firing.cause.text}", firing.watermark)
            for firing in _own_firings(life)
            if firing.clock is not None and firing.watermark is not None
        ),
    ]
    return TableView(
        caption="Numbers of its life",
        columns=page_columns({"clock": "time", "what": "text", "event time or watermark": "time"}),
        rows=sorted(events),
        empty="Nothing is recorded of its time.",
    )
