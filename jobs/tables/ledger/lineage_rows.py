"""Ledger rows that run nothing and only say what is live, which source counts as read, or which rows are
gone: fork, publish, restore, adopt, erase, drop.

Pure functions from rows to rows; `LedgerWriter.commit` binds them. Whether a row may be written is the
protocol's business.
"""

import re
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from slackwater.jobs.errors import UsageError
from slackwater.jobs.tables.ledger.erasures import Erased, Remainders
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN, Branch, Input, LedgerRow
from slackwater.jobs.tables.ledger.spans import seqs_of, since, spans_of, up_to

_REDRIVE = "redrive"
_REBUILD = "rebuild"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class BadBranchName(UsageError):
    """A name that no branch may have."""


def check_branch_name(name: str) -> None:
    """Refuse a name that no branch beside main may have.

    Raises:
        BadBranchName: it is `main`, a number (which would read as a seq), or has other characters.
    """
    if name == MAIN or not _NAME.fullmatch(name):
        raise BadBranchName(
            f"{name!r} can't name a branch: a letter, then letters, digits, '_' or '-', all small, 63 at "
            f"most, and not {MAIN!r}.",
            branch=name,
        )


def fork_row(
    branch: str, of: LedgerRow, owner: LedgerRow | None, start: datetime, version: str | None = None
) -> LedgerRow:
    """The row that makes `branch`: live is what `of` has live up to `owner`, whose snapshot the branch
    continues.

    Args:
        branch: its name; commit it with the head of that name as the parent (None, or the row that dropped an
            earlier one).
        of: the row whose live runs it takes, usually main's head. Recorded as the parent is `owner`, else
            `of`.
        owner: a run that is live in `of`; None forks at the start of the lineage, from nothing.
        start: where the lineage begins (`LedgerReader.start_of`). The slice of the row is [start, end of the
            owner's slice).
    """
    check_branch_name(branch)
    return LedgerRow(
        seq=0,
        run_id=_run_id("fork"),
        kind=RowKind.FORK,
        branch=branch,
        parent_seq=(owner or of).seq,
        live=() if owner is None else up_to(of.live, owner.seq),
        slice_start=start,
        slice_end=start if owner is None else owner.slice_end,
        version=version,
        **_as_of(owner),
    )


def publish_row(
    main: LedgerRow,
    branch: Branch,
    owner: LedgerRow,
    restated: tuple[datetime, datetime],
    resume_from: int | None = None,
    verdict: str | None = None,
    version: str | None = None,
    redrives: bool = False,
) -> LedgerRow:
    """The row that makes `branch` live: its runs, and behind them main's runs from `resume_from` on, if they
    converged.

    Args:
        main: main's head; the parent to commit it on.
        branch: the branch; commit it with `beside={branch.name: branch.head.seq}`, so that its tip is not
            dropped meanwhile.
        owner: the run that owns the snapshot afterwards: main's last live run when it resumes, else the
            branch's.
        restated: [start, end) of the slices that the branch has run.
        resume_from: seq of the first of main's live runs that stay live behind the branch; None when the
            branch replaces all of them.
        verdict: of the branch's runs, the worst.
        redrives: whether rows were given another arrival, and this is why; `cause_of` says so.
    """
    return LedgerRow(
        seq=0,
        run_id=_run_id(f"{_REDRIVE if redrives else 'publish'}-{branch.name}"),
        kind=RowKind.PUBLISH,
        branch=MAIN,
        parent_seq=main.seq,
        live=spans_of(
            seqs_of(branch.head.live)
            + (() if resume_from is None else seqs_of(since(main.live, resume_from)))
        ),
        slice_start=restated[0],
        slice_end=restated[1],
        verdict=verdict,
        version=version,
        **_as_of(owner),
    )


def restore_row(
    main: LedgerRow, to: LedgerRow, owner: LedgerRow | None, start: datetime, version: str | None = None
) -> LedgerRow:
    """The row that makes live again what was live after the row `to`, and nothing else.

    Args:
        main: main's head; the parent to commit it on.
        owner: the run that owns the snapshot afterwards.
        start: where the lineage begins.
    """
    return LedgerRow(
        seq=0,
        run_id=_run_id("restore"),
        kind=RowKind.RESTORE,
        branch=MAIN,
        parent_seq=main.seq,
        live=to.live,
        slice_start=start,
        slice_end=start if owner is None else owner.slice_end,
        version=version,
        **_as_of(owner),
    )


