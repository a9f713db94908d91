"""Every recorded case of Flink 2.3.0's watermark classes, step by step and in exact order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from slackwater.conformance.watermark import WatermarkGeneratorPlayer, WatermarkInputsPlayer
from slackwater.windowing.errors import TraceError

TRACES = Path(__file__).parent / "traces"
PLAYERS = {"watermark_generator": WatermarkGeneratorPlayer, "watermark_inputs": WatermarkInputsPlayer}


def cases_of(family: str) -> list[dict[str, Any]]:
    with gzip.open(TRACES / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def without_messages(answer: dict[str, Any]) -> dict[str, Any]:
    """Of an error its class alone counts; messages are not compared."""
    return {
        "out": [
            {"error": entry["error"].partition(":")[0]} if "error" in entry else entry
            for entry in answer["out"]
        ]
    }


def play(case: dict[str, Any]) -> list[dict[str, Any]]:
    player = PLAYERS[case["family"]](case["config"])
    return [player.play(step) for step in case["steps"]]


@pytest.mark.parametrize(("family", "number"), [("watermark_generator", 169), ("watermark_inputs", 238)])
def test_every_recorded_case_is_played_exactly(family: str, number: int) -> None:
    cases = cases_of(family)
    assert len(cases) == number
    different = [
        case["id"]
        for case in cases
        if [without_messages(answer) for answer in play(case)]
        != [without_messages(e) for e in case["expected"]]
    ]
    assert different == []


def test_the_players_notice_a_trace_that_says_something_else() -> None:
    case = cases_of("watermark_generator")[0]
    case["config"]["max_out_of_orderness"] += 1
    assert play(case) != case["expected"]


def test_configs_and_steps_that_the_families_do_not_have_are_refused() -> None:
    config = cases_of("watermark_generator")[0]["config"]
    with pytest.raises(TraceError, match="no step 'restart'"):
        WatermarkGeneratorPlayer(config).play({"restart": {}})
    with pytest.raises(TraceError, match="no watermark strategy 'hourly'"):
        WatermarkGeneratorPlayer({**config, "strategy": "hourly"}).play({"open": {}})
    with pytest.raises(TraceError, match="kind 'three_input'"):
        WatermarkInputsPlayer({"kind": "three_input"})
    with pytest.raises(TraceError, match="no step 'restart'"):
        WatermarkInputsPlayer({"kind": "multiplexer"}).play({"restart": {}})
