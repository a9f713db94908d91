"""Draws the results as pictures. matplotlib is an extra: without it there are tables only."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slackwater.bench.growth import NAMES, axis_of
from slackwater.bench.results import ANCHOR
from slackwater.errors import UsageError


class NoMatplotlib(UsageError):
    """A plot was asked for and matplotlib is not installed."""


def plot(summary: Sequence[dict[str, Any]], file: Path) -> bool:
    """Draw wall time of each workload's contenders as bars, and growth as lines, into one PNG; False when
    there is nothing to draw. Raises NoMatplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoMatplotlib(
            "a plot needs matplotlib: pip install 'slackwater[bench]', or leave --plot out."
        ) from None
    workloads: dict[str, list[dict[str, Any]]] = defaultdict(list)
    growth: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in summary:
        axis = axis_of(row["workload"])
        (workloads[row["workload"]] if axis is None else growth[axis]).append(row)
    panels = len(workloads) + len(growth)
    if not panels:
        return False
    columns = min(4, panels)
    figure = Figure(figsize=(4.2 * columns, 3.2 * -(-panels // columns)), layout="constrained")
    axes = figure.subplots(-(-panels // columns), columns, squeeze=False).ravel()
    for axis, (name, rows) in zip(axes, sorted(workloads.items()), strict=False):
        _bars(axis, name, rows)
    for axis, name in zip(axes[len(workloads) :], (name for name in NAMES if name in growth), strict=False):
        _line(axis, name, growth[name])
    if growth:
        figure.legend(
            *axes[len(workloads)].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
        )
    for axis in axes[panels:]:
        axis.remove()
    figure.savefig(file, dpi=150)
    return True


def _bars(axis: Any, name: str, rows: list[dict[str, Any]]) -> None:
    """One panel of bars: seconds for a million rows of each contender, by the clock and of CPU."""
    labels = [row["contender"].replace("_", " ") for row in rows]
    places = range(len(rows))
    for shift, column, text in ((-0.2, "wall_s", "wall"), (0.2, "cpu_s", "CPU")):
        axis.barh(
            [place + shift for place in places],
            [row[column] / row["rows"] * 1e6 for row in rows],
            0.38,
            label=text,
        )
    axis.set_yticks(list(places), labels)
    axis.invert_yaxis()
    axis.set_title(f"({name}) against {ANCHOR.replace('_', ' ')}", fontsize=10)
    axis.set_xlabel("seconds a million rows")
    axis.legend(fontsize=8)


def _line(axis: Any, name: str, rows: list[dict[str, Any]]) -> None:
    """One panel of lines: seconds by the clock and of CPU (left), megabytes (right), over what grows."""
    from matplotlib.ticker import EngFormatter, NullLocator, PercentFormatter

    rows_by_amount = sorted(
        (row["rows"] if name == "rows" else float(row["workload"].split("-")[2]), row) for row in rows
    )
    amounts = [amount for amount, _ in rows_by_amount]
    memory = axis.twinx()
    for side, column, style, colour, text in (
        (axis, "wall_s", "o-", "tab:blue", "s by the clock"),
        (axis, "cpu_s", "^:", "tab:orange", "s of CPU"),
        (memory, "peak_mb", "s--", "tab:gray", "MB, all processes"),
        (memory, "task_mb", "x--", "tab:green", "MB, largest task"),
    ):
        points = [(amount, row[column]) for amount, row in rows_by_amount if row.get(column)]
        # An empty line for the legend, which is one for both sides and all axes of growth.
        axis.plot([], [], style, color=colour, label=text)
        side.plot([amount for amount, _ in points], [value for _, value in points], style, color=colour)
    if name == "late":
        axis.xaxis.set_major_formatter(PercentFormatter(1.0))
    else:
        axis.set_xscale("log")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(amounts)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    for side, unit in ((axis, "seconds"), (memory, "MB")):
        side.set_ylim(bottom=0)
        side.set_ylabel(unit, fontsize=8)
    axis.set_title({"late": "late rows", "live": "windows left open"}.get(name, name), fontsize=10)
