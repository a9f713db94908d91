"""The contender that is the project itself: it replays one slice, from the pinned source to the committed
ledger and the published table, in a warm process: in threads where the slice is small, else on Spark.

It records the seconds until the ledger is committed beside those until the published table has followed.
"""

import shutil
from itertools import pairwise
from typing import Any

from slackwater.bench.cases import BenchmarkCase
from slackwater.engine.planner import choose
from slackwater.engine.source.pinning import pin
from slackwater.engine.transport.placement import SMALL_BYTES
from slackwater.pipelines import registry
from slackwater.runs.lineage.catch_up import CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runs.staging.run import wall_clock
from slackwater.runtime.settings import tasks_here
from slackwater.tables.warehouse import Warehouse


class Slackwater:
    """Replays everything as one run on an empty lineage."""

    def __init__(self, engine: str | None) -> None:
        self._engine = engine
        self._warm_up_case: BenchmarkCase | None = None

    def start(self, case: BenchmarkCase) -> None:
        self._warm_up_case = case

    def prepare(self, case: BenchmarkCase) -> None:
        """Warm up each time, as Spark ends Python workers that idled for a minute; empty the lineage."""
        self._warm(case)
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        return self._replay(case, case.facts["from_ms"], case.facts["to_ms"])

    def _warm(self, next_case: BenchmarkCase) -> None:
        """Replay the case of `start` where `next_case` will be: on Spark, where that is not small, in so many
        ranges that every Python worker gets one.
        """
        if (case := self._warm_up_case) is None:
            return
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
        ranges = 2 * tasks_here() + 1 if self._needs_spark(next_case) else None
        self._replay(case, case.facts["from_ms"], case.facts["to_ms"], ranges)

    def _needs_spark(self, case: BenchmarkCase) -> bool:
        """Whether Spark replays the whole case in a session that runs."""
        if case.facts["source_bytes"] > SMALL_BYTES:
            return True
        pipeline = registry.load(case.workload.pipelines)[case.workload.pipeline]
        [declaration] = pipeline.sources
        source = pin(declaration, Warehouse.at(str(case.folder)).source(declaration.table))
        return not choose(pipeline, source.schema, self._engine).make().in_threads

    def _replay(
        self, case: BenchmarkCase, from_ms: int, to_ms: int, ranges: int | None = None
    ) -> dict[str, Any]:
        request = CatchUpRequest(case.workload.pipeline, to_ms, from_ms, engine=self._engine, ranges=ranges)
        opened_pipeline = OpenedPipeline(request.pipeline, str(case.folder), case.workload.pipelines)
        work = opened_pipeline.catch_up(request, lambda line: None)
        started_at = wall_clock()
        [row] = work.run()
        assert row.committed_at is not None
        [staged_slice] = work.staged_slices
        return {
            "rows": row.rows_read,
            "engine": row.engine,
            "phases": row.phase_seconds,
            "task_mb": staged_slice.memory_mb,
            "state_s": staged_slice.state_s,
            "committed_s": round((row.committed_at - started_at).total_seconds(), 3),
        }


class LastEighth(Slackwater):
    """Replays the last eighth of the rows on the state of the first seven, which the same session has
    replayed eighth by eighth, as a backfill does.
    """

    def start(self, case: BenchmarkCase) -> None:
        """Nothing: the eighths that `prepare` replays start the session and warm it."""

    def prepare(self, case: BenchmarkCase) -> None:
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
        for start, end in pairwise([case.facts["from_ms"], *case.facts["cuts_ms"]]):
            self._replay(case, start, end)

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        return self._replay(case, case.facts["cuts_ms"][-1], case.facts["to_ms"])
