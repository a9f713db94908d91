"""Plays cases: finds the family's player, compares every step's result with the recorded one, and counts.

A case that cannot be played is never counted as passed. What a step means is the family's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from slackwater.windowing.conformance.harness import CarrySnapshots, in_memory
from slackwater.windowing.conformance.merging_window_set import MergingWindowSetPlayer
from slackwater.windowing.conformance.storages import BackEnd, Storages, default_back_end
from slackwater.windowing.conformance.timers import TimersPlayer
from slackwater.windowing.conformance.trace import Case, Json, read_cases
from slackwater.windowing.conformance.vectors import KeyGroupsPlayer, WindowStartPlayer
from slackwater.windowing.conformance.watermark import WatermarkGeneratorPlayer, WatermarkInputsPlayer
from slackwater.windowing.conformance.window import WindowPlayer
from slackwater.windowing.errors import TraceError, UserCodeError


class FamilyPlayer(Protocol):
    """Plays one case. Made with the case's config; raises TraceError for a config or step that it does not
    know.
    """

    def play(self, step: Json) -> Json:
        """What the step caused, in the shape of the recorded result. A refusal is an entry `{"error": …}`,
        not an exception.
        """


# Families of operators, which keep state somewhere, and of vectors.
OPERATOR_FAMILIES: dict[str, Callable[[Json, Storages, CarrySnapshots], FamilyPlayer]] = {
    "window": WindowPlayer,
    "timers": TimersPlayer,
}
VECTOR_FAMILIES: dict[str, Callable[[Json], FamilyPlayer]] = {
    "key_groups": KeyGroupsPlayer,
    "window_start": WindowStartPlayer,
    "merging_window_set": MergingWindowSetPlayer,
    "watermark_generator": WatermarkGeneratorPlayer,
    "watermark_inputs": WatermarkInputsPlayer,
}


@dataclass(frozen=True)
class Mismatch:
    """The first step of a case whose result differs.

    Attributes:
        case_id, step: where.
        expected, got: the results.
    """

    case_id: str
    step: int
    expected: Json
    got: Json

    def __str__(self) -> str:
        return (
            f"FAILED {self.case_id} at step {self.step}\n  expected {json.dumps(self.expected)}\n  got      "
            f"{json.dumps(self.got)}"
        )


@dataclass
class PlayReport:
    """Counts over all cases played."""

    passed: int = 0
    failed: int = 0
    unplayable: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.unplayable} unplayable"


def play_case(
    case: Case, back_end: BackEnd | None = None, carry: CarrySnapshots = in_memory
) -> Mismatch | None:
    """Play one case to its end or to the first difference. Raises TraceError when it cannot be played.

    Args:
        case: from `read_cases`.
        back_end: where operators keep state and timers, see Storages; None for "case" where rocksdict is
            installed, else "heap".
        carry: takes snapshots from the operators before a restore to those after it; carrying.py has ways.
    """
    try:
        with Storages(back_end or default_back_end()) as storages:
            return _play(case, _player(case, storages, carry))
    except KeyError as error:
        raise TraceError(f"the case lacks the field {error}") from error


def _player(case: Case, storages: Storages, carry: CarrySnapshots) -> FamilyPlayer:
    if case.family in OPERATOR_FAMILIES:
        return OPERATOR_FAMILIES[case.family](case.config, storages, carry)
    if case.family in VECTOR_FAMILIES:
        return VECTOR_FAMILIES[case.family](case.config)
    raise TraceError(
        f"no player for family {case.family!r}; there are {', '.join([*OPERATOR_FAMILIES, *VECTOR_FAMILIES])}"
    )


def _play(case: Case, player: FamilyPlayer) -> Mismatch | None:
    for number, (step, expected) in enumerate(zip(case.steps, case.expected, strict=True)):
        got = player.play(step)
        if not _agree(expected, got):
            return Mismatch(case.id, number, expected, got)
    return None


def play(
    files: Iterable[Path],
    out: TextIO | None = None,
    back_end: BackEnd | None = None,
    carry: CarrySnapshots = in_memory,
) -> int:
    """Play every case of the files, print what fails or cannot be played, and last the counts.

    Args:
        files: recorded traces.
        out: where to print; standard output unless named.
        back_end, carry: as for `play_case`.

    Returns:
        How many cases failed or could not be played: 0 means that all passed.
    """
    report = PlayReport()
    for path in files:
        for case in read_cases(path):
            try:
                mismatch = play_case(case, back_end, carry)
            except TraceError as error:
                report.unplayable += 1
                print(f"UNPLAYABLE {case.id}: {error}", file=out)
                continue
            if mismatch is None:
                report.passed += 1
            else:
                report.failed += 1
                print(mismatch, file=out)
    print(report, file=out)
    return report.failed + report.unplayable


# What a user function raises in Java has no counterpart in Python, and Flink's back ends wrap it differently:
# that it failed is compared.
USER_CODE = UserCodeError.__name__


def _agree(expected: Json, got: Json) -> bool:
    """Equal, but for message texts of errors and for the order of an inspection, which has none."""
    if "error" in expected:
        return _agree_entry(expected, got)
    if expected.keys() != got.keys():
        return False
    return all(_agree_field(name, expected[name], got[name]) for name in expected)


def _agree_field(name: str, expected: object, got: object) -> bool:
    if name == "out" and isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(_agree_entry, expected, got))
    if name == "inspect" and isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(
            _as_set(expected[part]) == _as_set(got[part]) for part in expected
        )
    return canonical(expected) == canonical(got)


def _agree_entry(expected: Json, got: Json) -> bool:
    if "error" in expected:
        return "error" in got and _error_class(got) in (_error_class(expected), USER_CODE)
    return canonical(expected) == canonical(got)


def _error_class(entry: Json) -> str:
    return str(entry["error"]).partition(":")[0]


def _as_set(entries: list[object]) -> list[str]:
    return sorted(map(canonical, entries))


def canonical(value: object) -> str:
    """JSON that tells 1 from true and 1.0, which Python's equality does not."""
    return json.dumps(value, sort_keys=True)
