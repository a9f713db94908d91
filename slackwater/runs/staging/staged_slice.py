"""The two ends of a run: the parent that a slice continues, unless the lineage was closed, and the staged
slice that publish may commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slackwater.engine.source.coverage import ReadRange
from slackwater.errors import UsageError
from slackwater.runs.staging import validation
from slackwater.tables.ledger.attempts import Attempt
from slackwater.tables.ledger.row_kinds import RowKind
from slackwater.tables.ledger.rows import LedgerRow
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
