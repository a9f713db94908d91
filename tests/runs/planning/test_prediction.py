"""Predicted seconds: the line that was put in comes out, and nothing is predicted from nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.planning.plan import RUNS, predict
from slackwater.tables.ledger.rows import LedgerRow
from tests.tables.ledger.ledger_rows import run_row


def run(seq: int, rows: int, seconds: float, session: float = 0.0, engine: str = "operator") -> LedgerRow:
    phases = {"replay": seconds * 0.75, "stage": seconds * 0.25, "session": session}
    return run_row(f"r{seq}", seq=seq, rows_read=rows, engine=engine, phase_seconds=phases)


def test_seconds_that_lie_on_a_line_are_predicted_exactly_and_the_first_slice_pays_for_the_start() -> None:
    cold = run(1, 1000, 0.502 + 3.0, session=6.0)
    found = predict(
        [cold, *(run(seq, rows, 0.5 + rows * 2e-6) for seq, rows in ((2, 1000), (3, 500_000)))], "operator"
    )
    assert found is not None
    assert found.slice_seconds(1_000_000) == pytest.approx(2.5)
    assert found.command_seconds([1_000_000, 0]) == pytest.approx(9.0 + 2.5 + 0.5)
    assert (
        found.basis
        == "recorded seconds and rows of 3 runs, 1 to 3, engine operator: 0.50 s a slice, 2.0 µs a row, "
        "9.0 s to start Spark"
    )


def test_nothing_is_predicted_from_runs_of_another_engine_or_none() -> None:
    assert predict([], "operator") is None
    assert predict([run(1, 10, 1.0, engine="columnar")], "operator") is None
    assert predict([run_row("r1", seq=1, engine="operator")], "operator") is None, "nothing was recorded"


def test_one_run_alone_predicts_its_own_seconds() -> None:
    found = predict([run(7, 100, 1.5)], "operator")
    assert (
        found is not None
        and found.slice_seconds(100) == pytest.approx(1.5)
        and "of run 7, engine" in found.basis
    )


def test_only_the_newest_runs_count() -> None:
    slow = [run(seq, seq, 100.0) for seq in range(1, 11)]
    fast = [run(seq, seq, 1.0) for seq in range(11, 11 + RUNS)]
    found = predict([*slow, *fast], "operator")
    assert found is not None and found.slice_seconds(20) == pytest.approx(1.0) and found.runs[0] == 11


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.1, 100)), min_size=1, max_size=12))
@settings(max_examples=100)
def test_no_prediction_is_negative_and_a_plain_least_squares_line_is_kept(
    points: list[tuple[int, float]],
) -> None:
    found = predict([run(seq, rows, seconds) for seq, (rows, seconds) in enumerate(points, 1)], "operator")
    assert found is not None and found.fixed >= 0 and found.per_row >= 0
    rows, seconds = (np.array(column, float) for column in zip(*points, strict=True))
    if len(set(rows)) > 1:
        slope, fixed = np.polyfit(rows, seconds, 1)
        if slope > 1e-9 and fixed > 1e-6:
            assert (found.fixed, found.per_row) == (
                pytest.approx(fixed, rel=1e-3, abs=1e-3),
                pytest.approx(slope, rel=1e-3, abs=1e-9),
            )
