"""The kinds of rows in the ledger, and what each says."""

from enum import StrEnum


class RowKind(StrEnum):
    """What a row of `runs` is.

    Attributes:
        RUN, CLOSE: a slice, and the end of a lineage. They have panes and a snapshot, and continue their
            branch; the other kinds have none.
        PUBLISH: the runs of a branch become live on main, or `published` was corrected.
        RESTORE: the runs are live on main that were live after an earlier row.
        FORK, DROP: a branch begins; a branch is given up.
        ERASE: rows are taken out of the tables and count as never written. The row's inputs are the versions
            of the source that deleted these rows there: readers of the source take the rows as never written,
            too.
    """

    RUN = "run"
    CLOSE = "close"
    PUBLISH = "publish"
    RESTORE = "restore"
    FORK = "fork"
    DROP = "drop"
    ERASE = "erase"


# What a row is called, where its kind is no noun.
_NOUNS = {RowKind.PUBLISH: "publication", RowKind.ERASE: "erasure"}


def noun_of(kind: str) -> str:
    return _NOUNS.get(RowKind(kind), kind)


RUN_KINDS = frozenset({RowKind.RUN, RowKind.CLOSE})
