"""The figures of a lineage run by run, in slice order, from the ledger and the logs of snapshot tables; the
results of every check over time; and how far each source partition was at the end of each run. The partition
that is furthest behind holds the watermark back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.ledger.spans import seqs_of, spans_of
from slackwater.tables.schemas import SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables

if TYPE_CHECKING:
    from slackwater.inspection.sql.views import LineageViews

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


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check of one run: whether it held, what it saw, and how many rows broke it, of how many; None where
    it does not count.
    """

    passed: bool
    observed: str | None
    unexpected: int | None
    checked: int | None


@dataclass(frozen=True, kw_only=True)
class CheckSeries:
    """One check over runs: the expectation, or the invariant that is always checked; what a failure does
    (reject, warn or note); and a result for each run, None for a run that did not have it.
    """

    title: str
    severity: str
    results: Sequence[CheckResult | None]

    @property
    def failures(self) -> list[int]:
        return [
            place for place, result in enumerate(self.results) if result is not None and not result.passed
        ]

    @property
    def newest(self) -> CheckResult | None:
        return next((result for result in reversed(self.results) if result is not None), None)


def check_series(views: "LineageViews", runs: Sequence[RunFigures]) -> list[CheckSeries]:
    """The checks of `runs`, in the newest one's order; those that it no longer has come last."""
    if not runs:
        return []
    rows = views.query(
        "SELECT run_id, expectation, severity, passed, observed, unexpected, checked FROM validations "
        "WHERE list_contains(?, run_id)",
        [[run.run_id for run in runs]],
    ).to_pylist()
    place_by_run_id = {run.run_id: place for place, run in enumerate(runs)}
    rows.sort(key=lambda row: -place_by_run_id[row["run_id"]])
    severities: dict[str, str] = {}
    results: dict[str, list[CheckResult | None]] = {}
    for row in rows:
        title = row["expectation"]
        severities.setdefault(title, row["severity"])
        results.setdefault(title, [None] * len(runs))[place_by_run_id[row["run_id"]]] = CheckResult(
            passed=bool(row["passed"]),
            observed=row["observed"],
            unexpected=row["unexpected"],
            checked=row["checked"],
        )
    return [
        CheckSeries(title=title, severity=severities[title], results=series)
        for title, series in results.items()
    ]


# Where the source has no column of source partitions, all its rows are of one without a name.
_ALL_ROWS = ""


@dataclass(frozen=True)
class PartitionProgress:
    """A source partition at the end of a run: its greatest event time, and whether it has been silent for so
    long that the watermark does not wait for it.
    """

    max_event_time: datetime
    is_idle: bool


@dataclass(frozen=True)
class PartitionSeries:
    """Source partitions, run by run.

    Attributes:
        by_partition: source partition → one progress for each run, None where it had no event yet or the
            snapshot is gone. Partitions that held the watermark back most often come first.
        holding_back: for each run the active partition that is furthest behind; None where there is none.
    """

    by_partition: Mapping[str, Sequence[PartitionProgress | None]]
    holding_back: Sequence[str | None]


def partition_series(views: "LineageViews", runs: Sequence[RunFigures]) -> PartitionSeries:
    if not runs:
        return PartitionSeries({}, [])
    rows = views.query(
        "SELECT run_id, source_partition, max_event_time, idle FROM source_progress "
        "WHERE clock IS NULL AND max_event_time IS NOT NULL AND list_contains(?, run_id)",
        [[run.run_id for run in runs]],
    )
    place_by_run_id = {run.run_id: place for place, run in enumerate(runs)}
    by_partition: dict[str, list[PartitionProgress | None]] = {}
    for row in rows.to_pylist():
        progress = by_partition.setdefault(row["source_partition"] or _ALL_ROWS, [None] * len(runs))
        progress[place_by_run_id[row["run_id"]]] = PartitionProgress(row["max_event_time"], bool(row["idle"]))
    holding_back = [_slowest(by_partition, place) for place in range(len(runs))]
    times = Counter(name for name in holding_back if name is not None)
    names = sorted(by_partition, key=lambda name: (-times[name], name))
    return PartitionSeries({name: by_partition[name] for name in names}, holding_back)


def _slowest(by_partition: Mapping[str, Sequence[PartitionProgress | None]], place: int) -> str | None:
    active = [
        (progress.max_event_time, name)
        for name, series in by_partition.items()
        if (progress := series[place]) is not None and not progress.is_idle
    ]
    return min(active)[1] if active else None
