"""The two ends of a run: the parent that a slice continues, unless the lineage was closed, and the staged
slice that publish may commit, with the report on it: a line of counts, a note on elements that no result
holds, and, where validation rejected it, an error with the failing values and the next step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slackwater.engine.source.coverage import ReadRange
from slackwater.errors import RejectedError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.readable import range_text
from slackwater.runs.staging import validation
from slackwater.tables.ledger.attempts import Attempt
from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.windowing.times import to_ms

# The verdict of a run that a person has accepted begins so; the reason follows.
ACCEPTANCE = "accepted: "


@dataclass(frozen=True)
class Parent:
    """The run that a slice continues: the head of the branch, or the slice staged before it. Both rows are
    None at the start of a lineage.

    Attributes:
        row: committed or only staged.
        owner: the row that owns the snapshot; another than `row` after a fork, publish or restore.
        start_ms: the start of the lineage.
        newer_reads: table → the slices that live runs have read at newer versions of this source than the
            owner.
    """

    row: LedgerRow | None
    owner: LedgerRow | None
    start_ms: int | None
    newer_reads: Mapping[str, tuple[ReadRange, ...]] = field(default_factory=dict)

    @property
    def end_ms(self) -> int | None:
        return None if self.owner is None or self.owner.slice_end is None else to_ms(self.owner.slice_end)


@dataclass(frozen=True)
class StagedSlice:
    """A slice that was replayed and validated, ready to be committed by publish. `row` has no seq yet; for
    `memory_mb` and `state_s` see `Outcome`.
    """

    attempt: Attempt
    row: LedgerRow
    checks: tuple[validation.Check, ...]
    memory_mb: int = 0
    state_s: float = 0.0

    @property
    def verdict(self) -> str:
        return self.row.verdict or validation.FAILED

    @property
    def is_accepted(self) -> bool:
        return self.verdict.startswith(ACCEPTANCE)


def with_acceptance(row: LedgerRow, reason: str | None) -> LedgerRow:
    """`row` with `reason` as the verdict, where validation has rejected it and there is one."""
    if row.verdict != validation.FAILED or reason is None:
        return row
    return replace(row, verdict=f"{ACCEPTANCE}{reason}")


class LineageClosed(UsageError):
    """The lineage was closed: nothing can be run behind its final watermark."""


def refuse_closed(pipeline: str, owner: LedgerRow | None) -> None:
    """Refuse a new or repeated slice behind a close, with the command that reopens the lineage."""
    if owner is not None and owner.kind == RowKind.CLOSE:
        raise LineageClosed(
            f"{pipeline}: the lineage was closed by row {owner.seq}. Reopen it with `slackwater state "
            f"restore {pipeline} "
            f"{owner.parent_seq}`, which takes back what the close made fire.",
            seq=owner.seq,
        )


class SliceRejected(RejectedError):
    """Validation rejected a slice: it stays staged, and no reader sees it."""


def refuse_rejected(pipeline: Pipeline, staged_slice: StagedSlice) -> None:
    if staged_slice.verdict == validation.FAILED:
        raise SliceRejected(_reason(pipeline, staged_slice))


def lines_of(pipeline: Pipeline, staged_slice: StagedSlice) -> list[str]:
    lines = [_line_of_counts(pipeline, staged_slice.row)]
    never_fired = staged_slice.row.elements_never_fired
    if never_fired:
        lines.append(f"  note: {sentence_on_never_fired(never_fired)}")
    return lines


def sentence_on_never_fired(count: int) -> str:
    elements = "1 element is" if count == 1 else f"{count:,} elements are"
    return (
        f"{elements} in no result, because the trigger did not fire again before the window was cleaned up "
        "(elements_never_fired)"
    )


def _line_of_counts(pipeline: Pipeline, row: LedgerRow) -> str:
    """Rows read; windows fired, late rows, open windows, or rows of a function; for 80 columns."""
    seconds = sum(duration_s for phase, duration_s in row.phase_seconds.items() if phase != "session")
    counts = {
        "rows": row.rows_read,
        **(
            {"emitted": row.rows_emitted or 0}
            if pipeline.keyed_process is not None
            else {"fired": row.windows_fired, "refired": row.windows_refired, "late": row.rows_late}
        ),
        **({"side": row.side_rows or 0} if pipeline.side_columns else {}),
        **({"quarantined": row.rows_quarantined} if row.rows_quarantined else {}),
        **(
            {"timers": row.timers_pending}
            if pipeline.keyed_process is not None
            else {"open": row.windows_open}
        ),
    }
    words = (f"{name} {count:,}" for name, count in counts.items())
    slice_text = range_text(row.slice_start, row.slice_end, zone=pipeline.zone)
    by_spark = "  on Spark" if row.place == "spark" else ""
    return f"{slice_text}  {'  '.join(words)}  {seconds:.2f} s{by_spark}"


def _failure(check: validation.Check) -> str:
    """A failed check: of a column with the values that break it, of a run with what was observed."""
    if check.column_name is None:
        return f"{check.expectation}: {check.observed}"
    samples = f", e.g. {check.sample_json}" if check.sample_json and "e.g." not in check.observed else ""
    return (
        f"{check.expectation}: {check.unexpected} of {check.checked} values, observed "
        f"{check.observed}{samples}"
    )


def failures_text(staged_slice: StagedSlice) -> str:
    return "".join(
        f"\n  {_failure(check)}"
        for check in staged_slice.checks
        if not check.passed and check.severity == "reject"
    )


def _reason(pipeline: Pipeline, staged_slice: StagedSlice) -> str:
    row = staged_slice.row
    slice_text = range_text(row.slice_start, row.slice_end, zone=pipeline.zone)
    return (
        f"{pipeline.name}: the slice of {slice_text} was rejected by validation; nothing was "
        f"moved.{failures_text(staged_slice)}\nIts panes stand in the table `panes` under run_id "
        f"{row.run_id}. Mend the source or the expectation and run again, or publish it all the same with "
        f"`slackwater publish {pipeline.name} {row.run_id} --accept REASON`."
    )
