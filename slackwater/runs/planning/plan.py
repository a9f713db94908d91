"""The plan of a command: the slices that it would replay, the windows that their rows touch, and the seconds
and megabytes that this would take.

Records alone; `plan_range` makes them.
"""

from dataclasses import dataclass
from typing import Any

from slackwater.engine.transport.placement import Placement
from slackwater.runs.planning.prediction import Prediction
from slackwater.runs.staging.slices import Slice, iso
from slackwater.runs.staging.stragglers import Stragglers
from slackwater.runtime.memory import overhead_mb


@dataclass(frozen=True)
class SlicePlan:
    """One slice: its files, the rows in them, and the rows that it uses (None: unknown without Spark)."""

    slice: Slice
    files: int
    bytes: int
    rows_in_files: int | None
    rows: int | None


@dataclass(frozen=True)
class EmittedRows:
    """How many rows a process function and all side outputs have emitted in `runs` earlier runs, which a
    restatement replaces, or all live ones before a run.
    """

    rows: int
    side_rows: int
    runs: int


@dataclass(frozen=True)
class Plan:
    """What a command would do.

    Attributes:
        restates: whether the range was run already.
        continues: seq of the run whose snapshot the first slice continues; None at the start of a lineage.
        slices: a restatement replays at least these, and goes on until it meets main again.
        at_most: how many slices a restatement replays if it never does.
        parked_windows, touched_parked_windows: how many windows that snapshot holds, and rows of the range
            touch.
        touched_published_windows: how many windows of `published` rows of the range touch.
        emitted_rows: of a process function or side outputs; None for others, and before the first run.
        stragglers: rows that appeared after the slice of their arrival was run, by slice; None: not known.
        prediction: None where nothing is recorded.
        memory_mb, memory_basis: of the largest task, and what that rests on.
        placements: where each slice would be replayed, and why there.
        changes: settings that differ from the ones of that run, and what they mean, as sentences.
    """

    pipeline: str
    restates: bool
    continues: int | None
    slices: tuple[SlicePlan, ...]
    at_most: int
    engine: str
    why: str
    parked_windows: int
    touched_parked_windows: int
    touched_published_windows: int
    stragglers: tuple[Stragglers, ...] | None
    prediction: Prediction | None
    memory_mb: int
    memory_basis: str
    placements: tuple[Placement, ...] = ()
    emitted_rows: EmittedRows | None = None
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def overhead_mb(self) -> int:
        """`spark.executor.memoryOverhead` of an executor of one core; each more needs `memory_mb` more."""
        return overhead_mb(self.memory_mb, 1)

    @property
    def seconds(self) -> float | None:
        """Predicted for the whole command; None where nothing is recorded or rows are not known."""
        rows = [item.rows for item in self.slices]
        if self.prediction is None or None in rows:
            return None
        return self.prediction.of_command(count for count in rows if count is not None)


def as_rows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "from": iso(item.slice.from_ms),
            "to": iso(item.slice.to_ms),
            "files": item.files,
            "bytes": item.bytes,
            "rows_read": item.rows_in_files,
            "rows_used": item.rows,
            "seconds": None
            if plan.prediction is None or item.rows is None
            else plan.prediction.of_slice(item.rows),
            "place": placement.place,
            "place_reason": placement.reason,
        }
        for item, placement in zip(plan.slices, plan.placements, strict=True)
    ]
