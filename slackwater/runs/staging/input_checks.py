"""Judges what a pipeline expects of its input: how many rows a run has read, which shares of them came too
late or went to quarantine, and how old the newest event is; and warns of input that looks as if a column were
read wrongly from the first row to the last: each row is well-formed, so no check of single rows notices it.

Looks at the counts of the run, at the ledger rows of the runs before it, at the source's progress, and at the
reasons of rows in `quarantine`. Bounds from the history are computed only where some are declared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean, median
from typing import Final

from slackwater.engine.replaying.replay import Outcome
from slackwater.engine.rows.progress import Progress
from slackwater.engine.source.scan import SliceScan
from slackwater.pipelines import Pipeline
from slackwater.pipelines.expectations import Bound, HistoryBound, InputExpectation
from slackwater.runs.staging.slices import iso
from slackwater.runs.staging.staged_slice import Parent
from slackwater.runs.staging.validation import Check, own_check, warning
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing.times import EPOCH, MILLISECOND, duration_ms, to_datetime

# A bound from the history counts from so many earlier runs on: of fewer a median says nothing.
LEAST_RUNS: Final = 3


@dataclass(frozen=True)
class InputCounts:
    """The counts of one run: rows read (after `where`), late and quarantined ones; the slice's length."""

    rows: int
    late_rows: int
    quarantined_rows: int
    length_ms: int

    @classmethod
    def from_run(cls, row: LedgerRow) -> "InputCounts":
        assert row.slice_start is not None and row.slice_end is not None
        rows = row.rows_read - row.rows_filtered
        return cls(rows, row.rows_late, row.rows_quarantined, duration_ms(row.slice_end - row.slice_start))

    def part(self, kind: str) -> int:
        return self.late_rows if kind == "late_share" else self.quarantined_rows

    def value(self, kind: str, length_ms: int) -> float | None:
        """What an expectation of this kind looks at: a share (None without rows), or rows of `length_ms`."""
        if kind == "rows":
            return self.rows * length_ms / self.length_ms
        return self.part(kind) / self.rows if self.rows else None


def check_input(
    pipeline: Pipeline,
    ledger: LedgerReader,
    parent: Parent,
    *,
    scan: SliceScan,
    after: Progress,
    counts: Mapping[str, int],
) -> list[Check]:
    earlier_runs = _earlier_runs(pipeline.input_expectations, ledger, parent, scan.from_ms)
    run = InputCounts(
        rows=counts["rows_read"] - counts["rows_filtered"],
        late_rows=counts["rows_late"],
        quarantined_rows=counts["rows_quarantined"],
        length_ms=scan.to_ms - scan.from_ms,
    )
    return [
        _check_freshness(item, newest_events(pipeline, after), scan.to_ms)
        if item.kind == "freshness"
        else _check_counts(item, run, earlier_runs)
        for item in pipeline.input_expectations
    ]


def _earlier_runs(
    expectations: Sequence[InputExpectation], ledger: LedgerReader, parent: Parent, from_ms: int
) -> list[InputCounts]:
    """The runs before the slice, oldest first, as many as the bounds ask for. A parent that is only staged
    has no place in the ledger yet: then the runs of main count.
    """
    bounds = [bound for item in expectations for bound in (item.minimum, item.maximum)]
    count = max((bound.runs for bound in bounds if isinstance(bound, HistoryBound)), default=0)
    head = parent.row if parent.row is not None and parent.row.live else ledger.head() if count else None
    if not count or head is None:
        return []
    return [InputCounts.from_run(row) for row in ledger.last_runs(head, count, to_datetime(from_ms))]


def _check_counts(item: InputExpectation, run: InputCounts, earlier_runs: Sequence[InputCounts]) -> Check:
    """The check of a count or a share. It is met where there are no rows to have a share, and on a
    side whose bound needs more earlier runs than there are.
    """
    value = run.value(item.kind, run.length_ms)
    low, high = (_limit(item, bound, run, earlier_runs) for bound in (item.minimum, item.maximum))
    is_met = value is None or ((low is None or value >= low) and (high is None or value <= high))
    if item.kind == "rows":
        observed = f"{run.rows:,} rows"
    elif value is None:
        observed = "no rows"
    else:
        observed = f"{value:.4g}, {run.part(item.kind):,} of {run.rows:,} rows"
    limits = [
        f"{bound} is {'not known yet' if limit is None else f'{limit:,.4g}'}"
        for bound, limit in ((item.minimum, low), (item.maximum, high))
        if isinstance(bound, HistoryBound)
    ]
    return own_check(item.title, item.severity, is_met, "; ".join([observed, *limits]))


