"""The range of a restatement: where its branch forks from main, how it is cut into slices, which of main's
runs lie behind it, and whether these may stay live (convergence). Pure functions on live runs.

    asked for                     [from - to)
    main     |-- run 1 --|-- run 2 --|-- run 3 --|-- run 4 --|
    range                [from ------------- to)     begins behind run 1, whose snapshot exists
    branch               |-- run 5 --|-- run 6 --| ...  goes on until it converges with main

The start moves back to the end of a run whose snapshot still exists, or to the start of the lineage: a
branch continues a snapshot. The end moves on to main's next boundary: only there can the branch's state be
compared with main's. If the branch has converged there, main's later runs need not be replayed:

    main     |-- run 1 --|-- run 2 --|-- run 3 --|-- run 4 --|
    branch               |-- run 5 --|
                                     the boundary: are the state hashes of runs 2 and 5 equal?
    live, if it has converged: 1 5 3 4

What a run emits follows from the state before it, its rows, its code and its settings. With equal states
at the boundary the later runs would come out as they did, if two more claims hold:

- The branch and the later runs have the same code and settings (`--until-converged` waives this).
- No later run has read a row that arrived before the boundary: the branch has read it too, and it would
  count twice.

Otherwise the branch replays main's next slice as well, and the question is asked again at its end.

Knows the ledger's rows, never the ledger.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slackwater.errors import UsageError
from slackwater.runs.staging.slices import Slice, end_of, iso, start_of
from slackwater.runs.staging.staged_slice import refuse_closed
from slackwater.tables.ledger.rows import LedgerRow

DIFFERENT_STATE = "the open windows differ"
OTHER_CODE = "main's later runs were made by other code or settings"


def why_not_converged(
    branch_runs: Sequence[LedgerRow],
    main_run: LedgerRow,
    later_runs: Sequence[LedgerRow],
    reads_again: Callable[[LedgerRow], str | None],
    *,
    whatever_the_code: bool = False,
) -> str | None:
    """Why main's `later_runs` can't stay live behind the branch; None where the branch has converged.

    Args:
        branch_runs: the branch's own runs, up to the boundary.
        main_run: main's run that ends at the same boundary.
        later_runs: main's live runs behind the boundary, at least one.
        reads_again: what a later run has read that the branch has read too, or None. It looks at the source,
            so it is asked last.
    """
    if branch_runs[-1].state_hash is None or branch_runs[-1].state_hash != main_run.state_hash:
        return DIFFERENT_STATE
    makers = {(row.config_hash, row.code_hash) for row in (*branch_runs, *later_runs)}
    if len(makers) > 1 and not whatever_the_code:
        return OTHER_CODE
    return next((reason for row in later_runs if (reason := reads_again(row)) is not None), None)


class NothingToRestate(UsageError):
    """The range has no slice that was run."""


@dataclass(frozen=True)
class Restatement:
    """Slices to run again: [from_ms, to_ms), both at boundaries of live slices. The branch continues the
    snapshot of `owner` (None: it begins the lineage anew). `adjustments`: sentences on how it differs from
    the requested range.
    """

    from_ms: int
    to_ms: int
    owner: LedgerRow | None
    adjustments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"[{iso(self.from_ms)}, {iso(self.to_ms)})"


def restate(
    pipeline: str,
    live: Sequence[LedgerRow],
    from_ms: int,
    to_ms: int,
    has_snapshot: Callable[[LedgerRow], bool],
) -> Restatement:
    """The range that restates [from_ms, to_ms), given main's live runs in slice order: from the last boundary
    that has a snapshot to the next boundary, or to where main ends. Raises UsageError, NothingToRestate,
    LineageClosed: with the command to run instead.
    """
    if from_ms >= to_ms:
        raise UsageError(
            f"{pipeline}: --from {iso(from_ms)} is not before --to {iso(to_ms)}; a range is half-open, "
            "[from, to)."
        )
    if not live:
        raise NothingToRestate(
            f"{pipeline} has no runs yet, so there is nothing to restate; run `slackwater run {pipeline} "
            "--to TIME`."
        )
    refuse_closed(pipeline, live[-1])
    lineage = Slice(start_of(live[0]), end_of(live[-1]))
    if from_ms >= lineage.to_ms:
        raise NothingToRestate(
            f"{pipeline}: the lineage ends at {iso(lineage.to_ms)}; [{iso(from_ms)}, {iso(to_ms)}) was never "
            f"run. Run it with `slackwater run {pipeline} --to {iso(to_ms)}`."
        )
    if to_ms <= lineage.from_ms:
        raise NothingToRestate(
            f"{pipeline}: the lineage begins at {iso(lineage.from_ms)}; nothing before that was ever run."
        )
    owner, fork_ms, run_without_snapshot = _fork_point(live, from_ms, has_snapshot)
    last_ms = end_of(live[bisect_left(live, min(to_ms, lineage.to_ms), key=end_of)])
    adjustments = _adjustments(Slice(from_ms, to_ms), Slice(fork_ms, last_ms), lineage, run_without_snapshot)
    return Restatement(fork_ms, last_ms, owner, tuple(adjustments))


def _fork_point(
    live: Sequence[LedgerRow], from_ms: int, has_snapshot: Callable[[LedgerRow], bool]
) -> tuple[LedgerRow | None, int, LedgerRow | None]:
    """The newest run up to `from_ms` that has its snapshot (None: the start of the lineage), its end, and
    the newest run between it and `from_ms`, whose snapshot is gone (None: there is none).
    """
    run_without_snapshot = None
    for place in reversed(range(bisect_right(live, from_ms, key=end_of))):
        row = live[place]
        if has_snapshot(row):
            return row, end_of(row), run_without_snapshot
        run_without_snapshot = run_without_snapshot or row
    return None, start_of(live[0]), run_without_snapshot


def _adjustments(
    requested_range: Slice, adjusted_range: Slice, lineage: Slice, run_without_snapshot: LedgerRow | None
) -> list[str]:
    sentences = []
    if adjusted_range.from_ms != requested_range.from_ms:
        why = "the last boundary of a slice before it"
        if adjusted_range.from_ms == lineage.from_ms > requested_range.from_ms:
            why = "where the lineage begins"
        if run_without_snapshot is not None:
            why = (
                f"the last boundary with a snapshot; that of run {run_without_snapshot.seq} was removed by "
                "retention"
            )
        sentences.append(f"from {iso(requested_range.from_ms)} moved to {iso(adjusted_range.from_ms)}, {why}")
    if adjusted_range.to_ms != requested_range.to_ms:
        is_main_end = adjusted_range.to_ms == lineage.to_ms
        why = "where the lineage ends" if is_main_end else "the next boundary of a slice"
        sentences.append(f"to {iso(requested_range.to_ms)} moved to {iso(adjusted_range.to_ms)}, {why}")
    return sentences


def slices_from(
    restatement: Restatement, main: Sequence[LedgerRow], at_ms: int, length_ms: int | None, start_ms: int
) -> list[Slice]:
    """The branch's slices from `at_ms` to where main ends: main's own, or with `length_ms` cut at
    start + k * length and at the range's end.
    """
    slices, end_ms = [], end_of(main[-1])
    while at_ms < end_ms:
        if length_ms is None:
            to_ms = end_of(main[bisect_right(main, at_ms, key=end_of)])
        else:
            cut = start_ms + ((at_ms - start_ms) // length_ms + 1) * length_ms
            to_ms = min([cut, end_ms, *([restatement.to_ms] if at_ms < restatement.to_ms else [])])
        slices.append(Slice(at_ms, to_ms))
        at_ms = to_ms
    return slices


def runs_behind(main: Sequence[LedgerRow], at_ms: int) -> list[LedgerRow]:
    return list(main[bisect_left(main, at_ms, key=start_of) :])


def run_ending_at(main: Sequence[LedgerRow], boundary_ms: int) -> LedgerRow | None:
    place = bisect_left(main, boundary_ms, key=end_of)
    return main[place] if place < len(main) and end_of(main[place]) == boundary_ms else None
