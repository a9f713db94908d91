"""The inputs of a plan: the declared pipeline, its sources as they are now, and main with its tables.

Opened once for a plan; reads the ledger and the sources' logs, and writes nothing.
"""

from dataclasses import dataclass, replace

import pyarrow as pa

from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.pipelines import Pipeline
from slackwater.runs.staging.shapes import checked_sources
from slackwater.runs.staging.slices import end_of, start_of
from slackwater.runs.staging.stragglers import without_erased
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.live_runs import NO_RUNS, LiveRuns
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Tables, Warehouse

_NEWEST_ROWS = 200


@dataclass(frozen=True)
class PlanInputs:
    """The declared pipeline, its sources pinned at their newest versions, and main's live runs in slice
    order. `tables` and `head` are None before the first run.
    """

    pipeline: Pipeline
    sources: PinnedSources
    tables: Tables | None = None
    head: LedgerRow | None = None
    live: LiveRuns = NO_RUNS

    @classmethod
    def of(cls, warehouse: Warehouse, pipeline: Pipeline) -> "PlanInputs":
        """Open the inputs of a pipeline, whose tables need not exist yet. Raises UsageError: the source does
        not suit; ShapeChanged: the stored tables have other columns.
        """
        sources, shape = checked_sources(warehouse, pipeline)
        try:
            tables = warehouse.stored_tables(pipeline.name)
        except NoRuns:
            return cls(pipeline, sources)
        warehouse.tables(pipeline.name, shape).check()
        ledger = tables.ledger
        head = ledger.head()
        each = tuple(
            without_erased(source, declaration.table, ledger)
            for declaration, source in zip(pipeline.sources, sources.each, strict=True)
        )
        return cls(
            pipeline,
            replace(sources, each=each),
            tables,
            head,
            NO_RUNS if head is None else ledger.live_runs(head),
        )

    @property
    def start_ms(self) -> int:
        return start_of(self.live[0])

    @property
    def end_ms(self) -> int:
        return end_of(self.live[-1])

    def live_reads(self, table: str) -> pa.Table | None:
        """`LedgerReader.live_reads` of main for the source `table`; None without runs."""
        if self.tables is None or self.head is None:
            return None
        return self.tables.ledger.live_reads(self.head, table)

    def newest_rows(self) -> list[LedgerRow]:
        if self.tables is None or self.head is None:
            return []
        return self.tables.ledger.rows(since=max(0, self.head.seq - _NEWEST_ROWS))
