"""The figures of a lineage run by run, in slice order, from the ledger and the logs of snapshot tables; never
from rows of state.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.ledger.spans import seqs_of, spans_of
from slackwater.tables.schemas import SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables

# The phase in which Spark starts: it is part of the process, not of the run's work.
SESSION = "session"


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """The figures of one live run, as in its ledger row.

    Attributes:
        closes: whether it is the end of the lineage, which reads no rows.
        state_bytes: size of its snapshot in storage, all tables together; None where upkeep has dropped it.
        watermark: at the slice's end; None before the first one.
        phase_seconds: phase → how long it took, in the order in which they ran. ``session`` starts Spark.
    """

    seq: int
    run_id: str
    closes: bool
    slice_start: datetime
    slice_end: datetime
    engine: str | None
    verdict: str | None
    started_at: datetime | None
    committed_at: datetime | None
    rows_read: int
    rows_accepted: int
    rows_late: int
    rows_quarantined: int
    windows_fired: int
    windows_refired: int
    windows_open: int
    timers_pending: int
    state_bytes: int | None
    watermark: datetime | None
    phase_seconds: Mapping[str, float]

    @property
    def late_share(self) -> float | None:
        return self.rows_late / self.rows_read if self.rows_read else None

    @property
    def watermark_lag(self) -> timedelta | None:
        """How far the watermark is behind the slice's end, which is the clock of the run's last moment."""
        return None if self.watermark is None else self.slice_end - self.watermark

    @property
    def seconds(self) -> float:
        """How long the run took, without the start of Spark."""
        return sum(seconds for phase, seconds in self.phase_seconds.items() if phase != SESSION)


def run_series(tables: Tables, head: LedgerRow | None, last: int | None = None) -> tuple[RunFigures, ...]:
    """The figures of the live runs of the branch with the newest row `head`, in slice order; with `last` only
    so many, and no more of the ledger is read.
    """
    if head is None:
        return ()
    if last is not None:
        head = replace(head, live=spans_of(seqs_of(head.live)[-last:]))
    runs = tables.ledger.live_runs(head)
    return figures_of(runs, snapshot_bytes(tables))


def figures_of(runs: Iterable[LedgerRow], bytes_by_run_id: Mapping[str, int]) -> tuple[RunFigures, ...]:
    return tuple(_figures(run, bytes_by_run_id.get(run.run_id)) for run in runs)


def snapshot_bytes(tables: Tables) -> dict[str, int]:
    """Run id → size in storage of the snapshot of that run, for the snapshots that the tables hold."""
    sizes: defaultdict[str, int] = defaultdict(int)
    for name in SNAPSHOT_TABLES:
        actions = tables[name].files().actions
        if "partition.run_id" not in actions.column_names:  # a table without files, or of an earlier format
            continue
        files = actions.select(["partition.run_id", "size_bytes"])
        by_run_id = pa.TableGroupBy(files, "partition.run_id").aggregate([("size_bytes", "sum")])
        columns = (by_run_id.column(name).to_pylist() for name in ("partition.run_id", "size_bytes_sum"))
        for run_id, size in zip(*columns, strict=True):
            sizes[run_id] += size
    return dict(sizes)


def _figures(run: LedgerRow, state_bytes: int | None) -> RunFigures:
    assert run.slice_start is not None and run.slice_end is not None, "runs have slices"
    own_values: dict[str, Any] = {
        "closes": run.kind == RowKind.CLOSE,
        "state_bytes": state_bytes,
        "watermark": run.watermark_out,
    }
    others = [field.name for field in fields(RunFigures) if field.name not in own_values]
    return RunFigures(**{name: getattr(run, name) for name in others}, **own_values)
