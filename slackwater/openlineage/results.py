"""The results of a verb that its events report: runs, publications and checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from slackwater.runs.staging.staged_slice import StagedSlice
from slackwater.runs.staging.validation import Check
from slackwater.tables.ledger.rows import LedgerRow


@dataclass(frozen=True)
class VerbResults:
    """The results of a verb so far.

    Attributes:
        runs: the runs that it has replayed, in slice order.
        publications: the rows of main that it has committed.
        checks: the checks of all slices that it has validated, in slice order.
    """

    runs: Sequence[LedgerRow] = ()
    publications: Sequence[LedgerRow] = ()
    checks: Sequence[Check] = ()

    @classmethod
    def from_slices(cls, slices: Sequence[StagedSlice], publications: Sequence[LedgerRow]) -> Self:
        return cls([item.row for item in slices], publications, [c for item in slices for c in item.checks])
