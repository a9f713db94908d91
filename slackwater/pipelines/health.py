"""The thresholds of a pipeline: from where on `slackwater health` calls it yellow or red."""

from dataclasses import dataclass, fields
from datetime import timedelta
from numbers import Real
from typing import Any, TypeVar

from slackwater.pipelines.errors import PipelineError

Value = TypeVar("Value")
Limits = tuple[Value | None, Value | None]
_SUBJECT = "Health"


@dataclass(frozen=True, kw_only=True)
class Health:
    """From where on a pipeline is yellow or red. Each threshold is a pair (yellow, red), and None stands for
    never. A change of them is none of the lineage.

    Args:
        overdue: how long ago a run that the schedule asks for could have started (the end of its slice and
            `settle` have passed), while the lineage does not cover its slice. Judged only of a lineage that
            follows the wall clock, not of one that replays history.
        watermark_lag: how far the watermark is behind the end of the last slice. Whatever is declared here,
            it is yellow where it is far above that of earlier runs, and red where rows arrive and it has not
            moved for three runs.
        source_silence: how long ago the newest row of the source has arrived, while the lineage follows the
            wall clock. None for yellow: two data intervals of the schedule.
        partition_silence: how long before the end of the last slice the newest row of a source partition has
            arrived. None for yellow: a day, and twice the longest silence that it had before.
        late_share: rows of the last run that came too late, as a share of those read, if that share is far
            above the one of earlier runs.
        growth: by which factor open windows, timers or the size of the snapshot have grown since the first
            half of the runs, beyond the factor by which rows read have.
        backlog: for how long something has been waiting that is committed: `published` for its roll-forward,
            a sink for its corrections. A staged run that waits for its publication is never red by itself.
        snapshots_due: how many snapshots more are stored than `slackwater maintain` would keep, about. None
            for yellow: as many as `keep_snapshots`.

    Raises:
        PipelineError: a threshold is no such pair, or its red lies below its yellow.
    """

    overdue: Limits[timedelta] = (timedelta(hours=1), timedelta(hours=6))
    watermark_lag: Limits[timedelta] = (None, None)
    source_silence: Limits[timedelta] = (None, None)
    partition_silence: Limits[timedelta] = (None, None)
    late_share: Limits[float] = (0.01, 0.1)
    growth: Limits[float] = (2.0, 5.0)
    backlog: Limits[timedelta] = (timedelta(minutes=10), timedelta(hours=1))
    snapshots_due: Limits[int] = (None, None)

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))


_NUMBERS = {
    "late_share": "a share from 0 to 1",
    "growth": "a factor of at least 1",
    "snapshots_due": "a number of snapshots",
}


def _check(name: str, limits: Any) -> None:
    if not isinstance(limits, tuple) or len(limits) != 2:
        raise PipelineError(
            _SUBJECT, f"{name} is {limits!r}; it is a pair (yellow, red), of which each may be None for never"
        )
    for limit in limits:
        if limit is not None and not _suits(name, limit):
            description = _NUMBERS.get(name, "a datetime.timedelta that is not negative")
            raise PipelineError(_SUBJECT, f"{name} has {limit!r}; a threshold is {description}, or None")
    yellow, red = limits
    if yellow is not None and red is not None and red < yellow:
        raise PipelineError(
            _SUBJECT, f"{name} is {limits!r}; what is red is yellow before: the second is not below the first"
        )


def _suits(name: str, limit: Any) -> bool:
    if name not in _NUMBERS:
        return isinstance(limit, timedelta) and limit >= timedelta(0)
    if isinstance(limit, bool) or not isinstance(limit, Real):
        return False
    value = float(limit)
    if name == "late_share":
        return 0 <= value <= 1
    return value >= 1 if name == "growth" else isinstance(limit, int) and limit >= 0