def rebuild_row(
    main: LedgerRow, owner: LedgerRow | None, start: datetime, version: str | None = None
) -> LedgerRow:
    """The row that makes live what is live already, so that `published` is compared with all of its panes.

    Args:
        main: main's head; the parent to commit it on.
        owner: the run that owns the snapshot, before and afterwards.
        start: where the lineage begins.
    """
    return LedgerRow(
        seq=0,
        run_id=_run_id(_REBUILD),
        kind=RowKind.PUBLISH,
        branch=MAIN,
        parent_seq=main.seq,
        live=main.live,
        slice_start=start,
        slice_end=start if owner is None else owner.slice_end,
        verdict="rebuilt from panes",
        version=version,
        **_as_of(owner),
    )


def is_rebuild(row: LedgerRow) -> bool:
    """Whether a row changes nothing of what is live, and has `published` compared with all of its panes."""
    return row.kind == RowKind.PUBLISH and row.run_id.startswith(f"{_REBUILD}-")


def adopt_row(
    main: LedgerRow,
    owner: LedgerRow | None,
    start: datetime,
    same: Input,
    *,
    verdict: str,
    version: str | None = None,
) -> LedgerRow:
    """The row that declares `same` the source that main's live runs have read; what is live stays. `verdict`
    says what was compared.
    """
    return replace(_unmoved(RowKind.ADOPT, main, owner, start, version), inputs=(same,), verdict=verdict)


def erase_row(
    main: LedgerRow,
    owner: LedgerRow | None,
    start: datetime,
    inputs: tuple[Input, ...],
    erased: tuple[Erased, ...],
    *,
    reason: str,
    version: str | None = None,
) -> LedgerRow:
    """The row that takes rows out of the tables; what is live stays. `inputs` are the versions of the source
    that have deleted theirs.
    """
    remainders = Remainders.after([erased])
    row = replace(
        _unmoved(RowKind.ERASE, main, owner, start, version),
        inputs=inputs,
        erased=erased,
        verdict=f"erased: {reason}",
    )
    if owner is None:
        return row
    return replace(
        row,
        state_hash=remainders.state_hash(owner.run_id, owner.state_hash),
        windows_open=owner.windows_open - remainders.rows(owner.run_id, "window_state"),
        timers_pending=owner.timers_pending - remainders.rows(owner.run_id, "timers"),
    )


def drop_row(branch: Branch, version: str | None = None) -> LedgerRow:
    """The row that ends `branch`: nothing of it is live afterwards. Commit it on the branch's head."""
    return LedgerRow(
        seq=0,
        run_id=_run_id("drop"),
        kind=RowKind.DROP,
        branch=branch.name,
        parent_seq=branch.head.seq,
        live=(),
        version=version,
    )


def cause_of(row: LedgerRow) -> str | None:
    """Why a row that runs nothing changes what is published, as `corrections` has it; None of a run, where
    each firing says why.
    """
    if row.kind == RowKind.PUBLISH:
        return "redrive" if row.run_id.startswith(f"{_REDRIVE}-") else "restatement"
    return "restore" if row.kind == RowKind.RESTORE else None


def _unmoved(
    kind: str, main: LedgerRow, owner: LedgerRow | None, start: datetime, version: str | None
) -> LedgerRow:
    """A row behind main's head `main` after which the same is live."""
    return LedgerRow(
        seq=0,
        run_id=_run_id(kind),
        kind=kind,
        branch=MAIN,
        parent_seq=main.seq,
        live=main.live,
        slice_start=start,
        slice_end=start if owner is None else owner.slice_end,
        version=version,
        **_as_of(owner),
    )


def _run_id(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:16]}"


def _as_of(owner: LedgerRow | None) -> dict[str, Any]:
    """What the snapshot says, whose row makes it current: not what a run did, so that sums over the ledger
    count no row twice.
    """
    if owner is None:
        return {}
    names = ("config_hash", "code_hash", "watermark_out", "windows_open", "timers_pending", "state_hash")
    return {name: getattr(owner, name) for name in names}