def _limit(
    item: InputExpectation, bound: Bound | None, run: InputCounts, earlier_runs: Sequence[InputCounts]
) -> float | None:
    if not isinstance(bound, HistoryBound):
        assert not isinstance(bound, timedelta)
        return bound
    values = [
        value
        for earlier in earlier_runs[-bound.runs :]
        if (value := earlier.value(item.kind, run.length_ms)) is not None
    ]
    if len(values) < min(LEAST_RUNS, bound.runs):
        return None
    return bound.times * (median(values) if bound.of == "median" else fmean(values))


def newest_events(pipeline: Pipeline, progress: Progress) -> dict[str, int | None]:
    """Each source by its title → the greatest event time seen, in milliseconds; None: no event yet."""
    event_times = dict(zip(progress.names, progress.per_partition.max_event_ms.tolist(), strict=True))
    if len(pipeline.sources) == 1:
        return {pipeline.sources[0].title: max(event_times.values(), default=None)}
    newest: dict[str, int | None] = {source.title: None for source in pipeline.sources}
    for partition, event_ms in event_times.items():
        title = partition.partition("/")[0]  # see `Naming`: a title has no slash
        before = newest[title]
        newest[title] = event_ms if before is None else max(before, event_ms)
    return newest


def _check_freshness(
    item: InputExpectation, newest_of_sources: Mapping[str, int | None], to_ms: int
) -> Check:
    assert isinstance(item.maximum, timedelta)
    title, newest_ms = min(
        newest_of_sources.items(), key=lambda pair: -math.inf if pair[1] is None else pair[1]
    )
    source_title = f" of {title}" if len(newest_of_sources) > 1 else ""
    if newest_ms is None:
        return own_check(item.title, item.severity, False, f"no event{source_title} yet")
    age = (to_ms - newest_ms) * MILLISECOND
    distance = f"{age} before" if newest_ms <= to_ms else f"{-age} after"
    observed = f"the newest event{source_title} is of {iso(newest_ms)}, {distance} the slice's end"
    return own_check(item.title, item.severity, age <= item.maximum, observed)


_YEAR_2000_MS = 946_684_800_000
_UNITS = (1_000, 1_000_000, 1_000_000_000)
_NEAR = (0.8, 1.02)  # an event time counts as near an arrival within this share of the time since 1970


def odd_input(outcome: Outcome, after: Progress, clock_ms: int) -> list[Check]:
    """The warnings of one run, whose slice ends at `clock_ms`."""
    counts = outcome.counts
    rows = counts["rows_read"] - counts["rows_filtered"]
    if rows and counts["rows_quarantined"] >= rows:
        return [_nothing_usable(rows, outcome.reason_counts)]
    if not counts["rows_accepted"]:
        return []
    sentence = other_unit(int(after.per_partition.max_event_ms.max(initial=0)), clock_ms)
    return [] if sentence is None else [warning("unit of event times", sentence)]


def _nothing_usable(rows: int, reason_counts: Mapping[str, int]) -> Check:
    rows_by_code = ", ".join(f"{code} {count:,}" for code, count in sorted(reason_counts.items()))
    return warning(
        "usable rows",
        f"all {rows:,} rows were quarantined: {rows_by_code}; the table `quarantine` has them",
    )


def other_unit(newest_ms: int, clock_ms: int) -> str | None:
    """The sentence that seconds or milliseconds were read as a smaller unit: the newest event time lies near
    1970, and its product with the ratio of two units lies near the arrivals. None where it is not so.
    """
    if newest_ms <= 0 or clock_ms < _YEAR_2000_MS:
        return None
    for factor in _UNITS:
        if _NEAR[0] <= newest_ms * factor / clock_ms <= _NEAR[1]:
            newest, product = (EPOCH + timedelta(milliseconds=ms) for ms in (newest_ms, newest_ms * factor))
            return (
                f"the newest event time is {newest:%Y-%m-%dT%H:%M:%SZ}, and {factor:,} times that is "
                f"{product:%Y-%m-%dT%H:%M:%SZ}, near the "
                "arrivals: the source seems to have read seconds or milliseconds as a smaller unit"
            )
    return None
