"""Convergence: whether main's later runs may stay live behind a restated branch, so that they need not be
replayed. A pure decision on ledger rows.

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
"""

from collections.abc import Callable, Sequence

from slackwater.tables.ledger.rows import LedgerRow

DIFFERENT_STATE = "the open windows differ"
OTHER_CODE = "main's later runs were made by other code or settings"


def why_not(
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
