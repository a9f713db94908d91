"""The beginning of a range, replayed as a run would be into a warehouse that is thrown away: how long this machine takes for its rows.

No table of the pipeline is touched; what is found is kept by `calibration`.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from jobs.engines import planner
from jobs.engines.inputs import PinnedSource, pin, read
from jobs.engines.rows import in_milliseconds
from jobs.engines.task_memory import estimate_mb
from jobs.engines.transport import Transport
from jobs.errors import UsageError
from jobs.pipelines import Pipeline, registry
from jobs.protocol.calibration import Calibration
from jobs.protocol.catch_up import CatchUp, Request, spark_transport
from jobs.protocol.run import Runner
from jobs.tables.warehouse import Warehouse

ROWS = 4_000_000
TIMES = 3
_PART = 4  # the shorter of the two replays that a line is drawn through has one in so many rows
_FEWEST = 1_000
_CODE = "calibration"


class TooFewRows(UsageError):
    """A range has too few rows to be timed. Facts: rows."""


def calibrate(
    pipeline: Pipeline,
    warehouse: Warehouse,
    from_ms: int,
    to_ms: int,
    transport: Callable[[], Transport] | None = None,
    lines: Callable[[str], object] = print,
    rows: int = ROWS,
) -> Calibration:
    """Replay the beginning of [from, to), at most `rows` of it, `TIMES` times at two lengths on an empty lineage, and keep the rates.

    Raises:
        TooFewRows: there is too little to be timed.
        UsageError: the source does not suit.
    """
    pinned = pin(pipeline.source, warehouse.source(pipeline.source.table))
    arrivals = _arrivals(pipeline, pinned, from_ms, to_ms)
    if len(arrivals) < _FEWEST:
        raise TooFewRows(
            f"{pipeline.name}: {len(arrivals)} rows arrived in the range, and fewer than {_FEWEST:,} can't be timed. Give a longer one "
            "with --from and --to.",
            rows=len(arrivals),
        )
    most = min(rows, len(arrivals))
    ends = [int(arrivals[count - 1]) + 1 for count in (most // _PART, most)]
    counts = [int(np.searchsorted(arrivals, end)) for end in ends]
    choice = planner.choose(pipeline, pinned.schema)
    once = _kept_open(transport or spark_transport(f"calibrate {pipeline.name}"))
    seconds: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory(prefix="slackwater-calibration-") as folder:
        trial = _Trial(pipeline, pinned, choice, from_ms, Path(folder), once)
        cold = trial.replay(ends[0])
        for _ in range(TIMES):
            for took, end in zip(seconds, ends, strict=True):
                took.append(trial.replay(end))
            lines(f"{counts[0]:,} rows took {seconds[0][-1]:.2f} s, {counts[1]:,} rows {seconds[1][-1]:.2f} s")
    files = pinned.files(from_ms, ends[1], pipeline.source.arrival_time, None)
    fewer, more = (round(median(took), 3) for took in seconds)
    found = Calibration(
        pipeline=pipeline.name,
        config_hash=registry.config_hash(pipeline),
        engine=choice.engine,
        rows=(counts[0], counts[1]),
        seconds=(fewer, more),
        start=round(max(0.0, cold - fewer), 3),
        memory_mb=trial.memory_mb,
        estimated_mb=estimate_mb(pipeline, pinned, files, counts[1], 0, choice.make()),
    )
    found.keep()
    return found


class _Trial:
    """Replays beginnings of a range, each on an empty lineage of its own."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: PinnedSource,
        choice: planner.Choice,
        from_ms: int,
        folder: Path,
        transport: Callable[[], Transport],
    ) -> None:
        # Expectations are of whole windows, and the source may stand below another warehouse; no row is waited for.
        self._pipeline = replace(pipeline, source=replace(pipeline.source, table=source.uri), expect=(), settle=timedelta(0))
        self._choice, self._from_ms, self._folder, self._transport = choice, from_ms, folder, transport
        self._count = 0
        self.memory_mb = 0

    def replay(self, to_ms: int) -> float:
        """Seconds from pinning to the published table."""
        self._count += 1
        request = Request(self._pipeline.name, to_ms, start_ms=self._from_ms, everything=True)
        where = Warehouse(str(self._folder / str(self._count)))
        pipeline = replace(self._pipeline, slice=timedelta(milliseconds=to_ms - self._from_ms))

        def runner() -> Runner:
            return Runner(where, pipeline, _CODE, _CODE, registry.product_version(), self._choice.make(), self._transport())

        began = time.monotonic()
        work = CatchUp(request, runner, lambda line: None)
        work.run()
        self.memory_mb = max(self.memory_mb, *(staged.memory_mb for staged in work.staged))
        return time.monotonic() - began


def _kept_open(make: Callable[[], Transport]) -> Callable[[], Transport]:
    """One transport for all replays."""
    made: list[Transport] = []

    def get() -> Transport:
        if not made:
            made.append(make())
        return made[0]

    return get


def _arrivals(pipeline: Pipeline, source: PinnedSource, from_ms: int, to_ms: int) -> npt.NDArray[np.int64]:
    """Arrivals in [from, to), sorted, in milliseconds."""
    column = pipeline.source.arrival_time
    parts = [np.zeros(0, np.int64)]
    for file in source.files(from_ms, to_ms, column, None):
        times, missing = in_milliseconds(read(source.uri, file, source.schema, (column,)).column(column))
        parts.append(times[~missing & (times >= from_ms) & (times < to_ms)])
    return np.sort(np.concatenate(parts))
