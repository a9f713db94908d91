"""Plots of the runs of a lineage, from the oldest to the newest: the watermark against the arrivals, rows,
firings, times, what is parked, and the results of checks.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from slackwater.inspection.runs.run_series import (
    SESSION,
    CheckResult,
    CheckSeries,
    PartitionProgress,
    PartitionSeries,
    RunFigures,
)
from slackwater.pages.drawing.plots import (
    ACCENT,
    BAD,
    FOURTH,
    GOOD,
    GREY,
    LINE,
    SECOND,
    THIRD,
    Plot,
    duration_unit,
    line,
    plot_times,
    right_axis,
)
from slackwater.pages.drawing.table_view import Kind, TableView, page_columns
from slackwater.readable import NOTHING, duration_text, plain_text
from slackwater.windowing.times import MILLISECOND

_SIZE_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB"))
_DATES = {"xaxis": {"type": "date"}}
_STACKS = {**_DATES, "barmode": "stack", "legend": {"traceorder": "normal"}}
# The phases that take long have colours of their own.
_PHASE_COLOURS = {
    **{"timeline": FOURTH, "replay": ACCENT, "stage": THIRD, "validate": SECOND},
    **{SESSION: "var(--accent-soft)", "claim": "var(--second-soft)", "pin": LINE},
}
# Each source partition that has a line of its own has one of these colours.
_PARTITION_COLOURS = (SECOND, THIRD, FOURTH, GREY)
_HOUR = timedelta(hours=1)
_TITLE_CHARACTERS = 34
# Name of a trace of checks → its symbol, its colour, the size of its marks in pixels.
_MARKS = {"passed": ("circle", GOOD, 6), "warned": ("triangle-up", SECOND, 10), "failed": ("x", BAD, 10)}

# Name of a series → its colour, and a value for each run.
_Series = Mapping[str, tuple[str, Sequence[float]]]


def rows_plot(runs: Sequence[RunFigures]) -> Plot:
    """Rows read by each run, those that came too late, and those that cannot be used."""
    return _bars_plot(
        runs,
        {
            "read": (ACCENT, [run.rows_read for run in runs]),
            "too late": (SECOND, [run.rows_late for run in runs]),
            "quarantined": (BAD, [run.rows_quarantined for run in runs]),
        },
        name="rows",
        title="Rows",
        note="Read by each run, by the start of its slice; of these, those that came too late for every "
        "window of theirs, and those in quarantine.",
        layout={**_DATES, "barmode": "overlay", "yaxis": {"title": {"text": "rows"}}},
        caption="Rows of each run",
    )


def firings_plot(runs: Sequence[RunFigures]) -> Plot:
    """Windows that fired for the first time, and again."""
    return _bars_plot(
        runs,
        {
            "fired": (ACCENT, [run.windows_fired for run in runs]),
            "fired again": (SECOND, [run.windows_refired for run in runs]),
        },
        name="firings",
        title="Firings",
        note="Windows that fired for the first time, and further firings, most of them by late rows.",
        layout={**_STACKS, "yaxis": {"title": {"text": "firings"}}},
        caption="Firings of each run",
    )


def phases_plot(runs: Sequence[RunFigures]) -> Plot:
    """How long each run took, by phase."""
    phases = list(dict.fromkeys(phase for run in runs for phase in run.phase_seconds if phase != SESSION))
    seconds = {phase: [run.phase_seconds.get(phase, 0.0) for run in runs] for phase in (*phases, SESSION)}
    return _bars_plot(
        runs,
        {
            phase: (_PHASE_COLOURS.get(phase, GREY), values)
            for phase, values in seconds.items()
            if any(values)
        },
        name="phases",
        title="Time by phase",
        note="How long each run took; “session” is the start of Spark.",
        layout={**_STACKS, "yaxis": {"title": {"text": "seconds"}, "hoverformat": ",.2f"}},
        caption="Seconds of each run by phase",
        kind="duration",
    )


def _bars_plot(
    runs: Sequence[RunFigures], series: _Series, *, caption: str, kind: Kind = "number", **plot: Any
) -> Plot:
    """A bar for each run and series. Durations are in seconds."""
    x, scale = plot_times(run.slice_start for run in runs), 1000 if kind == "duration" else 1
    columns = [[scale * value for value in values] for _, values in series.values()]
    return Plot(
        traces=[
            {"type": "bar", "name": name, "x": x, "y": list(values), "marker": {"color": colour}}
            for name, (colour, values) in series.items()
        ],
        numbers=TableView(
            caption=caption,
            columns=page_columns({"seq": "number", "slice start": "time", **dict.fromkeys(series, kind)}),
            rows=[(run.seq, run.slice_start, *values) for run, *values in zip(runs, *columns, strict=True)],
        ),
        **plot,
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
            line("open windows", x, [run.windows_open for run in runs], ACCENT),
            line("pending timers", x, [run.timers_pending for run in runs], THIRD),
            line("snapshot (right)", x, sizes, SECOND, yaxis="y2"),
        ],
        layout={
            **_DATES,
            "yaxis": {"title": {"text": "windows, timers"}},
            "yaxis2": {**right_axis(unit, 4), "hoverformat": ",.2f"},
        },
        numbers=TableView(
            caption="Parked state of each run",
            columns=page_columns(
                {
                    **{"seq": "number", "slice end": "time"},
                    **{"open windows": "number", "pending timers": "number", "snapshot": "size"},
                }
            ),
            rows=[
                (run.seq, run.slice_end, run.windows_open, run.timers_pending, run.state_bytes)
                for run in runs
            ],
        ),
    )


def lag_plot(runs: Sequence[RunFigures], partitions: PartitionSeries) -> Plot:
    """How far the watermark was behind the arrivals, and how far the newest event of the source partitions
    that held it back most often.
    """
    drawn_partitions = dict(list(partitions.by_partition.items())[: len(_PARTITION_COLOURS)])
    lags = {
        name: [
            None if one is None else run.slice_end - one.max_event_time
            for run, one in zip(runs, progress, strict=True)
        ]
        for name, progress in drawn_partitions.items()
    }
    watermark_lags = [run.watermark_lag for run in runs]
    longest = max((lag for lag in watermark_lags if lag is not None), default=_HOUR)
    unit_ms, unit_name = duration_unit(longest / MILLISECOND)
    x = plot_times(run.slice_end for run in runs)
    return Plot(
        name="lag",
        title="Watermark behind arrivals",
        note=_note_on_lag(len(lags), len(partitions.by_partition)),
        traces=[
            {**_lag_line("watermark", x, watermark_lags, unit_ms), "line": {"color": ACCENT, "width": 5}},
            *(
                {
                    **_lag_line(_partition_text(name), x, lags[name], unit_ms),
                    **_rings_where_idle(progress),
                    "line": {"color": colour, "width": 1.5, "dash": "dot"},
                }
                for (name, progress), colour in zip(
                    drawn_partitions.items(), _PARTITION_COLOURS, strict=False
                )
            ),
        ],
        layout={**_DATES, "yaxis": {"title": {"text": f"{unit_name} behind"}}},
        numbers=_numbers_of_lags(runs, partitions, lags),
    )


def _numbers_of_lags(
    runs: Sequence[RunFigures],
    partitions: PartitionSeries,
    lags: Mapping[str, Sequence[timedelta | None]],
) -> TableView:
    lag_kinds: dict[str, Kind] = {f"{_partition_text(name)} behind": "duration" for name in lags}
    return TableView(
        caption="Watermark behind arrivals",
        columns=page_columns(
            {
                **{"seq": "number", "slice end": "time", "watermark": "time", "behind": "duration"},
                **lag_kinds,
                "held back by": "text",
            }
        ),
        rows=[
            (
                *(run.seq, run.slice_end, run.watermark, run.watermark_lag),
                *(partition_lags[place] for partition_lags in lags.values()),
                NOTHING if holder is None else _partition_text(holder),
            )
            for place, (run, holder) in enumerate(zip(runs, partitions.holding_back, strict=True))
        ],
    )


def _note_on_lag(drawn_partitions: int, partitions: int) -> str:
    which = "of each source partition"
    if partitions > drawn_partitions:
        which = f"of the {drawn_partitions} source partitions of {partitions} that held it back most often"
    return (
        "How far the watermark was behind the end of each run’s slice, which is the clock of its arrivals; "
        f"dotted the newest event {which if partitions > 1 else 'of all rows'}, with a ring where one "
        "was idle and held nothing back."
    )


def _rings_where_idle(progress: Sequence[PartitionProgress | None]) -> dict[str, Any]:
    """A ring at each run at whose end a source partition was idle."""
    idle = [bool(one and one.is_idle) for one in progress]
    if not any(idle):
        return {}
    return {
        "mode": "lines+markers",
        "marker": {"symbol": "circle-open", "size": [8 if is_idle else 0 for is_idle in idle]},
        "text": [", idle" if is_idle else "" for is_idle in idle],
        "hovertemplate": "%{customdata}%{text}",
    }


def _lag_line(
    name: str, x: Sequence[int | None], lags: Sequence[timedelta | None], unit_ms: int
) -> dict[str, Any]:
    y = [None if lag is None else lag / MILLISECOND / unit_ms for lag in lags]
    texts = [duration_text(lag) for lag in lags]
    return line(name, x, y, ACCENT, customdata=texts, hovertemplate="%{customdata}")


def _partition_text(name: str) -> str:
    return plain_text(name) or "all rows"


def checks_plot(runs: Sequence[RunFigures], checks: Sequence[CheckSeries]) -> Plot:
    titles = [_check_title(check) for check in checks]
    traces = [trace for name in _MARKS if (trace := _marks(name, runs, checks))["x"]]
    return Plot(
        name="checks",
        title="Checks",
        note="The result of each expectation and of our own checks, by the start of each run’s slice.",
        traces=traces,
        layout={
            **_DATES,
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
        height=next((height for height in (160, 200, 240, 280, 320) if height >= 90 + 20 * len(checks)), 400),
        numbers=_numbers_of_checks(runs, checks),
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
        "y": [_check_title(check) for _, check, _ in points],
        "marker": {"color": colour, "symbol": symbol, "size": size},
        "text": [f"run {run.seq}: {_observation(result)}" for run, _, result in points],
        "hovertemplate": "%{y}<br>%{text}<extra></extra>",
    }


def _verdict(check: CheckSeries, result: CheckResult) -> str:
    if result.passed:
        return "passed"
    return "failed" if check.severity == "reject" else "warned"


def _numbers_of_checks(runs: Sequence[RunFigures], checks: Sequence[CheckSeries]) -> TableView:
    return TableView(
        caption="Results of the checks",
        columns=page_columns(
            {
                **{"check": "text", "severity": "text", "runs": "number", "broken in": "number"},
                **{"by the runs": "text", "observed by the newest run": "text"},
            }
        ),
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


def _check_title(check: CheckSeries) -> str:
    """The name of a check on an axis, cut where it is long."""
    title = plain_text(check.title)
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 1]}…"
