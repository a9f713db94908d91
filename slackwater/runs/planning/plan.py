"""The plan of a command: the slices that it would replay, the windows that their rows touch, and the seconds
and megabytes that this would take. Seconds follow from a line through (rows, seconds) of earlier runs.

Records and pure functions on ledger rows alone; `plan_range` makes plans.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, median
from typing import Any

from slackwater.engine.transport.placement import Placement
from slackwater.runs.staging.slices import Slice, iso
from slackwater.runs.staging.stragglers import Stragglers
from slackwater.runtime.memory import overhead_mb
from slackwater.tables.ledger.rows import LedgerRow, RowKind

RUNS = 30
_STARTS = 0.5


@dataclass(frozen=True)
class Prediction:
    """Seconds = start, once for each command, + slices * (fixed + rows * per_row).

    Attributes:
        start, fixed, per_row: seconds to start Spark, for each slice, and for each row.
        runs: seqs of the runs that it rests on, oldest first.
        engine: the engine of those runs.
    """

    start: float
    fixed: float
    per_row: float
    runs: tuple[int, ...]
    engine: str

    def slice_seconds(self, rows: int) -> float:
        return self.fixed + rows * self.per_row

    def command_seconds(self, slices: Iterable[int]) -> float:
        return self.start + sum(map(self.slice_seconds, slices))

    @property
    def basis(self) -> str:
        rates = (
            f"{self.fixed:.2f} s a slice, {self.per_row * 1e6:.1f} µs a row, {self.start:.1f} s to start "
            "Spark"
        )
        count = len(self.runs)
        which = f"run {self.runs[0]}" if count == 1 else f"{count} runs, {self.runs[0]} to {self.runs[-1]}"
        return f"recorded seconds and rows of {which}, engine {self.engine}: {rates}"


def predict(runs: Sequence[LedgerRow], engine: str) -> Prediction | None:
    """From the newest runs of `engine` that have recorded their phases; None where there are none."""
    timed_runs = [
        row for row in runs if row.kind == RowKind.RUN and row.engine == engine and row.phase_seconds
    ][-RUNS:]
    if not timed_runs:
        return None
    # The first slice of a command waits for Spark to start and to warm up.
    cold = [row for row in timed_runs if row.phase_seconds.get("session", 0.0) > _STARTS]
    warm = [row for row in timed_runs if row not in cold] or timed_runs
    per_slice, per_row = _line([(row.rows_read, _seconds(row)) for row in warm])
    starts = [
        row.phase_seconds["session"] + max(0.0, _seconds(row) - per_slice - row.rows_read * per_row)
        for row in cold
    ]
    return Prediction(
        start=median(starts) if starts else 0.0,
        fixed=per_slice,
        per_row=per_row,
        runs=tuple(row.seq for row in timed_runs),
        engine=engine,
    )


def _seconds(row: LedgerRow) -> float:
    """How long a run took, its wait for Spark left out."""
    return sum(seconds for phase, seconds in row.phase_seconds.items() if phase != "session")


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The least-squares line (seconds at no rows, seconds per row), neither of them below zero."""
    rows, seconds = zip(*points, strict=True)
    if len(set(rows)) == 1:
        return fmean(seconds), 0.0
    slope, intercept = linear_regression(rows, seconds)
    if slope < 0:
        return fmean(seconds), 0.0
    if intercept < 0:
        return 0.0, linear_regression(rows, seconds, proportional=True).slope
    return intercept, slope


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
        return self.prediction.command_seconds(count for count in rows if count is not None)


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
            else plan.prediction.slice_seconds(item.rows),
            "place": placement.place,
            "place_reason": placement.reason,
        }
        for item, placement in zip(plan.slices, plan.placements, strict=True)
    ]
