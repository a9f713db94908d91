"""The thresholds at which `slackwater health` calls a pipeline yellow or red."""

from dataclasses import dataclass, fields
from datetime import timedelta
from numbers import Real
from typing import Any, TypeVar

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments

Value = TypeVar("Value")
Limits = tuple[Value | None, Value | None]
_SUBJECT = "Health"


@refuse_unknown_arguments
@dataclass(frozen=True, kw_only=True)
class Health:
    """The thresholds at which a pipeline is yellow or red, each a pair (yellow, red); None means never. They
    may change at any run.

    Args:
        overdue: how long ago a run that the schedule asks for could have started (the end of its slice and
            `settle` have passed), while the lineage does not cover its slice. Judged only of a lineage that
            follows the wall clock, not of one that replays history.
        watermark_lag: how far the watermark is behind the end of the last slice. Whatever is declared here,
            a lag far above the lag of earlier runs is yellow, and a watermark that has not moved for three
            runs while rows arrive is red.
        source_silence: how long ago the newest row of the source has arrived, while the lineage follows the
            wall clock. None for yellow: two data intervals of the schedule.
        partition_silence: how long before the end of the last slice the newest row of a source partition has
            arrived. None for yellow: a day, and twice the partition's longest silence before.
        late_share: the share of the last run's rows that came too late, if it is far above the share in
            earlier runs.
        growth: the factor by which open windows, timers or the size of the snapshot have grown since the
            first half of the runs, beyond the growth of the rows read.
        backlog: for how long `published` has been waiting for its roll-forward, or a sink for its
            corrections. A staged run that waits for its publication is never red by itself.
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
            _SUBJECT, f"{name} is {limits!r}; it is a pair (yellow, red); either may be None for never"
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
