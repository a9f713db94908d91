"""How far each source partition was at the end of each run. The partition that is furthest behind holds the
watermark back. Read from the snapshots that upkeep has kept.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.inspection.runs.run_series import RunFigures
from slackwater.inspection.sql.views import LineageViews

# Where the source has no column of source partitions, all its rows are of one without a name.
_ALL_ROWS = ""


@dataclass(frozen=True)
class PartitionProgress:
    """A source partition at the end of a run: its greatest event time, and whether it has been silent for so
    long that the watermark does not wait for it.
    """

    max_event_time: datetime
    is_idle: bool


@dataclass(frozen=True)
class PartitionSeries:
    """Source partitions, run by run.

    Attributes:
        by_partition: source partition → one progress for each run, None where it had no event yet or the
            snapshot is gone. Partitions that held the watermark back most often come first.
        holding_back: for each run the active partition that is furthest behind; None where there is none.
    """

    by_partition: Mapping[str, Sequence[PartitionProgress | None]]
    holding_back: Sequence[str | None]


def partition_series(views: LineageViews, runs: Sequence[RunFigures]) -> PartitionSeries:
    if not runs:
        return PartitionSeries({}, [])
    rows = views.query(
        "SELECT run_id, source_partition, max_event_time, idle FROM source_progress "
        "WHERE clock IS NULL AND max_event_time IS NOT NULL AND list_contains(?, run_id)",
        [[run.run_id for run in runs]],
    )
    place_by_run_id = {run.run_id: place for place, run in enumerate(runs)}
    by_partition: dict[str, list[PartitionProgress | None]] = {}
    for row in rows.to_pylist():
        progress = by_partition.setdefault(row["source_partition"] or _ALL_ROWS, [None] * len(runs))
        progress[place_by_run_id[row["run_id"]]] = PartitionProgress(row["max_event_time"], bool(row["idle"]))
    holding_back = [_slowest(by_partition, place) for place in range(len(runs))]
    times = Counter(name for name in holding_back if name is not None)
    names = sorted(by_partition, key=lambda name: (-times[name], name))
    return PartitionSeries({name: by_partition[name] for name in names}, holding_back)


def _slowest(by_partition: Mapping[str, Sequence[PartitionProgress | None]], place: int) -> str | None:
    active = [
        (progress.max_event_time, name)
        for name, series in by_partition.items()
        if (progress := series[place]) is not None and not progress.is_idle
    ]
    return min(active)[1] if active else None
