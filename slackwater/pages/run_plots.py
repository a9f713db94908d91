"""Plots of the runs of a lineage, from the oldest to the newest: rows, firings, times, and what is parked."""

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.inspection.runs.run_series import SESSION, RunFigures
from slackwater.pages.drawing.plots import (
    ACCENT,
    BAD,
    FOURTH,
    GREY,
    LINE,
    SECOND,
    THIRD,
    Plot,
    plot_times,
)
from slackwater.pages.drawing.table_view import PageColumn, TableView

_SIZE_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB"))
_DATES = {"xaxis": {"type": "date"}}
_STACKS = {**_DATES, "barmode": "stack", "legend": {"traceorder": "normal"}}
# The phases that take long have colours of their own.
_PHASE_COLOURS = {
    **{"timeline": FOURTH, "replay": ACCENT, "stage": THIRD, "validate": SECOND},
    **{SESSION: "var(--accent-soft)", "claim": "var(--second-soft)", "pin": LINE},
}


def rows_plot(runs: Sequence[RunFigures]) -> Plot:
    """Rows read by each run, those that came too late, and those that cannot be used."""
    return Plot(
        name="rows",
        title="Rows",
        note="Read by each run, by the start of its slice; of these, those that came too late for every "
        "window of theirs, and those in quarantine.",
        traces=[
            _bars("read", runs, [run.rows_read for run in runs], ACCENT),
            _bars("too late", runs, [run.rows_late for run in runs], SECOND),
            _bars("quarantined", runs, [run.rows_quarantined for run in runs], BAD),
        ],
        layout={**_DATES, "barmode": "overlay", "yaxis": {"title": {"text": "rows"}}},
        numbers=_numbers(
            "Rows of each run",
            runs,
            {
                "read": [run.rows_read for run in runs],
                "too late": [run.rows_late for run in runs],
                "quarantined": [run.rows_quarantined for run in runs],
            },
        ),
    )


def firings_plot(runs: Sequence[RunFigures]) -> Plot:
    """Windows that fired for the first time, and again."""
    first_firings, further_firings = (
        [run.windows_fired for run in runs],
        [run.windows_refired for run in runs],
    )
    return Plot(
        name="firings",
        title="Firings",
        note="Windows that fired for the first time, and further firings, most of them by late rows.",
        traces=[
            _bars("fired", runs, first_firings, ACCENT),
            _bars("fired again", runs, further_firings, SECOND),
        ],
        layout={
            **_DATES,
            "barmode": "stack",
            "legend": {"traceorder": "normal"},
            "yaxis": {"title": {"text": "firings"}},
        },
        numbers=_numbers(
            "Firings of each run", runs, {"fired": first_firings, "fired again": further_firings}
        ),
    )


def phases_plot(runs: Sequence[RunFigures]) -> Plot:
    """How long each run took, by phase."""
    phases = list(dict.fromkeys(phase for run in runs for phase in run.phase_seconds if phase != SESSION))
    seconds = {phase: [run.phase_seconds.get(phase, 0.0) for run in runs] for phase in (*phases, SESSION)}
    shown = {phase: values for phase, values in seconds.items() if any(values)}
    return Plot(
        name="phases",
        title="Time by phase",
        note="How long each run took; “session” is the start of Spark.",
        traces=[
            _bars(phase, runs, values, _PHASE_COLOURS.get(phase, GREY)) for phase, values in shown.items()
        ],
        layout={
            **_DATES,
            "barmode": "stack",
            "legend": {"traceorder": "normal"},
            "yaxis": {"title": {"text": "seconds"}, "hoverformat": ",.2f"},
        },
        numbers=_numbers(
            "Seconds of each run by phase",
            runs,
            {phase: [1000 * value for value in values] for phase, values in shown.items()},
            "duration",
        ),
    )


def state_plot(runs: Sequence[RunFigures]) -> Plot:
    """What each run has parked: windows, timers, and the size of its snapshot."""
    x = plot_times(run.slice_end for run in runs)
    most = max((run.state_bytes or 0 for run in runs), default=0)
    size, unit = next((pair for pair in _SIZE_UNITS if most >= pair[0]), _SIZE_UNITS[-1])
    sizes = [None if run.state_bytes is None else run.state_bytes / size for run in runs]
    return Plot(
        name="state",
        title="Parked state",
        note="What was open at the end of each run, and the size of its snapshot while that is kept.",
        traces=[
            _line("open windows", x, [run.windows_open for run in runs], ACCENT),
            _line("pending timers", x, [run.timers_pending for run in runs], THIRD),
            {**_line("snapshot (right)", x, sizes, SECOND), "yaxis": "y2"},
        ],
        layout={
            **_DATES,
            "yaxis": {"title": {"text": "windows, timers"}},
            "yaxis2": {
                "title": {"text": unit, "font": {"size": 11, "color": GREY}},
                "hoverformat": ",.2f",
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
                "showgrid": False,
                "automargin": True,
                "tickmode": "auto",
                "nticks": 4,
                "tickfont": {"size": 11, "color": GREY},
            },
        },
        numbers=TableView(
            caption="Parked state of each run",
            columns=[
                *(PageColumn("seq", "number"), PageColumn("slice end", "time")),
                *(PageColumn("open windows", "number"), PageColumn("pending timers", "number")),
                PageColumn("snapshot", "size"),
            ],
            rows=[
                (run.seq, run.slice_end, run.windows_open, run.timers_pending, run.state_bytes)
                for run in runs
            ],
        ),
    )


def _bars(name: str, runs: Sequence[RunFigures], values: Sequence[float], colour: str) -> Mapping[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": plot_times(run.slice_start for run in runs),
        "y": list(values),
        "marker": {"color": colour},
    }


def _line(name: str, x: Sequence[int | None], values: Sequence[float | None], colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": list(values),
        "line": {"color": colour, "width": 2},
    }


def _numbers(
    caption: str, runs: Sequence[RunFigures], columns: Mapping[str, Sequence[float]], kind: Any = "number"
) -> TableView:
    return TableView(
        caption=caption,
        columns=[
            *(PageColumn("seq", "number"), PageColumn("slice start", "time")),
            *(PageColumn(name, kind) for name in columns),
        ],
        rows=[
            (run.seq, run.slice_start, *values) for run, *values in zip(runs, *columns.values(), strict=True)
        ],
    )
