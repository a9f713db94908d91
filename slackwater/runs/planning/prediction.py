"""How long a slice will take: a line through (rows, seconds) of earlier runs; and which runs these are.

Pure functions on ledger rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, median

from slackwater.tables.ledger.row_kinds import RowKind
from slackwater.tables.ledger.rows import LedgerRow

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

    def of_slice(self, rows: int) -> float:
        return self.fixed + rows * self.per_row

    def of_command(self, slices: Iterable[int]) -> float:
        return self.start + sum(map(self.of_slice, slices))

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
