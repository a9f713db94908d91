"""Recorded cases of Flink 2.3.0's window operator, as rows through whole engines; and a player that can
fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slackwater.cli.conformance import command
from slackwater.cli.recorded_cases import play, play_case
from slackwater.conformance import Case, read_cases
from tests.conformance.test_recorded_traces import trace

# Cases that each engine plays, of those recorded. A step of the others has no row, Flink refuses it or, with
# columns, they are windows that columns don't decide.
CASES_PLAYED = {
    "columnar": {
        "window_tumbling": 190,
        "window_sliding": 160,
        "window_session": 242,
        "window_global_count": 79,
        "window_edge_cases": 75,
        "window_functions": 81,
        "window_triggers": 96,
        "window_flink_tests": 10,
        "window_restore": 65,
        "window_processing_time": 83,
    },
    "operator": {
        "window_tumbling": 190,
        "window_sliding": 160,
        "window_session": 242,
        "window_dynamic_session": 112,
        "window_global_count": 130,
        "window_edge_cases": 134,
        "window_evictors": 174,
        "window_functions": 133,
        "window_triggers": 171,
        "window_flink_tests": 16,
        "window_restore": 126,
        "window_processing_time": 130,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "name"), [(engine, name) for engine, names in CASES_PLAYED.items() for name in names]
)
def test_recorded_cases_pass_as_rows(engine: str, name: str) -> None:
    report = play([trace(name)], engine)
    assert (report.passed_cases, report.failed_cases) == (CASES_PLAYED[engine][name], 0)


def last_result(case: Case) -> tuple[int, dict[str, Any]]:
    """The step of the last emitted row, and that row."""
    return next(
        (number, entry)
        for number in reversed(range(len(case.steps)))
        for entry in case.expected[number]["out"]
        if "value" in entry and "side" not in entry
    )


def altered_case(case: Case, change: Callable[[list[dict[str, Any]]], None]) -> Case:
    expected = json.loads(json.dumps(case.expected))
    change(expected)
    return replace(case, expected=expected)


@pytest.mark.parametrize("name", ["process_list", "reduce_concat", "aggregate_concat", "process_multi"])
def test_a_case_with_its_function_fails_when_the_recording_said_anything_else(name: str) -> None:
    case = next(
        case
        for case in chain(read_cases(trace("window_tumbling")), read_cases(trace("window_functions")))
        if case.config["function"]["type"] == name
        and case.config["evictor"] is None
        and (case.config["assigner"]["type"], case.config["assigner"].get("time")) == ("tumbling", "event")
        and case.config["trigger"] is None
        and any("value" in entry for step in case.expected for entry in step["out"])
    )
    assert play_case(case, "columnar") is None
    step, row = last_result(case)

    def other_value(expected: list[dict[str, Any]]) -> None:
        entries = expected[step]["out"]
        [entry] = [entry for entry in entries if entry == row][:1]
        entry["value"] = [*row["value"], 0] if isinstance(row["value"], list) else f"{row['value']}0"

    def one_window(expected: list[dict[str, Any]]) -> None:
        expected[-1]["state"]["window-contents"] = expected[-1]["state"].get("window-contents", 0) + 1

    for change in (other_value, one_window):
        assert play_case(altered_case(case, change), "columnar") is not None, change.__name__


def summing(name: str) -> Case:
    """The first case with a plain sum, late elements dropped without a side output."""
    return next(
        case
        for case in read_cases(trace(name))
        if case.config["function"]["type"] == "reduce_sum"
        and not case.config["side_output_late"]
        and any("value" in entry for step in case.expected for entry in step["out"])
    )


@pytest.mark.parametrize(
    "name", ["window_tumbling", "window_sliding", "window_session", "window_global_count"]
)
def test_a_case_fails_when_the_recording_said_anything_else(name: str) -> None:
    case = summing(name)
    assert play_case(case, "columnar") is None
    step, row = last_result(case)

    def other_value(expected: list[dict[str, Any]]) -> None:
        expected[step]["out"][case.expected[step]["out"].index(row)]["value"] += 1

    def one_less(expected: list[dict[str, Any]]) -> None:
        expected[step]["out"].remove(row)

    def one_dropped(expected: list[dict[str, Any]]) -> None:
        expected[step]["late_dropped"] += 1

    def one_timer(expected: list[dict[str, Any]]) -> None:
        expected[-1]["event_timers"] += 1

    def one_window(expected: list[dict[str, Any]]) -> None:
        state = expected[-1]["state"]
        expected[-1]["state"] = {**state, "window-contents": state.get("window-contents", 0) + 1}
        expected[-1]["state"]["merging-window-set"] = 1  # contents without it are lost ones

    for change in (other_value, one_less, one_dropped, one_timer, one_window):
        assert play_case(altered_case(case, change), "columnar") is not None, change.__name__


def run_command(*arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(command, ["--engine", "columnar", *arguments])
    return result.exit_code, result.output.splitlines()


def test_the_command_counts_what_is_played_and_says_why_the_rest_is_not(tmp_path: Path) -> None:
    case = summing("window_tumbling")
    by_clock = next(
        case
        for case in read_cases(trace("window_processing_time"))
        if (case.config["trigger"] or {}).get("type") == "continuous_processing_time"
        and case.config["assigner"]["type"] == "tumbling"
    )
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(asdict(each)) + "\n" for each in (case, by_clock)))
    assert run_command(str(file)) == (
        0,
        [
            "1 unplayable: its trigger looks at bounds of windows, which the clock makes others here",
            "1 passed, 0 failed, 1 unplayable",
        ],
    )
    wrong = altered_case(case, lambda expected: expected[-1].update(event_timers=10_000))
    file.write_text(json.dumps(asdict(wrong)) + "\n")
    code, lines = run_command(str(file))
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 unplayable")
    assert run_command("--back-end", "heap", str(file))[0] == 2
