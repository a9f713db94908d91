"""The account of one run: where the rows that it read went, what became of the windows that were open before
it, and by which causes it changed published rows. Each side of an account sums up to the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slackwater.runs.publishing.change_summary import change_summaries
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.warehouse import Tables


class AccountPart(NamedTuple):
    """A part of an account: a column of `runs`, or "windows_before", and how many rows or windows."""

    name: str
    amount: int


@dataclass(frozen=True)
class Account:
    sources: Sequence[AccountPart]
    outcomes: Sequence[AccountPart]

    @property
    def total(self) -> int:
        return sum(part.amount for part in self.sources)

    @property
    def difference(self) -> int:
        """What came in and is not accounted for; 0 where the account is right."""
        return self.total - sum(part.amount for part in self.outcomes)


def rows_account(run: LedgerRow) -> Account:
    names = ["rows_accepted", "rows_late", "rows_unassigned", "rows_quarantined", "rows_filtered"]
    names += [] if run.rows_duplicate is None else ["rows_duplicate"]
    return Account([AccountPart("rows_read", run.rows_read)], _parts(run, names))


def windows_account(run: LedgerRow, before: LedgerRow | None) -> Account:
    """What became of the windows open before a run and opened by it. `before`: the continued run, if any."""
    return Account(
        [
            AccountPart("windows_before", 0 if before is None else before.windows_open),
            AccountPart("windows_opened", run.windows_opened),
        ],
        _parts(run, ("windows_open", "windows_merged", "windows_cleaned")),
    )


def _parts(run: LedgerRow, names: Sequence[str]) -> list[AccountPart]:
    return [AccountPart(name, getattr(run, name)) for name in names]


def run_before(tables: Tables, row: LedgerRow) -> LedgerRow | None:
    """The run before a run in its branch's slice order; None for the first and for a row that is no run."""
    if row.kind not in RUN_KINDS:
        return None
    seqs = seqs_of(row.live)
    place = seqs.index(row.seq) if row.seq in seqs else len(seqs)
    return tables.ledger.row(seqs[place - 1]) if place else None


def run_after(tables: Tables, row: LedgerRow, head: LedgerRow | None) -> int | None:
    """The seq of the live run after a run in slice order; None for the last or a run that is not live."""
    seqs = () if head is None else seqs_of(head.live)
    place = seqs.index(row.seq) + 1 if row.seq in seqs else len(seqs)
    return seqs[place] if place < len(seqs) else None


def corrections_by_cause(tables: Tables, seq: int) -> Mapping[str, Mapping[str, int]]:
    """Cause → op → how many published rows the row `seq` of the ledger has changed so."""
    [summary] = change_summaries(tables, [tables.ledger.row(seq)]).values()
    by_cause: dict[str, dict[str, int]] = {}
    for op, cause in sorted(summary.rows, key=lambda kind: kind[::-1]):
        by_cause.setdefault(cause, {})[op] = summary.rows[op, cause]
    return by_cause
