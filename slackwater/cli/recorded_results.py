"""The effects of a step of a recorded case, from Flink's record or from a replay, in a form to compare."""

import json
import re
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from slackwater.cli.recorded_functions import EMISSION, as_json
from slackwater.conformance.trace import Json
from slackwater.windowing.errors import TraceError


def _facts_of_numbers(numbers: list[int]) -> Json:
    return {"n": len(numbers), "total": int(np.sum(numbers)), "least": min(numbers), "greatest": max(numbers)}


def _facts_of_text(text: str) -> Json:
    return _facts_of_numbers([int(number) for number in re.findall(r"-?\d+", text)])


# Recorded function → what a value that it emitted says about the elements of the window, in any order.
FACTS_OF_VALUE: Mapping[str, Callable[[Any], Json]] = {
    "reduce_sum": lambda value: {"total": value},
    "reduce_concat": _facts_of_text,
    "reduce_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "aggregate_avg": lambda value: {"total": value["sum"], "n": value["count"], "average": value["avg"]},
    "aggregate_concat": _facts_of_text,
    "aggregate_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "process_list": _facts_of_numbers,
    "apply_list": _facts_of_numbers,
    "process_global_state": lambda value: _facts_of_numbers(value["values"]),
}


class StepResult(NamedTuple):
    """What one step of a case caused: emitted rows, late elements, and the number of dropped elements."""

    rows: list[Json]
    late: list[Json]
    dropped_elements: int

    def with_facts(self, names: Set[str]) -> "StepResult":
        """The same, with only the facts `names` of each row: those that the recorded function tells."""
        return self._replace(
            rows=[{name: row[name] for name in row if name in names or name == "side"} for row in self.rows]
        )

    def comparable(self) -> Json:
        """The result as JSON: equal results give equal JSON, whatever the order of their rows."""
        return {
            "rows": sorted(json.dumps(row, sort_keys=True) for row in self.rows),
            "late": sorted(json.dumps(row, sort_keys=True) for row in self.late),
            "dropped": self.dropped_elements,
        }


def value_as_json(value: Any) -> Json:
    return {EMISSION: as_json(value)}


def recorded_result(step: Json, facts: Callable[[Any], Json]) -> StepResult:
    """What Flink did in a step, from its record; `facts` are those that an emitted value tells."""
    rows, late = [], []
    for entry in step["out"]:
        if "error" in entry:
            raise TraceError("Flink refuses a step of it")
        if "late" in entry:
            late.append({name: entry["late"][name] for name in ("key", "value", "timestamp")})
        elif "value" in entry and entry.get("side") != "cleared":
            rows.append(
                {
                    **({"side": entry["side"]} if "side" in entry else {}),
                    "key": entry["key"],
                    "window": entry["window"],
                    "timestamp": entry["timestamp"],
                    **facts(entry["value"]),
                }
            )
    return StepResult(rows, late, step["late_dropped"])
