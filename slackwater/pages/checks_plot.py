"""Plot of the results of each check over the runs of a lineage."""

from collections.abc import Sequence
from typing import Any

from slackwater.inspection.runs.check_series import CheckResult, CheckSeries
from slackwater.inspection.runs.run_series import RunFigures
from slackwater.pages.drawing.plots import BAD, GOOD, SECOND, Plot, plot_times
from slackwater.pages.drawing.table_view import PageColumn, TableView
from slackwater.readable import NOTHING, plain_text

_TITLE_CHARACTERS = 34
# Name of a trace → its symbol, its colour, the size of its marks in pixels.
_MARKS = {"passed": ("circle", GOOD, 6), "warned": ("triangle-up", SECOND, 10), "failed": ("x", BAD, 10)}


def checks_plot(runs: Sequence[RunFigures], checks: Sequence[CheckSeries]) -> Plot:
    titles = [_title(check) for check in checks]
    traces = [trace for name in _MARKS if (trace := _marks(name, runs, checks))["x"]]
    return Plot(
        name="checks",
        title="Checks",
        note="The result of each expectation and of our own checks, by the start of each run’s slice.",
        traces=traces,
        layout={
            "xaxis": {"type": "date"},
            "yaxis": {
                "type": "category",
                "categoryorder": "array",
                "categoryarray": titles[::-1],
                "nticks": len(titles) + 1,
                "showgrid": False,
            },
            "hovermode": "closest",
            "showlegend": True,
        },
        height=_height(len(checks)),
        numbers=_numbers(runs, checks),
    )


def _marks(name: str, runs: Sequence[RunFigures], checks: Sequence[CheckSeries]) -> dict[str, Any]:
    symbol, colour, size = _MARKS[name]
    points = [
        (run, check, result)
        for check in checks
        for run, result in zip(runs, check.results, strict=True)
        if result is not None and _verdict(check, result) == name
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": plot_times(run.slice_start for run, _, _ in points),
        "y": [_title(check) for _, check, _ in points],
        "marker": {"color": colour, "symbol": symbol, "size": size},
        "text": [f"run {run.seq}: {_observation(result)}" for run, _, result in points],
        "hovertemplate": "%{y}<br>%{text}<extra></extra>",
    }


def _verdict(check: CheckSeries, result: CheckResult) -> str:
    if result.passed:
        return "passed"
    return "failed" if check.severity == "reject" else "warned"


def _numbers(runs: Sequence[RunFigures], checks: Sequence[CheckSeries]) -> TableView:
    return TableView(
        caption="Results of the checks",
        columns=[
            *(PageColumn("check"), PageColumn("severity"), PageColumn("runs", "number")),
            *(PageColumn("broken in", "number"), PageColumn("by the runs")),
            PageColumn("observed by the newest run"),
        ],
        rows=[
            (
                *(plain_text(check.title), check.severity),
                sum(result is not None for result in check.results),
                len(check.failures),
                ", ".join(str(runs[place].seq) for place in check.failures) or NOTHING,
                NOTHING if check.newest is None else _observation(check.newest),
            )
            for check in checks
        ],
        empty="No run has recorded checks.",
    )


def _observation(result: CheckResult) -> str:
    observed = plain_text(result.observed or NOTHING)
    if result.passed or result.unexpected is None or result.checked is None:
        return observed
    return f"{observed}; {result.unexpected:,} of {result.checked:,} break it"


def _title(check: CheckSeries) -> str:
    """The name of a check on an axis, cut where it is long."""
    title = plain_text(check.title)
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 1]}…"


def _height(checks: int) -> int:
    return next((height for height in (160, 200, 240, 280, 320) if height >= 90 + 20 * checks), 400)
