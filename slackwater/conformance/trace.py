"""Reads recorded traces: files with one case of JSON per line, plain or gzipped. In JSON, arrays are
tuple keys, and `[start, end]` is a window.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.windowing.errors import KeyTypeError, TraceError, WindowingError
from slackwater.windowing.key_types import KeyType, key_type
from slackwater.windowing.windows import GlobalWindow, TimeWindow

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One recorded run of a class of Flink.

    Attributes:
        id: its unique name.
        family: which class of Flink ran, and so which player plays the case.
        config: how the class was set up; each family has its own fields.
        steps: inputs in order, each an object whose first field names its kind.
        expected: `expected[i]` is the recorded result of `steps[i]`.
    """

    id: str
    family: str
    about: str
    config: Json
    steps: list[Json]
    expected: list[Json]


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a .jsonl or .jsonl.gz file. Raises TraceError, with file and line, for anything else."""
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _case(line, f"{path}:{number}")


def _case(line: str, where: str) -> Case:
    try:
        fields = json.loads(line)
        case = Case(
            id=fields["id"],
            family=fields["family"],
            about=fields.get("about", ""),
            config=fields["config"],
            steps=fields["steps"],
            expected=fields["expected"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(
            f"{where} is not a recorded case ({type(error).__name__}: {error}); record it again."
        ) from error
    if len(case.steps) != len(case.expected):
        raise TraceError(
            f"{where}: case {case.id} has {len(case.steps)} steps and {len(case.expected)} expected results."
        )
    return case


def key_type_from_json(name: str) -> KeyType:
    """Raises TraceError for a type that this package does not have."""
    try:
        return key_type(name)
    except KeyTypeError as error:
        raise TraceError(str(error)) from error


def key_from_json(key: Any) -> Any:
    return tuple(map(key_from_json, key)) if isinstance(key, list) else key


def key_to_json(key: Any) -> Any:
    return list(map(key_to_json, key)) if isinstance(key, tuple) else key


def window_from_json(window: list[int]) -> TimeWindow:
    return TimeWindow(*window)


def window_to_json(window: Any) -> Any:
    """None, for state or a row without a window, stays None."""
    if isinstance(window, GlobalWindow):
        return "global"
    return None if window is None else list(window)


def error_to_json(error: Exception) -> dict[str, str]:
    """As recorded: Flink's exception class, and our message. Raises a TraceError again: it is no result."""
    if isinstance(error, TraceError):
        raise error
    name = error.flink if isinstance(error, WindowingError) and error.flink else type(error).__name__
    return {"error": f"{name}: {error}"}
