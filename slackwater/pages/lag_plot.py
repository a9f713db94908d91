"""Plot of the watermark against the arrivals, with the source partitions that hold it back."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from slackwater.inspection.runs.partition_series import PartitionSeries
from slackwater.inspection.runs.run_series import RunFigures
from slackwater.pages.drawing.plots import (
    ACCENT,
    FOURTH,
    GREY,
    SECOND,
    THIRD,
    Plot,
    duration_unit,
    plot_times,
)
from slackwater.pages.drawing.table_view import PageColumn, TableView
from slackwater.readable import NOTHING, duration_text, plain_text
from slackwater.windowing.times import MILLISECOND

# Each source partition that has a line of its own has one of these colours.
_COLOURS = (SECOND, THIRD, FOURTH, GREY)
_HOUR = timedelta(hours=1)
_NAME_OF_ALL_ROWS = "all rows"

Lags = Sequence[timedelta | None]


def lag_plot(runs: Sequence[RunFigures], partitions: PartitionSeries) -> Plot:
    """How far the watermark was behind the arrivals, and how far the newest event of the source partitions
    that held it back most often.
    """
    lags = {
        name: _lags_of_partition(name, runs, partitions)
        for name in list(partitions.by_partition)[: len(_COLOURS)]
    }
    watermark_lags = [run.watermark_lag for run in runs]
    longest = max((lag for lag in watermark_lags if lag is not None), default=_HOUR)
    unit_ms, unit_name = duration_unit(longest / MILLISECOND)
    x = plot_times(run.slice_end for run in runs)
    return Plot(
        name="lag",
        title="Watermark behind arrivals",
        note=_note(len(lags), len(partitions.by_partition)),
        traces=[
            {**_line("watermark", x, watermark_lags, unit_ms), "line": {"color": ACCENT, "width": 5}},
            *(
                {
                    **_line(_name(name), x, partition_lags, unit_ms),
                    **_rings_where_idle([bool(one and one.is_idle) for one in partitions.by_partition[name]]),
                    "line": {"color": colour, "width": 1.5, "dash": "dot"},
                }
                for (name, partition_lags), colour in zip(lags.items(), _COLOURS, strict=False)
            ),
        ],
        layout={"xaxis": {"type": "date"}, "yaxis": {"title": {"text": f"{unit_name} behind"}}},
        numbers=TableView(
            caption="Watermark behind arrivals",
            columns=[
                *(PageColumn("seq", "number"), PageColumn("slice end", "time")),
                *(PageColumn("watermark", "time"), PageColumn("behind", "duration")),
                *(PageColumn(f"{_name(name)} behind", "duration") for name in lags),
                PageColumn("held back by"),
            ],
            rows=[
                (
                    *(run.seq, run.slice_end, run.watermark, run.watermark_lag),
                    *(partition_lags[place] for partition_lags in lags.values()),
                    NOTHING if holder is None else _name(holder),
                )
                for place, (run, holder) in enumerate(zip(runs, partitions.holding_back, strict=True))
            ],
        ),
    )


def _lags_of_partition(name: str, runs: Sequence[RunFigures], partitions: PartitionSeries) -> Lags:
    return [
        None if progress is None else run.slice_end - progress.max_event_time
        for run, progress in zip(runs, partitions.by_partition[name], strict=True)
    ]


def _note(drawn_partitions: int, partitions: int) -> str:
    which = "of each source partition"
    if partitions > drawn_partitions:
        which = f"of the {drawn_partitions} source partitions of {partitions} that held it back most often"
    return (
        "How far the watermark was behind the end of each run’s slice, which is the clock of its arrivals; "
        f"dotted the newest event {which if partitions > 1 else 'of all rows'}, with a ring where one "
        "was idle and held nothing back."
    )


def _rings_where_idle(idle: Sequence[bool]) -> dict[str, Any]:
    """A ring at each run at whose end a source partition was idle."""
    if not any(idle):
        return {}
    return {
        "mode": "lines+markers",
        "marker": {"symbol": "circle-open", "size": [8 if is_idle else 0 for is_idle in idle]},
        "text": [", idle" if is_idle else "" for is_idle in idle],
        "hovertemplate": "%{customdata}%{text}",
    }


def _line(name: str, x: Sequence[int | None], lags: Lags, unit_ms: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": [None if lag is None else lag / MILLISECOND / unit_ms for lag in lags],
        "customdata": [duration_text(lag) for lag in lags],
        "hovertemplate": "%{customdata}",
    }


def _name(partition: str) -> str:
    return plain_text(partition) or _NAME_OF_ALL_ROWS
