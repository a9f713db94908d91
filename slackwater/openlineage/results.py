"""What a verb has done, as its events tell it: the runs, what became live, and the checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from slackwater.runs.staging.staged_slice import StagedSlice
from slackwater.runs.staging.validation import Check
from slackwater.tables.ledger.rows import LedgerRow


@dataclass(frozen=True)
class VerbResults:
    """What a verb has done so far.

    Attributes:
        runs: the runs that it has replayed, in slice order.
        publications: the rows of main that it has committed.
        checks: those of all slices that it has validated, in slice order.
    """

    runs: Sequence[LedgerRow] = ()
    publications: Sequence[LedgerRow] = ()
    checks: Sequence[Check] = ()

    @classmethod
    def of_slices(cls, slices: Sequence[StagedSlice], publications: Sequence[LedgerRow]) -> Self:
        """The results of a verb that has replayed `slices`."""
        return cls([item.row for item in slices], publications, [c for item in slices for c in item.checks])
