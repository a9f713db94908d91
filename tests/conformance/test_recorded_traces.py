"""Every recorded case of Flink 2.3.0's windows, timers and key groups: exact order, exact counts, and a
player that can fail.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.conformance import Case, play, play_case, read_cases
from slackwater.windowing.errors import TraceError

TRACES = Path(__file__).parent / "traces"
CASES = {
    "key_groups": 14,
    "merging_window_set": 81,
    "merging_window_set_more": 5,
    "timers": 262,
    "watermark_generator": 169,
    "watermark_inputs": 238,
    "window_dynamic_session": 120,
    "window_edge_cases": 178,
    "window_evictors": 200,
    "window_extremes": 20,
    "window_flink_tests": 20,
    "window_functions": 150,
    "window_global_count": 130,
    "window_processing_time": 170,
    "window_restore": 180,
    "window_session": 270,
    "window_sliding": 160,
    "window_start": 41,
    "window_triggers": 280,
    "window_tumbling": 190,
}


def trace(name: str) -> Path:
    return TRACES / f"{name}.jsonl.gz"


def first_case(name: str) -> Case:
    return next(read_cases(trace(name)))


def test_every_trace_is_listed() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in TRACES.glob("*.jsonl.gz")} == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_recorded_case_passes(name: str) -> None:
    out = io.StringIO()
    failure_count = play([trace(name)], out).failure_count
    assert out.getvalue() == f"{CASES[name]} passed, 0 failed, 0 unplayable\n"
    assert failure_count == 0


def with_expected(case: Case, change: Callable[[list[Any]], None]) -> Case:
    expected = json.loads(json.dumps(case.expected))
    change(expected)
    return replace(case, expected=expected)


def edge_case(number: int) -> Case:
    return next(
        case for case in read_cases(trace("window_edge_cases")) if case.id == f"window_edge_cases-{number:04}"
    )


def test_the_player_notices_a_changed_value() -> None:
    mismatch = play_case(
        with_expected(edge_case(0), lambda expected: expected[3]["out"][0].update(value=[1, 3]))
    )
    assert mismatch is not None
    assert (mismatch.case_id, mismatch.step) == ("window_edge_cases-0000", 3)
    assert mismatch.our_result["out"][0]["value"] == [1, 2]
    assert "FAILED window_edge_cases-0000 at step 3" in str(mismatch)
    assert "[1, 3]" in str(mismatch)


def test_the_player_notices_another_order() -> None:
    case = edge_case(159)  # twelve keys whose timers are equal
    assert play_case(case) is None
    step = next(number for number, result in enumerate(case.expected) if len(result["out"]) > 2)
    mismatch = play_case(
        with_expected(case, lambda expected: expected[step]["out"].insert(0, expected[step]["out"].pop(1)))
    )
    assert mismatch is not None
    assert mismatch.step == step


@pytest.mark.parametrize(
    "change",
    [
        lambda expected: expected[0].update(event_timers=2),
        lambda expected: expected[0].update(state={}),
        lambda expected: expected[0].update(late_dropped=1),
        lambda expected: expected[3]["out"].pop(),
        lambda expected: expected[3]["out"].append({"watermark": 100}),
        lambda expected: expected[3]["out"][0].update(timestamp=99.0),
        lambda expected: expected[7]["inspect"]["event"].clear(),
        lambda expected: expected[7]["inspect"]["entries"].append(expected[7]["inspect"]["entries"][0]),
        lambda expected: expected[0].update(out=[{"error": "IllegalStateException: no"}]),
        lambda expected: expected[0].pop("late_dropped"),
    ],
)
def test_the_player_notices_counts_timers_state_and_missing_rows(change: Callable[[list[Any]], None]) -> None:
    assert play_case(edge_case(0)) is None
    assert play_case(with_expected(edge_case(0), change)) is not None


@pytest.mark.parametrize("name", ["key_groups", "window_start", "merging_window_set", "timers"])
def test_the_player_notices_a_change_in_every_family(name: str) -> None:
    case = first_case(name)
    expected = json.loads(json.dumps(case.expected))
    for result in expected:
        for number in ("event_timers", "hash", "start"):
            if number in result:
                result[number] += 1
        if "mapping" in result:
            result["mapping"].append([[0, 1], [0, 1]])
    assert play_case(case) is None
    assert play_case(replace(case, expected=expected)) is not None


def test_another_class_of_error_is_a_difference() -> None:
    case = edge_case(170)
    assert case.expected[0]["out"][0]["error"].startswith("IllegalArgumentException")
    assert (
        play_case(
            with_expected(
                case, lambda expected: expected[0]["out"][0].update(error="IllegalStateException: x")
            )
        )
        is not None
    )
    assert (
        play_case(
            with_expected(
                case, lambda expected: expected[0]["out"][0].update(error="IllegalArgumentException: x")
            )
        )
        is None
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"family": "join"}, "no player for family 'join'"),
        ({"config": {"trigger": {"type": "moon"}}}, "no trigger 'moon'"),
        ({"config": {"evictor": {"type": "moon", "after": False}}}, "no evictor 'moon'"),
        ({"config": {"function": {"type": "moon"}}}, "no function 'moon'"),
        ({"config": {"assigner": {"type": "moon"}}}, "no assigner 'moon'"),
        ({"config": {"backend": "moon"}}, "no state back end 'moon'"),
        ({"config": {"key_type": "moon"}}, "No key type 'moon'"),
        ({"steps": [{"moon": {}}]}, "no step 'moon'"),
        ({"config": {"assigner": {"type": "tumbling"}}}, "lacks the field 'size'"),
    ],
)
def test_a_case_that_cannot_be_played_says_why_and_does_not_pass(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    case = edge_case(0)
    record = {
        "id": case.id,
        "family": case.family,
        "config": case.config,
        "steps": case.steps[:1],
        "expected": case.expected[:1],
    }
    record |= {**change, "config": {**case.config, **change.get("config", {})}}
    (tmp_path / "cases.jsonl").write_text(json.dumps(record) + "\n")
    out = io.StringIO()
    assert play([tmp_path / "cases.jsonl"], out).failure_count == 1
    assert "UNPLAYABLE window_edge_cases-0000" in out.getvalue()
    assert reason in out.getvalue()
    assert out.getvalue().endswith("0 passed, 0 failed, 1 unplayable\n")


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(TraceError, match=r"cases\.jsonl:1 is not a recorded case"):
        play([tmp_path / "cases.jsonl"], io.StringIO())


def test_the_command_exits_with_1_when_a_case_fails(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl.gz", tmp_path / "bad.jsonl"
    with gzip.open(trace("window_edge_cases"), "rt", encoding="utf-8") as lines:
        line = lines.readline()
    with gzip.open(good, "wt", encoding="utf-8") as file:
        file.write(line)
    bad.write_text(line.replace('"event_timers":1', '"event_timers":7', 1))
    command = [sys.executable, "-m", "slackwater", "conformance"]
    runs = [subprocess.run([*command, path], capture_output=True, text=True) for path in (good, bad)]
    assert [run.returncode for run in runs] == [0, 1]
    assert [run.stdout.splitlines()[-1] for run in runs] == [
        "1 passed, 0 failed, 0 unplayable",
        "0 passed, 1 failed, 0 unplayable",
    ]
