"""The refusal of every run behind a final watermark. Knows one ledger row: the one that owns the snapshot."""

from slackwater.jobs.errors import UsageError
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import LedgerRow


class LineageClosed(UsageError):
    """The lineage was closed: nothing can be run behind its final watermark."""


def refuse_closed(pipeline: str, owner: LedgerRow | None) -> None:
    """Refuse to run anything behind a close, also not again.

    Raises:
        LineageClosed: with the command that reopens it.
    """
    if owner is not None and owner.kind == RowKind.CLOSE:
        raise LineageClosed(
            f"{pipeline}: the lineage was closed by row {owner.seq}. Reopen it with `slackwater state "
            f"restore {pipeline} "
            f"{owner.parent_seq}`, which takes back what the close made fire.",
            seq=owner.seq,
        )
