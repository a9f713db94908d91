"""When the steps of a recorded case happen in a replay, and into which slices these cut it.

Steps follow each other by 1 ms. Where windows pass with the clock, a millisecond of the recording is `unit`
milliseconds of the replay, so that all steps fit in one, and each step that moves the clock ends a slice:
what the clock fires on its way is what the slice holds without a cause.

    recording   element   clock to 4     element        clock to 9      (end)
    replay      1         4·unit + 2     4·unit + 3     10·unit + 4     10·unit + 5
    slices      ├── [0, 4·unit + 2) ────┤├── [4·unit + 2, 10·unit + 4) ┤├── … ─┤

In Flink's test harness a timer for t is due at t, in a replay at t + 1. So a step that moves the clock to T
moves it to T + 1 here, unless elements follow that are to come at T. A session lasts until its timer is due,
which in the harness is 1 ms before its end; so its gap is 1 ms less here, and its end 1 ms later than a
replay says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from slackwater.conformance.trace import Json
from slackwater.windowing import (
    DynamicProcessingTimeSessionWindows,
    ProcessingTimeSessionWindows,
    WindowAssigner,
)
from slackwater.windowing.errors import TraceError
from slackwater.windowing.java import LONG_MIN

_LENGTHS_BY_CLOCK: Final = {
    "tumbling": ("size", "offset"),
    "sliding": ("size", "slide", "offset"),
    "continuous_processing_time": ("interval",),
    "processing_timeout": ("interval",),
}


@dataclass(frozen=True)
class RecordedSlice:
    """The steps of one slice.

    Attributes:
        first, beyond: its steps are first, …, beyond - 1.
        begins_anew: whether it restores a snapshot as Flink does, which forgets the watermark.
        unplayable_until: no timer of the clock may be due by this moment when the slice is over: the
            recording has fired it, or does so at another step than the replay. Long.MIN where any may be.
        back_end: Flink's state back end in these steps; a restore may change it.
    """

    from_ms: int
    to_ms: int
    first: int
    beyond: int
    begins_anew: bool
    unplayable_until: int
    back_end: str


@dataclass(frozen=True)
class RecordedSlices:
    """The slices of one case, and when each step happens. `unit`: how many milliseconds of the replay one of
    the recorded clock takes; 1 where it does not matter.
    """

    unit: int
    are_sessions: bool
    moments: list[int]
    slices: list[RecordedSlice]

    @classmethod
    def of(cls, config: Json, steps: Sequence[Json]) -> "RecordedSlices":
        assigner = config["assigner"]
        by_clock = assigner.get("time") == "processing"
        are_sessions = by_clock and "session" in assigner["type"]
        unit = 2 * (len(steps) + 2) if by_clock else 1
        cutting = _Cutting(steps, unit, are_sessions, config["backend"])
        for number, step in enumerate(steps):
            cutting.take(number, next(iter(step.items())), by_clock)
        cutting.cut(len(steps), cutting.now + 1)
        return cls(unit, are_sessions, cutting.moments, cutting.slices)

    def lengths(self, part: Json) -> Json:
        """The config of an assigner or of a trigger with its lengths of the clock in milliseconds of the
        replay; without those of sessions, see `sessions`.
        """
        if self.unit == 1:
            return part
        lengths = {name: part[name] * self.unit for name in _LENGTHS_BY_CLOCK.get(part["type"], ())}
        inner = {"trigger": self.lengths(part["trigger"])} if "trigger" in part else {}
        return {**part, **lengths, **inner}

    def sessions(self, assigner: WindowAssigner) -> WindowAssigner:
        """The assigner with the gaps of its sessions, if they pass with the clock, in milliseconds of the
        replay.
        """
        if isinstance(assigner, ProcessingTimeSessionWindows):
            return ProcessingTimeSessionWindows(gap_ms=_gap_in_replay(assigner.gap_ms, self.unit))
        if isinstance(assigner, DynamicProcessingTimeSessionWindows):
            gap_ms_of, unit = assigner.gap_ms_of, self.unit
            return DynamicProcessingTimeSessionWindows(
                gap_ms_of=lambda element: _gap_in_replay(gap_ms_of(element), unit)
            )
        return assigner

    def refuse_equal_windows(self, steps: Sequence[Json]) -> None:
        """Refuse a case in which an element may have just the window that elements of its key and clock have
        made grow: Flink then loses what their session holds, while here they come one after the other.

        Raises:
            TraceError: it is such a case.
        """
        values: dict[tuple[str, int], list[int]] = {}
        for step, moment in zip(steps, self.moments, strict=True):
            if "element" in step:
                element = step["element"]
                owner = (str(element["key"]), moment // self.unit)
                values.setdefault(owner, []).append(element["value"])
        if any(
            owned_values[0] < max(owned_values[:place]) == owned_values[place]
            for owned_values in values.values()
            for place in range(2, len(owned_values))
        ):
            raise TraceError("Flink may lose what a session holds, of elements of one millisecond")

    def window(self, start_ms: int, end_ms: int) -> list[int]:
        return [start_ms // self.unit, end_ms // self.unit + self.are_sessions]


def declared_duration(ms: int) -> timedelta:
    """A duration of a case as a pipeline declares it. Raises TraceError: none does."""
    try:
        return timedelta(milliseconds=ms)
    except OverflowError as error:
        raise TraceError(f"{ms} ms are more than a pipeline can declare") from error


def _gap_in_replay(gap_ms: int, unit: int) -> int:
    """A gap of 1 ms lasts as long as its millisecond."""
    return gap_ms if gap_ms <= 0 else max((gap_ms - 1) * unit, unit // 2)


class _Cutting:
    """The slices up to a step.

    Attributes:
        now: when that step happens.
    """

    def __init__(self, steps: Sequence[Json], unit: int, are_sessions: bool, back_end: str) -> None:
        self.now = 0
        self.moments: list[int] = []
        self.slices: list[RecordedSlice] = []
        self._steps = steps
        self._unit = unit
        self._are_sessions = are_sessions
        self._clock = 0
        self._begins_anew = False
        self._back_end = back_end

    def take(self, number: int, step: tuple[str, Any], by_clock: bool) -> None:
        kind, question = step
        self.now += 1
        if kind == "processing_time" and by_clock:
            self._move_clock(question)
            is_over = not self._are_sessions and not self._is_followed_by_element(number)
            self.now = max(self.now, (self._clock + is_over) * self._unit + number + 1)
            self.cut(number + 1, self.now, LONG_MIN if is_over else self._end_of_millisecond())
        elif kind == "snapshot_restore":
            at, clock = self.now, question.get("processing_time", self._clock)
            has_moved = by_clock and clock != self._clock
            if has_moved:
                self._move_clock(clock)
                self.now = max(self.now, clock * self._unit + number + 1)
            self.cut(number + 1, at, self._end_of_millisecond() if has_moved else LONG_MIN)
            self._begins_anew = True
            self._back_end = question.get("backend") or self._back_end
        self.moments.append(self.now)

    def cut(self, beyond: int, to_ms: int, unplayable_until: int = LONG_MIN) -> None:
        """End a slice before the step `beyond`."""
        first, from_ms = (self.slices[-1].beyond, self.slices[-1].to_ms) if self.slices else (0, 0)
        self.slices.append(
            RecordedSlice(
                from_ms=from_ms,
                to_ms=to_ms,
                first=first,
                beyond=beyond,
                begins_anew=self._begins_anew,
                unplayable_until=unplayable_until,
                back_end=self._back_end,
            )
        )
        self._begins_anew = False

    def _end_of_millisecond(self) -> int:
        """By when the timers of the clock's millisecond are due."""
        return (self._clock + (not self._are_sessions)) * self._unit + self._unit - 1

    def _move_clock(self, clock: int) -> None:
        if clock < self._clock:
            raise TraceError("the clock goes back")
        self._clock = clock

    def _is_followed_by_element(self, number: int) -> bool:
        """Whether an element comes after this step, before the clock moves on."""
        for step in self._steps[number + 1 :]:
            [(kind, question), *_] = step.items()
            if kind == "element":
                return True
            if kind == "snapshot_restore":
                question = question.get("processing_time", self._clock)
            if kind in ("processing_time", "snapshot_restore") and question > self._clock:
                return False
        return False
