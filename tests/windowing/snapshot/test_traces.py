"""Every recorded case that restores a snapshot goes on as Flink did when the snapshot has been rows of
tables, or files, in between.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.conformance import BACK_ENDS, BackEnd, Case, play_case, read_cases
from slackwater.conformance.carrying import CARRIERS, as_files, as_rows
from slackwater.testing import Subject
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot

TRACES = Path(__file__).parents[2] / "conformance" / "traces"
RESTORING = {
    "timers": 88,
    "window_edge_cases": 11,
    "window_flink_tests": 6,
    "window_processing_time": 26,
    "window_restore": 147,
}


def restores(case: Case) -> int:
    return sum("snapshot_restore" in step for step in case.steps)


def restoring_cases(name: str) -> list[Case]:
    return [case for case in read_cases(TRACES / f"{name}.jsonl.gz") if restores(case)]


class Counting:
    """Carries as files, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(
        self, subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
    ) -> list[OperatorSnapshot]:
        self.calls += 1
        return as_files(subject, order_mode, snapshots)


def test_every_case_that_restores_is_listed() -> None:
    names = {path.name.removesuffix(".jsonl.gz") for path in TRACES.glob("*.jsonl.gz")}
    assert {name: len(cases) for name in sorted(names) if (cases := restoring_cases(name))} == RESTORING


# Every pair is played by the slow tests; in the fast ones each trace but the longest has its turn, and each
# back end but the last.
FAST = {
    (name, back_end)
    for name, back_end in zip(sorted(RESTORING), BACK_ENDS[1::-1] * 3, strict=False)
    if name != "window_restore"
}


@pytest.mark.parametrize(
    ("name", "back_end"),
    [
        pytest.param(name, back_end, marks=() if (name, back_end) in FAST else pytest.mark.slow)
        for name in RESTORING
        for back_end in BACK_ENDS
    ],
)
def test_a_snapshot_in_files_is_the_snapshot(name: str, back_end: BackEnd) -> None:
    for case in restoring_cases(name):
        carry = Counting()
        assert play_case(case, back_end, carry) is None
        assert carry.calls == restores(case), case.id


@pytest.mark.slow
@pytest.mark.parametrize("name", RESTORING)
def test_a_snapshot_in_rows_is_the_snapshot(name: str) -> None:
    assert [case.id for case in restoring_cases(name) if play_case(case, "heap", as_rows) is not None] == []


def test_a_carrier_that_loses_something_is_noticed() -> None:
    def forgetful(
        subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
    ) -> list[OperatorSnapshot]:
        return [
            OperatorSnapshot(snapshot.entries[1:], snapshot.timers, snapshot.watermark)
            for snapshot in snapshots
        ]

    are_noticed = [
        play_case(case, "heap", forgetful) is not None for case in restoring_cases("window_restore")
    ]
    assert sum(are_noticed) > len(are_noticed) / 2


@pytest.mark.slow
@pytest.mark.parametrize("snapshots", CARRIERS)
def test_the_command_carries_snapshots_as_it_is_told(snapshots: str) -> None:
    trace = TRACES / "window_flink_tests.jsonl.gz"
    command = [
        sys.executable,
        "-m",
        "slackwater",
        "conformance",
        "--back-end",
        "heap",
        "--snapshots",
        snapshots,
        str(trace),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "20 passed, 0 failed, 0 unplayable\n"), run.stderr
