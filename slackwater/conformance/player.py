"""Plays cases and compares each step's result with the recorded one. What cannot be played never passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from slackwater.conformance.operator_player import CarrySnapshots, in_memory
from slackwater.conformance.storages import BackEnd, Storages, default_back_end
from slackwater.conformance.timers import TimersPlayer
from slackwater.conformance.trace import Case, Json, read_cases
from slackwater.conformance.vectors import KeyGroupsPlayer, MergingWindowSetPlayer, WindowStartPlayer
from slackwater.conformance.watermark import WatermarkGeneratorPlayer, WatermarkInputsPlayer
from slackwater.conformance.window import WindowPlayer
from slackwater.windowing.errors import TraceError, UserCodeError


class FamilyPlayer(Protocol):
    """Plays one case from its config; raises TraceError for an unknown config or step."""

    def play(self, step: Json) -> Json:
        """The step's result as it would be recorded; refusals are entries `{"error": …}`."""


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
    """The first step of a case whose result differs."""

    case_id: str
    step: int
    flink_result: Json
    our_result: Json

    def __str__(self) -> str:
        return (
            f"FAILED {self.case_id} at step {self.step}\n"
            f"  expected {json.dumps(self.flink_result)}\n"
            f"  got      {json.dumps(self.our_result)}"
        )


@dataclass
class PlayReport:
    passed_cases: int = 0
    failed_cases: int = 0
    unplayable_cases: int = 0

    @property
    def failure_count(self) -> int:
        """How many cases failed or could not be played: 0 means that all passed."""
        return self.failed_cases + self.unplayable_cases

    def __str__(self) -> str:
        return f"{self.passed_cases} passed, {self.failed_cases} failed, {self.unplayable_cases} unplayable"


def play_case(
    case: Case, back_end: BackEnd | None = None, carry: CarrySnapshots = in_memory
) -> Mismatch | None:
    """Play one case to its end or to the first difference. Raises TraceError when it cannot be played.

    `back_end` says where operators keep state and timers, see Storages; None for "case" where rocksdict is
    installed, else "heap". `carry` takes snapshots over a restore; see carrying.py.
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
    for number, (step, flink_result) in enumerate(zip(case.steps, case.expected, strict=True)):
        our_result = player.play(step)
        if not _agree(flink_result, our_result):
            return Mismatch(case.id, number, flink_result, our_result)
    return None


def play(
    files: Iterable[Path],
    out: TextIO | None = None,
    back_end: BackEnd | None = None,
    carry: CarrySnapshots = in_memory,
) -> PlayReport:
    """Play every case of the files; print failures, cases that cannot be played, and last the counts, to
    `out` or standard output. `back_end` and `carry` as for `play_case`.
    """
    report = PlayReport()
    for path in files:
        for case in read_cases(path):
            try:
                mismatch = play_case(case, back_end, carry)
            except TraceError as error:
                report.unplayable_cases += 1
                print(f"UNPLAYABLE {case.id}: {error}", file=out)
                continue
            if mismatch is None:
                report.passed_cases += 1
            else:
                report.failed_cases += 1
                print(mismatch, file=out)
    print(report, file=out)
    return report


# An exception of a user function in Java has no counterpart in Python, and Flink's back ends wrap it
# differently. So this class agrees with any recorded error.
USER_CODE = UserCodeError.__name__


def _agree(flink: Json, ours: Json) -> bool:
    """Whether the results are equal, apart from the messages of errors and the order inside an inspection."""
    if "error" in flink:
        return _agree_entry(flink, ours)
    if flink.keys() != ours.keys():
        return False
    return all(_agree_field(name, flink[name], ours[name]) for name in flink)


def _agree_field(name: str, flink: object, ours: object) -> bool:
    if name == "out" and isinstance(flink, list) and isinstance(ours, list):
        return len(flink) == len(ours) and all(map(_agree_entry, flink, ours))
    if name == "inspect" and isinstance(flink, dict) and isinstance(ours, dict):
        return flink.keys() == ours.keys() and all(
            _as_set(flink[part]) == _as_set(ours[part]) for part in flink
        )
    return canonical(flink) == canonical(ours)


def _agree_entry(flink: Json, ours: Json) -> bool:
    if "error" in flink:
        return "error" in ours and _error_class(ours) in (_error_class(flink), USER_CODE)
    return canonical(flink) == canonical(ours)


def _error_class(entry: Json) -> str:
    return str(entry["error"]).partition(":")[0]


def _as_set(entries: list[object]) -> list[str]:
    return sorted(map(canonical, entries))


def canonical(value: object) -> str:
    """JSON, in which 1, 1.0 and true differ; by Python's equality they are equal."""
    return json.dumps(value, sort_keys=True)
