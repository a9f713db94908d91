"""Plots of what is known of late rows: how late they came, what another lateness would have cost, how
complete windows were when they first fired.
"""

from itertools import pairwise
from typing import Any

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows.completeness import BARS, BoundAdvice, BoundPrice
from slackwater.inspection.late_rows.lateness_advice import LatenessAdvice
from slackwater.inspection.late_rows.lateness_and_bound import LatenessDistribution, LateRowAdvice, advice_of
from slackwater.inspection.late_rows.lateness_settings import NoLateness
from slackwater.pages.drawing.plots import (
    ACCENT,
    SECOND,
    THIRD,
    Plot,
    axis_title,
    duration_unit,
    line,
    right_axis,
    vertical_line,
)
from slackwater.pages.drawing.table_view import TableView, page_columns
from slackwater.readable import exact_duration_text, share_text


def late_row_plots(inspection: Inspection, last_runs: int) -> list[Plot]:
    """How late rows came, and how complete windows were at their first firing, by the newest `last_runs`
    runs; no plots where no row can be too late.
    """
    try:
        advice = advice_of(inspection, last_runs=last_runs)
    except NoLateness:
        return []
    return recorded_plots(advice)


def recorded_plots(advice: LateRowAdvice) -> list[Plot]:
    distribution = lateness_distribution_plot(advice.distribution, advice.settings.lateness_ms)
    return [distribution] if advice.bound is None else [distribution, completeness_plot(advice.bound.current)]


def lateness_distribution_plot(distribution: LatenessDistribution, lateness_ms: int) -> Plot:
    """Rows that came after the end of their window, by how late, with the allowed lateness as a line."""
    width, bars = distribution.width_ms, len(distribution.late_rows)
    unit_ms, unit = duration_unit(width * bars)
    both = distribution.taken_rows, distribution.late_rows
    is_empty = not any(map(any, both))
    middles = [] if is_empty else [(number + 0.5) * width / unit_ms for number in range(bars)]
    edges = [exact_duration_text(number * width) for number in range(bars + 1)]
    texts = [f"{first} – {last}" for first, last in pairwise(edges)]
    return Plot(
        name="lateness",
        title="How late rows came",
        note=f"Rows by how far the watermark had passed the end of their window; no window took the orange "
        f"ones. The line is the allowed lateness, {exact_duration_text(lateness_ms)}.",
        traces=[
            {
                "type": "bar",
                "name": name,
                "x": middles,
                "y": list(counts),
                "width": [width / unit_ms] * bars,
                "marker": {"color": colour},
                "customdata": texts,
                "hovertemplate": f"%{{y:,}} {name}<extra>%{{customdata}}</extra>",
            }
            for name, counts, colour in (
                ("taken", distribution.taken_rows, ACCENT),
                ("too late", distribution.late_rows, SECOND),
            )
        ],
        layout={
            "barmode": "stack",
            "legend": {"traceorder": "normal"},
            "hovermode": "closest",
            "xaxis": {"title": axis_title(f"{unit} after the window’s end"), "rangemode": "tozero"},
            "yaxis": {"title": axis_title("rows")},
            "shapes": [vertical_line(lateness_ms / unit_ms)],
        },
        numbers=TableView(
            caption="Rows by how late they came",
            columns=page_columns({"after the window’s end": "text", "taken": "number", "too late": "number"}),
            rows=[row for row in zip(texts, *both, strict=True) if row[1] or row[2]],
            empty="No row came after the end of its window.",
        ),
    )


def completeness_plot(price: BoundPrice) -> Plot:
    labels = [*(f"< {share_text(most)}" for most in BARS[1:]), "all"]
    return Plot(
        name="completeness",
        title="Completeness of windows at first firing",
        note="Windows by the share of their rows that they had when they first fired.",
        traces=[
            {
                "type": "bar",
                "name": "windows",
                "x": labels if price.windows else [],
                "y": list(price.bars) if price.windows else [],
                "marker": {"color": [SECOND] * (len(labels) - 1) + [ACCENT]},
                "hovertemplate": "%{y:,} windows<extra>%{x}</extra>",
            }
        ],
        layout={
            "hovermode": "closest",
            "xaxis": {"type": "category", "tickangle": 0, "title": axis_title("share of the window’s rows")},
            "yaxis": {"title": axis_title("windows")},
        },
        numbers=TableView(
            caption="Windows by their completeness at first firing",
            columns=page_columns({"rows at first firing": "text", "windows": "number"}),
            rows=list(zip(labels, price.bars, strict=True)) if price.windows else [],
            empty="No window has fired and closed yet.",
        ),
    )


def lateness_price_plot(advice: LatenessAdvice) -> Plot:
    prices = [price for price in advice.prices if price.late_rows is not None]
    unit_ms, unit = duration_unit(max((price.lateness_ms for price in prices), default=1))
    x = [price.lateness_ms / unit_ms for price in prices]
    return Plot(
        name="price",
        title="The price of a lateness",
        note="Rows too late, and windows open at a run’s end, under each allowed lateness. The line is the "
        "declared one.",
        traces=[
            _curve("rows too late", x, [price.late_rows for price in prices], SECOND),
            _curve("open windows (right)", x, [price.windows_open for price in prices], ACCENT, yaxis="y2"),
        ],
        layout={
            "xaxis": {"title": axis_title(f"allowed lateness in {unit}"), "rangemode": "tozero"},
            "yaxis": {"title": axis_title("rows too late")},
            "yaxis2": right_axis("open windows", 5),
            "shapes": [vertical_line(advice.settings.lateness_ms / unit_ms)],
        },
        numbers=TableView(
            caption="Late rows and open windows by lateness",
            columns=page_columns(
                {"allowed lateness": "text", "rows too late": "number", "open windows": "number"}
            ),
            rows=[
                (exact_duration_text(price.lateness_ms), price.late_rows, price.windows_open)
                for price in prices
            ],
        ),
    )


def bound_price_plot(advice: BoundAdvice) -> Plot:
    prices = [price for price in advice.prices if price.windows]
    unit_ms, unit = duration_unit(max((price.bound_ms for price in prices), default=1))
    x = [price.bound_ms / unit_ms for price in prices]
    return Plot(
        name="bounds",
        title="The price of a bound",
        note="Under each bound of out-of-orderness the windows that would have been complete when they first "
        "fired, and the rows that first firings would have had; windows fire as much later as the bound is "
        "longer.",
        traces=[
            _curve("complete windows", x, [price.complete_share for price in prices], ACCENT),
            _curve("rows at first firing", x, [price.row_share for price in prices], THIRD),
        ],
        layout={
            "xaxis": {"title": axis_title(f"bound in {unit}"), "rangemode": "tozero"},
            "yaxis": {"tickformat": ".0%", "range": [0, 1.02]},
        },
        numbers=TableView(
            caption="Completeness by bound",
            columns=page_columns(
                {"bound": "text", "complete windows": "share", "rows at first firing": "share"}
            ),
            rows=[
                (exact_duration_text(price.bound_ms), price.complete_share, price.row_share)
                for price in prices
            ],
        ),
    )


def _curve(
    name: str, x: list[float], y: list[float | int | None], colour: str, **settings: Any
) -> dict[str, Any]:
    marker = {"color": colour, "size": 6}
    return line(name, x, y, colour, mode="lines+markers", marker=marker, **settings)
