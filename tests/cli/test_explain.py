"""`slackwater explain` tells the life of a window: the answer first, all of it as JSON, and exit code 2 with
the nearest windows where there is none.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.integration.command import here
from tests.integration.stored import StoredTables


def test_the_first_line_is_the_answer(replayed: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    parked = max(replayed.parked("window_state"), key=lambda row: row["window_start"])
    [progress] = [row for row in replayed.parked("source_progress") if row["source_partition"] is None]
    assert parked["firings"] == 0
    assert explain(replayed, parked["origin"], parked["window_start"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("open: waits for watermark ")
    assert f"it is at {minute(progress['watermark'] + 1)}" in first.replace("2013-01-03 ", "")
    assert "held back by " in first


def test_json_is_one_object_with_the_parts_of_the_contract(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    late = max(replayed.live("panes"), key=lambda row: (row["firing"], row["window_start"]))
    panes = [
        row
        for row in replayed.live("panes")
        if (row["origin"], row["window_start"]) == (late["origin"], late["window_start"])
    ]
    assert explain(replayed, late["origin"], late["window_start"], "--elements", "--output", "json") == 0
    life = json.loads(capsys.readouterr().out)
    assert list(life)[:5] == ["window", "waits_for", "elements", "firings", "corrections"]
    assert [(one["firing"], one["elements"]) for one in life["firings"]] == sorted(
        (row["firing"], row["elements"]) for row in panes
    )
    assert life["window"]["key"] == {"origin": late["origin"]}
    assert sum(not row["is_late"] for row in life["elements"]["rows"]) == life["elements"]["accepted_count"]


@pytest.mark.parametrize(
    ("key", "window", "reason"),
    [
        ("JFK", "2013-01-02T06:30", "Nearest are 2013-01-02 "),
        ("JFX", "2013-01-02T06:00", "keys like it are JFK"),
        ("JFK,1", "2013-01-02T06:00", "there has never been a window of JFK,1"),
    ],
)
def test_a_window_that_never_was_is_refused_with_what_is_near(
    key: str, window: str, reason: str, replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("explain", "departures", "--key", key, "--window", window, "--warehouse", replayed.warehouse)
    assert here(*arguments) == 2
    assert reason in capsys.readouterr().err


def explain(stored: StoredTables, key: str, start_ms: int, *options: str) -> int:
    start = f"{minute(start_ms, 'T')}"
    return here(
        "explain", "departures", "--key", key, "--window", start, "--warehouse", stored.warehouse, *options
    )


def minute(milliseconds: int, separator: str = "") -> str:
    """A time to the minute; without a separator only the time of day."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime(f"%Y-%m-%d{separator}%H:%M") if separator else moment.strftime("%H:%M")


@pytest.mark.parametrize("verb", ["explain", "history"])
def test_the_examples_in_the_help_of_a_verb_show_a_window_of_the_demo(
    replayed: StoredTables, verb: str, new_output: Callable[[], str]
) -> None:
    assert here(verb, "--help") == 0
    examples = [line.split("slackwater ")[1] for line in new_output().splitlines() if "--window 2013" in line]
    assert examples
    for example in examples:
        assert here(*example.split(), "--warehouse", replayed.warehouse) == 0, example
        assert "13" in (text := new_output()), "the flights of that hour"
        assert "--elements" not in example or re.search(r"flight \d{4},", text), "names have no separators"
