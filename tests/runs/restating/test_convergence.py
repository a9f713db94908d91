"""When main's later runs may stay live behind a branch: each of the three conditions alone keeps them from
it.
"""

import pytest

from slackwater.runs.restating.restatement import DIFFERENT_STATE, OTHER_CODE, why_not_converged
from slackwater.tables.ledger.rows import LedgerRow
from tests.tables.ledger.ledger_rows import run_row

MADE = {"config_hash": "config", "code_hash": "code"}


def run(run_id: str, state: str | None, **changes: object) -> LedgerRow:
    return run_row(run_id, **{**MADE, "state_hash": state, **changes})


def why_not(
    *,
    own: list[LedgerRow],
    there: LedgerRow,
    later: list[LedgerRow],
    again: str | None = None,
    **options: bool,
) -> str | None:
    return why_not_converged(own, there, later, lambda row: again, **options)


OWN = [run("b1", "other"), run("b2", "state")]
THERE = run("m2", "state", code_hash="what was replaced does not count")
LATER = [run("m3", "later"), run("m4", "latest")]


def test_equal_state_and_equal_code_behind_it_is_convergence() -> None:
    assert why_not(own=OWN, there=THERE, later=LATER) is None


@pytest.mark.parametrize("state", ["other", None])
def test_another_state_is_none(state: str | None) -> None:
    assert why_not(own=[OWN[0], run("b2", state)], there=THERE, later=LATER) == DIFFERENT_STATE
    assert why_not(own=[run("b2", None)], there=run("m2", None), later=LATER) == DIFFERENT_STATE


@pytest.mark.parametrize("changed", [{"code_hash": "newer"}, {"config_hash": "newer"}])
@pytest.mark.parametrize("which", ["an earlier run of the branch", "its last run", "a later run of main"])
def test_other_code_or_settings_anywhere_are_none_unless_waived(changed: dict[str, str], which: str) -> None:
    own = [run("b1", "other", **(changed if which == "an earlier run of the branch" else {}))]
    own.append(run("b2", "state", **(changed if which == "its last run" else {})))
    later = [LATER[0], run("m4", "latest", **(changed if which == "a later run of main" else {}))]
    assert why_not(own=own, there=THERE, later=later) == OTHER_CODE
    assert why_not(own=own, there=THERE, later=later, whatever_the_code=True) is None


def test_rows_that_were_read_again_are_none_also_where_the_code_is_waived() -> None:
    for waived in (False, True):
        assert (
            why_not(own=OWN, there=THERE, later=LATER, again="run 4 has read it", whatever_the_code=waived)
            == "run 4 has read it"
        )


def test_the_source_is_asked_only_when_all_else_is_equal() -> None:
    def refuse(row: LedgerRow) -> str | None:
        raise AssertionError("the source was asked")

    assert why_not_converged([run("b2", "other")], THERE, LATER, refuse) == DIFFERENT_STATE
