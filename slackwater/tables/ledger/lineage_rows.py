"""Makes the ledger rows that are no runs: fork, publish, restore, erase, drop. They say which runs are live,
or which rows are erased. Pure functions from rows to rows; `LedgerWriter.commit` gives them their seqs.

The runs that are live on a branch, in slice order, make up what its readers see. A backfill of the slice of
run 2 forks behind run 1, runs the slice again on the branch, and publishes the branch. If the new run leaves
the same state as run 2 did (they converged), run 3 stays live behind it:

    seq   row             live
    1-3   runs on main    1 2 3
    4     fork            1          of row 3, up to its owner 1
    5     run on branch   1 5
    6     publish         1 5 3      with resume_from=3, otherwise 1 5
"""

import re
import uuid
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from typing import Any

from slackwater.errors import UsageError
from slackwater.tables.ledger.erasures import ErasedRows, Remainders
from slackwater.tables.ledger.ledger_files import revised_row
from slackwater.tables.ledger.rows import MAIN, Branch, Input, LedgerRow, RowKind
from slackwater.tables.ledger.spans import Spans, concatenation, since, up_to

_REDRIVE = "redrive"
_REBUILD = "rebuild"
_RESULTS = "results"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class BadBranchName(UsageError):
    """A name that no branch may have."""


def check_branch_name(name: str) -> None:
    """Raise BadBranchName for `main`, a number (which would read as a seq), or other characters."""
    if name == MAIN or not _NAME.fullmatch(name):
        raise BadBranchName(
            f"{name!r} can't name a branch: a letter, then letters, digits, '_' or '-', all small, 63 at "
            f"most, and not {MAIN!r}.",
            branch=name,
        )


def fork_row(branch: str, of: LedgerRow, owner: LedgerRow | None, start: datetime) -> LedgerRow:
    """The row that makes a branch with the live runs of the row `of` up to `owner`, whose snapshot the branch
    continues.

    Args:
        branch: the name. Commit the row with the head of that name as the parent: None, or the row that
            dropped an earlier branch.
        of: the row whose live runs the branch takes, usually main's head. The row records `owner` as its
            parent, or `of` without an owner.
        owner: a run that is live in `of`; None forks at the start of the lineage, from nothing.
        start: where the lineage begins (`LedgerReader.start_of`). The slice of the row is [start, end of the
            owner's slice).
    """
    check_branch_name(branch)
    live = () if owner is None else up_to(of.live, owner.seq)
    return replace(_row(RowKind.FORK, owner or of, live, owner, start), branch=branch)


def publish_row(
    main: LedgerRow,
    branch: Branch,
    owner: LedgerRow,
    restated_range: tuple[datetime, datetime],
    resume_from: int | None = None,
    *,
    verdict: str | None = None,
    redrives: bool = False,
) -> LedgerRow:
    """The row that makes `branch` live: its runs, then main's runs from `resume_from` on, if they converged.

    Args:
        main: main's head; the parent to commit it on.
        branch: the branch; commit the row with `other_heads={branch.name: branch.head.seq}`, so that the
            commit fails if the branch moves meanwhile.
        owner: the run whose snapshot is the current one afterwards: main's last live run when it resumes,
            else the branch's.
        restated_range: [start, end) of the slices that the branch has run.
        resume_from: seq of the first of main's live runs that stay live behind the branch; None when the
            branch replaces all of them.
        verdict: the worst one of the branch's runs.
        redrives: whether the restatement was made because rows were given another arrival.
    """
    start, end = restated_range
    live = concatenation(branch.head.live, () if resume_from is None else since(main.live, resume_from))
    return replace(
        _row(RowKind.PUBLISH, main, live, owner, start),
        run_id=_run_id(f"{_REDRIVE if redrives else 'publish'}-{branch.name}"),
        slice_end=end,
        verdict=verdict,
    )


def restore_row(main: LedgerRow, to: LedgerRow, owner: LedgerRow | None, start: datetime) -> LedgerRow:
    """The row that makes live exactly the runs that were live after the row `to`. `main` is main's head, the
    parent to commit it on; `owner` the run whose snapshot is then the current one; `start` the lineage's.
    """
    return _row(RowKind.RESTORE, main, to.live, owner, start)


def rebuild_row(
    main: LedgerRow, owner: LedgerRow | None, start: datetime, *, of_results: bool = False
) -> LedgerRow:
    """A publish row with the same live runs: rolling it forward compares `published` with all live panes.
    Arguments as for `restore_row`; `of_results`: because `results` and `having` are declared otherwise.
    """
    row = _row(RowKind.PUBLISH, main, main.live, owner, start)
    run_id, verdict = (_RESULTS, "results anew") if of_results else (_REBUILD, "rebuilt from panes")
    return replace(row, run_id=_run_id(run_id), verdict=verdict)


def is_rebuild(row: LedgerRow) -> bool:
    return row.kind == RowKind.PUBLISH and row.run_id.startswith((f"{_REBUILD}-", f"{_RESULTS}-"))


def erase_row(
    main: LedgerRow,
    owner: LedgerRow | None,
    start: datetime,
    inputs: tuple[Input, ...],
    erased_rows: tuple[ErasedRows, ...],
    *,
    reason: str,
) -> LedgerRow:
    """The row that erases rows; the same runs stay live. `inputs` are the versions of the source that have
    deleted these rows.
    """
    if owner is not None:
        owner = revised_row(owner, Remainders.after([erased_rows]))
    row = _row(RowKind.ERASE, main, main.live, owner, start)
    return replace(row, inputs=inputs, erased=erased_rows, verdict=f"erased: {reason}")


def drop_row(branch: Branch) -> LedgerRow:
    """The row that ends `branch`: it has no live runs afterwards. Commit it on the branch's head."""
    return replace(_row(RowKind.DROP, branch.head, (), None, None), branch=branch.name)


def cause_of(row: LedgerRow) -> str | None:
    """The `cause` of a row's `corrections`; None for a run, where each firing has its own, and for rows that
    change none.
    """
    if row.kind == RowKind.PUBLISH:
        causes = (cause for cause in (_REDRIVE, _RESULTS) if row.run_id.startswith(f"{cause}-"))
        return next(causes, "restatement")
    return "restore" if row.kind == RowKind.RESTORE else None


def _row(
    kind: RowKind, parent: LedgerRow, live: Spans, owner: LedgerRow | None, start: datetime | None
) -> LedgerRow:
    """A row of main behind `parent`, after which the runs `live` are, and the snapshot is that of `owner`.
    Its slice is what the lineage covers from `start` on.
    """
    return LedgerRow(
        seq=0,
        run_id=_run_id(kind),
        kind=kind,
        branch=MAIN,
        parent_seq=parent.seq,
        live=live,
        slice_start=start,
        slice_end=start if owner is None else owner.slice_end,
        version=version("slackwater"),
        **_as_of(owner),
    )


def _run_id(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:16]}"


def _as_of(owner: LedgerRow | None) -> dict[str, Any]:
    """The columns of the run `owner` that describe its snapshot, for a row that makes it the current one. Not
    its counts: sums over the ledger would count its rows twice.
    """
    if owner is None:
        return {}
    names = ("config_hash", "code_hash", "watermark_out", "windows_open", "timers_pending", "state_hash")
    return {name: getattr(owner, name) for name in names}
