"""The project itself: one slice, from the pinned source to the committed ledger and the published table, in a
warm Spark session.

Seconds until the ledger is committed are noted beside those until the published table has followed.
"""

import shutil
from itertools import pairwise
from typing import Any

from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.workloads import WORKLOADS
from slackwater.jobs.engines.planner import choose
from slackwater.jobs.engines.replaying.task_memory import estimate_mb
from slackwater.jobs.engines.source.pinning import pin
from slackwater.jobs.pipelines import registry
from slackwater.jobs.protocol.lineage.catch_up import Request
from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline, spark_transport
from slackwater.jobs.protocol.planning.prediction import from_calibration
from slackwater.jobs.protocol.planning.trial import calibrate
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.runtime.settings import tasks_here
from slackwater.jobs.tables.warehouse import Warehouse

PIPELINES = "slackwater.jobs.bench.pipelines"


class Slackwater:
    """Replays everything as one run on an empty lineage. What `slackwater plan --calibrate` predicts is noted
    beside what it took.
    """

    def __init__(self, engine: str | None) -> None:
        self._engine = engine
        self._warm_up: Case | None = None
        self._predicted: dict[str, dict[str, float]] = {}

    def start(self, case: Case) -> None:
        """Makes the session, and warms it."""
        self._warm_up = case
        self._warm()

    def prepare(self, case: Case) -> None:
        """A warm session, an empty lineage, and once for each workload its prediction. Spark ends Python
        workers that have rested for a minute, while others ran."""
        self._warm()
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
        if case.label in WORKLOADS and case.label not in self._predicted and self._engine is None:
            self._predicted[case.label] = self._predict(case)

    def run(self, case: Case) -> dict[str, Any]:
        found = self._replay(case, case.facts["from_ms"], case.facts["to_ms"])
        return {**found, **self._predicted.get(case.label, {})}

    def _warm(self) -> None:
        """A replay of what it was started with, divided as small ones are not."""
        if (case := self._warm_up) is None:
            return
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
        self._replay(case, case.facts["from_ms"], case.facts["to_ms"], ranges=2 * tasks_here() + 1)

    def _predict(self, case: Case) -> dict[str, float]:
        """Seconds in a session that is warm, and megabytes of the largest task."""
        pipeline, where = registry.load(PIPELINES)[case.workload.pipeline], Warehouse.at(str(case.folder))
        from_ms, to_ms, rows = (case.facts[name] for name in ("from_ms", "to_ms", "rows"))
        rates = calibrate(
            pipeline,
            where,
            from_ms,
            to_ms,
            transport=spark_transport("calibrate"),
            lines=lambda line: None,
        )
        source = pin(pipeline.source, where.source(pipeline.source.table))
        files = source.files(from_ms, to_ms, pipeline.source.arrival_time, None)
        estimate = estimate_mb(pipeline, source, files, rows, 0, choose(pipeline, source.schema).make())
        return {
            "predicted_s": round(from_calibration(rates).of_slice(rows), 3),
            "predicted_mb": rates.memory_of(estimate),
        }

    def _replay(self, case: Case, from_ms: int, to_ms: int, ranges: int | None = None) -> dict[str, Any]:
        request = Request(case.workload.pipeline, to_ms, from_ms, engine=self._engine, ranges=ranges)
        opened = OpenedPipeline(request.pipeline, str(case.folder), PIPELINES)
        work = opened.catch_up(request, lambda line: None)
        started = wall_clock()
        [row] = work.run()
        assert row.committed_at is not None
        [staged] = work.staged
        return {
            "rows": row.rows_read,
            "engine": row.engine,
            "phases": row.phase_seconds,
            "task_mb": staged.memory_mb,
            "state_s": staged.state_s,
            "committed_s": round((row.committed_at - started).total_seconds(), 3),
        }


class LastEighth(Slackwater):
    """Replays the last eighth of the rows on the restored state of the others, in the session that has
    replayed those, eighth by eighth, as a backfill does."""

    def start(self, case: Case) -> None:
        """What comes before makes the session, and warms it."""

    def prepare(self, case: Case) -> None:
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
        for start, end in pairwise([case.facts["from_ms"], *case.facts["cuts_ms"]]):
            self._replay(case, start, end)

    def run(self, case: Case) -> dict[str, Any]:
        return self._replay(case, case.facts["cuts_ms"][-1], case.facts["to_ms"])
