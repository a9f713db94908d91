"""The benchmark of the scalar path runs, and what it compares is the same work; no figure is asserted."""

import importlib.util
from dataclasses import replace

import pytest

from tests.benchmarks import scalar, whole_engine
from tests.benchmarks.contenders import CONTENDERS, Outcome
from tests.benchmarks.workloads import LATE_SHARE, WORKLOADS, make_rows


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_all_contenders_come_to_the_same(workload):
    rows = make_rows(
        replace(workload, rows_per_second=20_000 / 300), 20_000
    )  # five minutes: long enough for late and dropped rows
    outcomes = {name: prepare(workload, rows)()() for name, prepare in CONTENDERS.items()}
    scalar.check_agreement(outcomes)
    reference = outcomes[scalar.ANCHOR]
    windows = {(key, start) for key, start, _, _ in reference.firings}
    assert len(reference.firings) > len(windows) > 0, "no window has fired again for a late row"
    assert 0 < reference.dropped < len(rows) * LATE_SHARE * 2
    assert reference.still_open > 0


def test_the_reference_is_what_a_group_by_says():
    """With a lateness that no delay exceeds, the newest firing of a window holds all of its rows."""
    workload = replace(WORKLOADS[2], lateness=max(WORKLOADS[2].late_by), rows_per_second=20_000 / 100)
    rows = make_rows(workload, 20_000)
    reference = CONTENDERS[scalar.ANCHOR](workload, rows)()()
    totals = {(key, start): (count, total) for key, start, count, total in scalar.all_windows(workload, rows)}
    newest = {(key, start): (count, total) for key, start, count, total in reference.firings}
    last_instants = {window: window[1] + workload.size - 1 for window in totals}
    assert reference.dropped == 0
    assert newest == {
        window: totals[window] for window, instant in last_instants.items() if instant <= rows.watermarks[-1]
    }
    assert reference.still_open == sum(
        instant + workload.lateness > rows.watermarks[-1] for instant in last_instants.values()
    )


def test_a_disagreement_is_an_error():
    with pytest.raises(scalar.DisagreementError):
        scalar.check_agreement(
            {scalar.ANCHOR: Outcome([(1, 0, 2, 3)], 0, 1), "other": Outcome([(1, 0, 2, 4)], 0, 1)}
        )


@pytest.mark.slow
def test_the_command_prints_a_table_and_says_whether_bytewax_took_part(capsys):
    assert scalar.main(["--rows", "20000", "--repetitions", "1", "--workload", "a"]) == 0
    printed = capsys.readouterr().out
    for name in (*CONTENDERS, whole_engine.OPERATOR, whole_engine.COLUMNAR):
        assert name in printed
    if importlib.util.find_spec("bytewax") is None:
        assert "bytewax is not installed here" in printed
    else:
        assert scalar.BYTEWAX in printed
