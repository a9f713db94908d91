"""Plot of the watermark against the arrivals, with the source partitions that hold it back."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from slackwater.jobs.inspection.runs.partition_series import PartitionSeries
from slackwater.jobs.inspection.runs.run_series import RunFigures
from slackwater.jobs.pages.drawing.plots import ACCENT, FOURTH, GREY, SECOND, THIRD, Plot, plot_times
from slackwater.jobs.pages.drawing.table_view import PageColumn, TableView
from slackwater.jobs.readable import NOTHING, plain_text

# Each source partition that has a line of its own has one of these colours.
_COLOURS = (SECOND, THIRD, FOURTH, GREY)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
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
    unit, unit_name = (_DAY, "days") if longest > 4 * _DAY else (_HOUR, "hours")
    x = plot_times(run.slice_end for run in runs)
    return Plot(
        name="lag",
        title="Watermark behind arrivals",
        note=_note(len(lags), len(partitions.by_partition)),
        traces=[
            *(
                {
                    **_line(_name(name), x, partition_lags, unit),
                    "line": {"color": colour, "width": 1.5, "dash": "dot"},
                }
                for (name, partition_lags), colour in zip(lags.items(), _COLOURS, strict=False)
            ),
            {**_line("watermark", x, watermark_lags, unit), "line": {"color": ACCENT, "width": 2.5}},
        ],
        layout={"xaxis": {"type": "date"}, "yaxis": {"title": {"text": f"{unit_name} behind"}}},
        numbers=TableView(
            caption="Watermark behind arrivals",
            columns=[
                *(PageColumn("run", "number"), PageColumn("slice end", "time")),
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
        f"dotted the newest event {which if partitions > 1 else 'of all rows'}."
    )


def _line(name: str, x: Sequence[int | None], lags: Lags, unit: timedelta) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": [None if lag is None else lag / unit for lag in lags],
    }


def _name(partition: str) -> str:
    return plain_text(partition) or _NAME_OF_ALL_ROWS
