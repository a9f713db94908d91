"""Refuses runs behind the close of a lineage, whose final watermark has fired every window. Reads one ledger
row: the one that owns the snapshot to be continued.
"""

from slackwater.errors import UsageError
from slackwater.tables.ledger.row_kinds import RowKind
from slackwater.tables.ledger.rows import LedgerRow


class LineageClosed(UsageError):
    """The lineage was closed: nothing can be run behind its final watermark."""


def refuse_closed(pipeline: str, owner: LedgerRow | None) -> None:
    """Refuse a slice that would continue a close, whether it is new or a repetition. The error names the
    command that reopens the lineage.
    """
    if owner is not None and owner.kind == RowKind.CLOSE:
        raise LineageClosed(
            f"{pipeline}: the lineage was closed by row {owner.seq}. Reopen it with `slackwater state "
            f"restore {pipeline} "
            f"{owner.parent_seq}`, which takes back what the close made fire.",
            seq=owner.seq,
        )
