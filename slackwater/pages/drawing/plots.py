"""A plot of a page: traces and layout as the plot library takes them, and the same numbers as a table.
Colours are names of the style sheet, `var(--accent)`, which the script replaces, so that a plot follows light
and dark.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slackwater.pages.drawing.table_view import TableView
from slackwater.windowing.times import to_ms

# In the order in which series take them; told apart by the colour-blind, and on light and dark.
ACCENT, SECOND, THIRD, FOURTH = "var(--accent)", "var(--second)", "var(--third)", "var(--fourth)"
GREY, LINE, BAD, GOOD = "var(--muted)", "var(--line)", "var(--bad)", "var(--good)"
# Units of an axis of durations, the greatest first: milliseconds, and the text below it.
_UNITS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds"))


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot with its numbers. `name` is unique in its page and a valid id; times of traces are milliseconds;
    `layout` is what differs from the layout of all our plots (see plots.js).
    """

    name: str
    title: str
    traces: Sequence[Mapping[str, Any]]
    numbers: TableView
    note: str = ""
    layout: Mapping[str, Any] = field(default_factory=dict)
    height: int = 240

    @property
    def figure(self) -> dict[str, Any]:
        """What the script reads."""
        return {"data": list(self.traces), "layout": dict(self.layout), "height": self.height}

    @property
    def is_empty(self) -> bool:
        return not any(len(trace.get("x", trace.get("y", ()))) for trace in self.traces)


def line(
    name: str, x: Iterable[float | None], y: Iterable[float | None], colour: str, **settings: Any
) -> dict[str, Any]:
    """A trace that joins points."""
    own_settings = {"x": list(x), "y": list(y), "line": {"color": colour, "width": 2}}
    return {"type": "scatter", "mode": "lines", "name": name, **own_settings, **settings}


def axis_title(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"size": 11, "color": GREY}}


def right_axis(text: str, marks: int) -> dict[str, Any]:
    """The layout of a second axis to the right, with so many marks."""
    return {
        "title": axis_title(text),
        "overlaying": "y",
        "side": "right",
        "rangemode": "tozero",
        "showgrid": False,
        "automargin": True,
        "tickfont": {"size": 11, "color": GREY},
        "tickmode": "auto",
        "nticks": marks,
    }


def vertical_line(x: float, colour: str = GREY) -> dict[str, Any]:
    """The shape of a dashed line through the whole plot."""
    place = {"x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "line", **place, "line": {"color": colour, "width": 2, "dash": "dash"}}


def duration_unit(most_ms: float) -> tuple[int, str]:
    return next((unit for unit in _UNITS if most_ms >= 2 * unit[0]), _UNITS[-1])


def plot_times(moments: Iterable[datetime | None]) -> list[int | None]:
    """Times as an axis of the type `date` takes them."""
    return [None if moment is None else to_ms(moment) for moment in moments]
