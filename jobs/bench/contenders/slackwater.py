"""The project itself: one slice, from the pinned source to the committed ledger and the published table, in a warm Spark session."""

import shutil
from typing import Any

from jobs.bench.cases import Case
from jobs.protocol.catch_up import CatchUp, Request

PIPELINES = "jobs.bench.pipelines"


class Slackwater:
    """Replays everything as one run on an empty lineage."""

    def __init__(self, engine: str | None) -> None:
        self._engine = engine

    def start(self, case: Case) -> None:
        """The session is made by the first run."""

    def prepare(self, case: Case) -> None:
        """An empty lineage."""
        shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)

    def run(self, case: Case) -> dict[str, Any]:
        return self._replay(case, case.facts["from_ms"], case.facts["to_ms"])

    def _replay(self, case: Case, from_ms: int, to_ms: int) -> dict[str, Any]:
        request = Request(case.workload.pipeline, to_ms, from_ms, engine=self._engine)
        [row] = CatchUp.on_spark(request, str(case.folder), PIPELINES, lambda line: None).run()
        return {"rows": row.rows_read, "engine": row.engine, "phases": row.phase_seconds}


class LastEighth(Slackwater):
    """Replays the last eighth of the rows on the restored state of the others."""

    def prepare(self, case: Case) -> None:
        super().prepare(case)
        self._replay(case, case.facts["from_ms"], case.facts["cut_ms"])

    def run(self, case: Case) -> dict[str, Any]:
        return self._replay(case, case.facts["cut_ms"], case.facts["to_ms"])
