"""A timed trial: replays the beginning of a range into a temporary warehouse, to learn how long this
machine takes for its rows.

No table of the pipeline is touched; `calibration` stores the result.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from slackwater.engine import planner
from slackwater.engine.replaying.task_memory import estimate_mb
from slackwater.engine.rows.judge import in_milliseconds
from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.transport.in_process import Transport
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline, registry
from slackwater.pipelines.code import PipelineCode
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.planning.calibration import Calibration
from slackwater.runs.staging.pins import pin_newest
from slackwater.runs.staging.run import Runner
from slackwater.tables.warehouse import Warehouse

TIMES = 3
# A replay is timed that is long beside what a run takes at no rows, and beside how far two runs of the same
# rows lie apart.
LONG_ENOUGH_S = 5.0
MOST_ROWS = 16_000_000
FIRST_ROWS = 1_000_000
_FEWEST = 1_000
_CODE = PipelineCode("calibration")


class TooFewRows(UsageError):
    """A range has too few rows to be timed. Facts: rows."""


def calibrate(
    pipeline: Pipeline,
    warehouse: Warehouse,
    from_ms: int,
    to_ms: int,
    *,
    transport: Callable[[], Transport],
    lines: Callable[[str], object] = print,
) -> Calibration:
    """Replay the beginning of [from, to) on an empty lineage, and store the rates.

    The beginning is doubled until it takes `LONG_ENOUGH_S` and half of it reaches where the first window is
    closed. Then it and half of it are timed, `TIMES` times each. Both have as many open windows as there ever
    are, so that the difference of the two is what further rows will take.

    Raises:
        TooFewRows: there is too little to be timed.
        UsageError: the source does not suit.
    """
    sources = PinnedSources.of(pipeline, pin_newest(pipeline, warehouse))
    arrivals = _arrivals(pipeline, sources, from_ms, to_ms)
    if len(arrivals) < _FEWEST:
        raise TooFewRows(
            f"{pipeline.name}: {len(arrivals)} rows arrived in the range, and fewer than {_FEWEST:,} can't "
            "be timed. Give a longer one with --from and --to.",
            rows=len(arrivals),
        )
    choice = planner.choose(pipeline, sources.schema)
    with tempfile.TemporaryDirectory(prefix="slackwater-calibration-") as folder:
        trial = _Trial(
            pipeline=_untouched_by_its_surroundings(pipeline, sources.each),
            choice=choice,
            from_ms=from_ms,
            arrivals=arrivals,
            folder=Path(folder),
            transport=_kept_open(transport),
        )
        first = min(FIRST_ROWS, len(arrivals)) // 2
        cold = trial.replay(first)
        longer = trial.long_enough(2 * max(first, trial.until_windows_are_over()))
        rows, seconds = (
            (trial.rows_of(longer // 2), trial.rows_of(longer)),
            _median_seconds(trial, longer, lines),
        )
    files = _files(pipeline, sources, from_ms, trial.end_of(longer))
    calibration = Calibration(
        pipeline=pipeline.name,
        config_hash=registry.config_hash(pipeline),
        engine=choice.engine,
        rows=rows,
        seconds=seconds,
        start=0.0,
        memory_mb=trial.memory_mb,
        estimated_mb=estimate_mb(
            pipeline, sources.each, files, rows[1], parked_windows=0, engine=choice.make()
        ),
    )
    per_slice, per_row = calibration.line
    calibration = replace(calibration, start=round(max(0.0, cold - per_slice - first * per_row), 3))
    calibration.store()
    return calibration


def _median_seconds(trial: "_Trial", longer: int, lines: Callable[[str], object]) -> tuple[float, float]:
    """Median seconds of half of the `longer` rows, and of all of them, in turn."""
    seconds = []
    for _ in range(TIMES):
        seconds.append((trial.replay(longer // 2), trial.replay(longer)))
        lines(f"{longer // 2:,} rows took {seconds[-1][0]:.2f} s, {longer:,} rows {seconds[-1][1]:.2f} s")
    fewer, more = (round(median(times), 3) for times in zip(*seconds, strict=True))
    return fewer, more


def _untouched_by_its_surroundings(pipeline: Pipeline, sources: Sequence[PinnedSource]) -> Pipeline:
    """The pipeline for a warehouse of its own: the sources are named by their URIs, for they stand below
    another warehouse; expectations are of whole windows, and no row is waited for.
    """
    declarations = [
        replace(declaration, table=source.uri, name=declaration.title if len(sources) > 1 else None)
        for declaration, source in zip(pipeline.sources, sources, strict=True)
    ]
    return replace(pipeline, source=declarations, expect=(), settle=timedelta(0))


@dataclass
class _Trial:
    """Replays beginnings of a range, each on an empty lineage of its own.

    Attributes:
        pipeline, choice, transport: what is replayed, and how.
        from_ms: where the range starts.
        arrivals: of its rows, sorted, in milliseconds.
        folder: where the lineages stand.
        replays: how many there were.
        memory_mb: the most that a task of any of them has taken.
    """

    pipeline: Pipeline
    choice: planner.Choice
    from_ms: int
    arrivals: npt.NDArray[np.int64]
    folder: Path
    transport: Callable[[], Transport]
    replays: int = 0
    memory_mb: int = 0

    def end_of(self, count: int) -> int:
        """Where the first `count` rows end, in milliseconds."""
        return int(self.arrivals[count - 1]) + 1

    def rows_of(self, count: int) -> int:
        """How many rows there are up to `end_of(count)`: rows of one arrival are not parted."""
        return int(np.searchsorted(self.arrivals, self.end_of(count)))

    def until_windows_are_over(self) -> int:
        """How many rows arrive until the first window is closed: from there on as many are open as there ever
        are.
        """
        pipeline = self.pipeline
        kept_ms = pipeline.watermarks.out_of_orderness_ms + pipeline.window_ms + pipeline.allowed_lateness_ms
        return int(np.searchsorted(self.arrivals, self.arrivals[0] + kept_ms))

    def long_enough(self, count: int) -> int:
        """`count` or more rows: as many as take `LONG_ENOUGH_S`, if there are."""
        most = min(MOST_ROWS, len(self.arrivals))
        count = min(count, most)
        while self.replay(count) < LONG_ENOUGH_S and count < most:
            count = min(2 * count, most)
        return count

    def replay(self, count: int) -> float:
        """Seconds that the first `count` rows take from pinning to the published table."""
        self.replays += 1
        to_ms = self.end_of(count)
        request = CatchUpRequest(self.pipeline.name, to_ms, start_ms=self.from_ms, everything=True)
        folder = self.folder / str(self.replays)
        pipeline = replace(self.pipeline, slice=timedelta(milliseconds=to_ms - self.from_ms))

        def runner() -> Runner:
            return Runner(
                warehouse=Warehouse(str(folder)),
                pipeline=pipeline,
                config_hash=_CODE.hash,
                code=_CODE,
                version=registry.product_version(),
                engine=self.choice.make(),
                transport=self.transport(),
            )

        began = time.monotonic()
        work = CatchUp(request, runner, lambda line: None)
        work.run()
        self.memory_mb = max(self.memory_mb, *(item.memory_mb for item in work.staged_slices))
        seconds = time.monotonic() - began
        shutil.rmtree(folder)
        return seconds


def _kept_open(make: Callable[[], Transport]) -> Callable[[], Transport]:
    """One transport for all replays."""
    transports: list[Transport] = []

    def get() -> Transport:
        if not transports:
            transports.append(make())
        return transports[0]

    return get


def _files(pipeline: Pipeline, sources: PinnedSources, from_ms: int, to_ms: int) -> list[InputFile]:
    """The files of all sources that a run of the slice [from, to) at the start of a lineage would read."""
    return [
        replace(file, source=number)
        for number, (declaration, source) in enumerate(zip(pipeline.sources, sources.each, strict=True))
        for file in source.files(from_ms, to_ms, declaration.arrival_time, None)
    ]


def _arrivals(pipeline: Pipeline, sources: PinnedSources, from_ms: int, to_ms: int) -> npt.NDArray[np.int64]:
    """Arrivals in [from, to), sorted, in milliseconds."""
    column = pipeline.roles.arrival_time
    parts = [np.zeros(0, np.int64)]
    for file in _files(pipeline, sources, from_ms, to_ms):
        times, is_undated = in_milliseconds(sources.read(file, (column,)).column(column))
        parts.append(times[~is_undated & (times >= from_ms) & (times < to_ms)])
    return np.sort(np.concatenate(parts))
