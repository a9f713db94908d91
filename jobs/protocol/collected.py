"""The collected mark of a lineage: up to where its runs have collected windows, each run by the allowed lateness that it was declared with.

A window whose last instant is at or before the mark is not created again, however much lateness is allowed now (`Timeline.collected`): what
it has published would be replaced by what comes late alone. A restatement from a snapshot whose mark lies before the window brings it back.
The mark of a run is the greatest (watermark - allowed lateness) of all runs of its lineage up to it.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

from jobs.engines.inputs import to_ms
from jobs.engines.progress import Progress
from jobs.pipelines import Pipeline
from jobs.pipelines.pipeline import milliseconds
from jobs.pipelines.registry import config_hash
from jobs.tables.attempts import AttemptsReader
from jobs.tables.ledger import LedgerRow
from jobs.tables.staging import declaration_of
from jobs.tables.warehouse import Tables
from windowing.columnar.timeline import INITIAL_WATERMARK

# Runs of earlier formats knew no mark: they created windows again, and so does a replay of them.
FIRST_FORMAT = 2


def collects(pipeline: Pipeline) -> bool:
    """Whether the watermark collects the pipeline's windows, so that a mark means something."""
    return pipeline.window is not None and pipeline.window.is_event_time


def mark_of(tables: Tables, pipeline: Pipeline, owner: LedgerRow, parked: Progress) -> int | None:
    """The collected mark of the snapshot of `owner`, in milliseconds; None where nothing was collected, or nothing is by the watermark.

    What a snapshot does not say follows from its run's watermark and lateness. Where runs of the first format stand among those that led
    to it, it follows from the ledger.
    """
    if not collects(pipeline):
        return None
    latenesses = Latenesses(tables.attempts, pipeline)
    if parked.collected is not None or owner.format_version >= FIRST_FORMAT:
        return parked.mark(latenesses.of(owner))
    return marks(tables.ledger.live_runs(owner) or [owner], latenesses)[-1]


def marks(live: Sequence[LedgerRow], latenesses: "Latenesses") -> list[int | None]:
    """The collected mark after each of `live`, the first runs of a lineage in slice order."""
    own = [None if row.watermark_out is None else to_ms(row.watermark_out) - latenesses.of(row) for row in live]
    reached = accumulate((INITIAL_WATERMARK if mark is None else mark for mark in own), max)
    return [None if mark == INITIAL_WATERMARK else mark for mark in reached]


class Latenesses:
    """The allowed lateness of each run, as recorded with it.

    Args:
        attempts: they hold the declarations.
        pipeline: as declared today, which is what a run counts as that has recorded no declarations.
    """

    def __init__(self, attempts: AttemptsReader, pipeline: Pipeline) -> None:
        self._attempts = attempts
        self._today_ms = pipeline.allowed_lateness_ms
        self._by_config: dict[str | None, int] = {config_hash(pipeline): self._today_ms}

    def of(self, row: LedgerRow) -> int:
        """In milliseconds. The declarations are read once for all runs that have the same."""
        if row.config_hash not in self._by_config:
            declared = declaration_of(self._attempts, row.run_id)
            lateness = None if declared is None else timedelta(microseconds=declared["allowed_lateness"]["microseconds"])
            self._by_config[row.config_hash] = self._today_ms if lateness is None else milliseconds(lateness)
        return self._by_config[row.config_hash]
