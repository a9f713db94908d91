"""Reads recorded traces: files with one case of JSON per line, plain or gzipped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.windowing.errors import TraceError

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
