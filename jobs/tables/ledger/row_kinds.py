"""The kinds of rows in the ledger, and what each says."""

from enum import StrEnum


class RowKind(StrEnum):
    """What a row of `runs` is.

    Attributes:
        RUN, CLOSE: a slice, and the end of a lineage: they have panes and a snapshot, and continue their
            branch. The other kinds only say what is live.
        PUBLISH: a branch became main, or `published` was corrected.
        RESTORE: main is again what it was after an earlier row.
        FORK, DROP: a branch begins; it is given up.
        ADOPT: another table is declared the same as the source that the live runs have read: they count as
            having read its version.
        ERASE: rows are taken out of the tables: they count as never written from then on. Its inputs are the
            versions of the source that deleted theirs, which count as if these had never been there.
    """

    RUN = "run"
    CLOSE = "close"
    PUBLISH = "publish"
    RESTORE = "restore"
    FORK = "fork"
    DROP = "drop"
    ADOPT = "adopt"
    ERASE = "erase"


RUN_KINDS = frozenset({RowKind.RUN, RowKind.CLOSE})
