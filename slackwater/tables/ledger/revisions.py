"""What later rows of a ledger say of earlier ones: which rows erasures have left of a run, and which tables a
run counts as having read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from slackwater.tables.ledger.erasures import Remainders
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.ledger.spans import seqs_of

# The columns in which a row may count otherwise than it was written.
REVISED_COLUMNS = frozenset(
    {"state_hash", "output_hash", "files", "windows_open", "timers_pending", "inputs"}
)


@dataclass(frozen=True)
class Revisions:
    """The erasures and adoptions of a ledger, for rows that are read from it.

    Attributes:
        remainders: what erasures have left of runs.
        adoptions: the adopt rows, oldest first, see `RowKind.ADOPT`.
    """

    remainders: Remainders = field(default_factory=Remainders)
    adoptions: Sequence[LedgerRow] = ()

    def __bool__(self) -> bool:
        """Whether any row may count otherwise than it was written."""
        return bool(self.remainders.of_runs or self.adoptions)

    def revise(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """`rows` as they count: hashes, files and counts of a run of which rows were erased are those of the
        rows that are left; a run that was live in an adopt row has read the table that this row declares to
        be the same as its source, at the version declared.
        """
        revised_rows = [self._without_erased(row) for row in rows]
        for adoption in self.adoptions:
            live_seqs = set(seqs_of(adoption.live))
            revised_rows = [
                row.with_inputs(_adopt_inputs(row.inputs, adoption)) if row.seq in live_seqs else row
                for row in revised_rows
            ]
        return revised_rows

    def _without_erased(self, row: LedgerRow) -> LedgerRow:
        if row.run_id not in self.remainders.of_runs:
            return row
        return replace(
            row,
            state_hash=self.remainders.state_hash(row.run_id, row.state_hash),
            output_hash=self.remainders.output_hash(row.run_id, row.output_hash),
            files=self.remainders.files(row.run_id, row.files),
            windows_open=row.windows_open - self.remainders.rows(row.run_id, "window_state"),
            timers_pending=row.timers_pending - self.remainders.rows(row.run_id, "timers"),
        )


def _adopt_inputs(inputs: Iterable[Input], adoption: LedgerRow) -> tuple[Input, ...]:
    """`inputs`, with the table id and version that `adoption` declares for the same table."""
    declared_inputs = {item.table: item for item in adoption.inputs}
    pairs = ((item, declared_inputs.get(item.table)) for item in inputs)
    return tuple(
        item
        if declared_input is None
        else replace(item, table_id=declared_input.table_id, version=declared_input.version)
        for item, declared_input in pairs
    )
