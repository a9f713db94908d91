"""Plays one script on parallel operators, cut and rescaled wherever a test says, and hands out what each step
did.

Two plays are compared by key group in exact order, or as multisets; what must be equal is the tests'
business.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from slackwater.windowing import OrderMode
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of, operator_index
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.operator_snapshot import (
    OperatorSnapshot,
    restore_snapshots,
    take_snapshot,
)
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig

MAX_PARALLELISM = 8
KEYS = ["", "a", "b", "bb", "key1", "ключ"]  # of five key groups

Step = tuple[Any, ...]  # ("element", key, value, timestamp or None), ("watermark", time) or ("clock", time)


def elements(
    times: st.SearchStrategy[int | None],
    values: st.SearchStrategy[Any] = st.integers(0, 9),  # noqa: B008
) -> st.SearchStrategy[Step]:
    return st.tuples(st.just("element"), st.sampled_from(KEYS), values, times)


def scripts(
    element: st.SearchStrategy[Step], min_size: int = 6, max_size: int = 24
) -> st.SearchStrategy[list[Step]]:
    """Elements with a watermark or a clock step after some, and both far ahead in the end; both only go
    forward, as windows of ten feel.
    """
    moves = st.tuples(st.sampled_from(["watermark", "clock"]), st.sampled_from([1, 2, 5, 9, 14, 40]))

    def accumulate(steps: list[Step]) -> list[Step]:
        now = {"watermark": -1, "clock": 0}
        script: list[Step] = []
        for step in [*steps, ("watermark", 200), ("clock", 200)]:
            if step[0] in now:
                now[step[0]] += step[1]
                step = (step[0], now[step[0]])
            script.append(step)
        return script

    sizes = st.integers(min_size, max_size)
    return sizes.flatmap(lambda size: st.lists(element | element | moves, min_size=size, max_size=size)).map(
        accumulate
    )


class Emitted(NamedTuple):
    """One row: kind is "row", "late", or a side output's tag."""

    kind: str
    key: Any
    value: Any
    window: Any
    timestamp: int | None


class Outcome(NamedTuple):
    """What one step did.

    Attributes:
        emitted: rows in order, of one operator after the other.
        held: entries of each state, and timers of each domain, over all operators.
        error: class of the error that ended the play; its step emitted nothing that counts.
    """

    emitted: list[Emitted]
    held: dict[str, int]
    error: str | None = None

    def by_key_group(self) -> dict[int, list[Emitted]]:
        """The rows of each key group in exact order."""
        groups: dict[int, list[Emitted]] = defaultdict(list)
        for row in self.emitted:
            groups[key_group_of(row.key, STRING, MAX_PARALLELISM)].append(row)
        return dict(groups)

    def as_multiset(self) -> Counter[str]:
        return Counter(map(repr, self.emitted))


MakeOperator = Callable[["_Output", HarnessProcessingTimeService, KeyGroupRange], Any]


class _Output:
    def __init__(self) -> None:
        self.emitted: list[Emitted] = []

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.emitted.append(Emitted("row", key, value, window, timestamp))

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        self.emitted.append(Emitted("late", key, value, None, timestamp))

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.emitted.append(Emitted(tag, key, value, window, timestamp))


def windows_of(config: WindowOperatorConfig, order_mode: OrderMode, **options: Any) -> MakeOperator:
    """Makes window operators of one configuration."""

    def make(output: Any, clock: HarnessProcessingTimeService, owned: KeyGroupRange) -> Any:
        return WindowOperator(
            config,
            output,
            clock,
            key_groups=owned,
            max_parallelism=MAX_PARALLELISM,
            order_mode=order_mode,
            **options,
        )

    return make


class Play:
    """Parallel operators, all of them replaced at each cut.

    Attributes:
        operators: the present ones.
    """

    def __init__(self, make: MakeOperator, parallelism: int = 1) -> None:
        self._make = make
        self._output = _Output()
        self.operators: list[Any] = []
        self._start(parallelism, 0, [])

    def step(self, step: Step) -> Outcome:
        """Play one step. After an outcome with an error nothing more can be played."""
        kind, *arguments = step
        try:
            if kind == "element":
                self.operators[self._owner(arguments[0])].process_element(*arguments)
            elif kind == "watermark":
                for operator in self.operators:
                    operator.process_watermark(*arguments)
            else:
                for clock in self._clocks:
                    clock.advance_to(*arguments)
        except WindowingError as error:
            return Outcome([], {}, type(error).__name__)
        emitted, self._output.emitted = self._output.emitted, []
        self._output.emitted = []
        return Outcome(emitted, self.held())

    def cut(self, parallelism: int) -> None:
        """Snapshot all, throw them away, and restore, watermark and clock included, into `parallelism`
        operators.
        """
        snapshots: list[OperatorSnapshot] = pickle.loads(
            pickle.dumps(
                [
                    take_snapshot(operator, owned)
                    for operator, owned in zip(self.operators, self._ranges, strict=True)
                ]
            )
        )
        watermarks = {snapshot.watermark for snapshot in snapshots}
        assert len(watermarks) == 1
        now = self._clocks[0].current_processing_time
        self.close()
        self._start(parallelism, now, snapshots)
        for operator in self.operators:
            operator.initialize_watermark(*watermarks)

    def held(self) -> dict[str, int]:
        held: Counter[str] = Counter()
        for operator in self.operators:
            held.update(entry.state_name for entry in operator.backend.entries())
            held["event timers"] += len(operator.timer_service.event_timers)
            held["processing timers"] += len(operator.timer_service.processing_timers)
        return dict(held)

    def close(self) -> None:
        for operator in self.operators:
            operator.close()

    def _owner(self, key: Any) -> int:
        return operator_index(
            key_group_of(key, STRING, MAX_PARALLELISM), len(self.operators), MAX_PARALLELISM
        )

    def _start(self, parallelism: int, now: int, snapshots: Sequence[OperatorSnapshot]) -> None:
        self._ranges = KeyGroupRange.ranges(parallelism, MAX_PARALLELISM)
        self._clocks = [HarnessProcessingTimeService(now) for _ in self._ranges]
        self.operators = [
            self._make(self._output, clock, owned)
            for clock, owned in zip(self._clocks, self._ranges, strict=True)
        ]
        for operator, owned in zip(self.operators, self._ranges, strict=True):
            if snapshots:
                restore_snapshots(operator, snapshots, owned)
            operator.open()


def play(make: MakeOperator, script: Sequence[Step], cuts: Mapping[int, int] | None = None) -> list[Outcome]:
    """The outcome of each step up to the first that fails; before step i the operators are replaced by
    cuts[i] new ones.
    """
    playing = Play(make)
    outcomes = []
    for number, step in enumerate(script):
        if cuts is not None and number in cuts:
            playing.cut(cuts[number])
        outcomes.append(playing.step(step))
        if outcomes[-1].error is not None:
            break
    playing.close()
    return outcomes
