"""Drives the parallel operators of one KeyedProcessFunction, and asserts after each step all that they
emitted and still hold.

A count that a test does not mention is asserted to be zero.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slackwater.windowing import KeyedProcessFunction
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of, operator_index
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from tests.contracts.backends import Variant
from tests.contracts.harness import RecordingOutput, expected_state_and_timers, state_and_timers

MAX_PARALLELISM = 128


class ProcessHarness:
    """One operator, or as many as the last `rescale` made; elements go to the owner of their key."""

    def __init__(
        self,
        function: KeyedProcessFunction,
        variant: Variant,
        folder: Path,
        on_error: Any = "fail",
        key_type: Any = STRING,
    ) -> None:
        self._function, self._kind, self._folder, self._order_mode = (
            function,
            variant.kind,
            folder,
            variant.order_mode,
        )
        self._on_error, self._key_type = on_error, key_type
        self.output = RecordingOutput()
        self._start(1, 0, [])

    @property
    def operator(self) -> KeyedProcessOperator:
        """The only operator."""
        [operator] = self.operators
        return operator

    def element(self, value: Any, at: int | None, /, *, key: Any = "a", out: Any = (), **counts: int) -> None:
        group = key_group_of(key, self._key_type, MAX_PARALLELISM)
        self.operators[operator_index(group, len(self.operators), MAX_PARALLELISM)].process_element(
            key, value, at
        )
        self.check(out, **counts)

    def watermark(self, time: int, /, *, out: Any = (), **counts: int) -> None:
        for operator in self.operators:
            operator.process_watermark(time)
        self.check(out, **counts)

    def clock(self, time: int, /, *, out: Any = (), **counts: int) -> None:
        for clock in self.clocks:
            clock.advance_to(time)
        self.check(out, **counts)

    def rescale(
        self, parallelism: int, /, *, at: int | None = None, restores_watermark: bool = False, **counts: int
    ) -> None:
        """Replace all operators by `parallelism` new ones that are restored from their snapshots. The clocks
        read `at`; unless given, what they read before.
        """
        snapshots = [
            take_snapshot(operator, key_groups)
            for operator, key_groups in zip(self.operators, self._ranges, strict=True)
        ]
        copied_snapshots: list[OperatorSnapshot] = pickle.loads(pickle.dumps(snapshots))
        now = self.clocks[0].current_processing_time if at is None else at
        self.close()
        self._start(parallelism, now, copied_snapshots)
        if restores_watermark:
            for operator in self.operators:
                operator.initialize_watermark(max(snapshot.watermark for snapshot in snapshots))
        self.check((), **counts)

    def check(self, out: Any = (), *, event: int = 0, processing: int = 0, **state: int) -> None:
        assert self.output.take() == list(out)
        total: Counter[str] = Counter({"event timers": 0, "processing timers": 0})
        for operator in self.operators:
            total.update(state_and_timers(operator))
        assert dict(total) == expected_state_and_timers(event, processing, state)

    def close(self) -> None:
        for operator, storage in zip(self.operators, self._storages, strict=True):
            operator.close()
            storage.close()

    def _start(self, parallelism: int, now: int, snapshots: Sequence[OperatorSnapshot]) -> None:
        self._ranges = KeyGroupRange.ranges(parallelism, MAX_PARALLELISM)
        self.clocks = [HarnessProcessingTimeService(now) for _ in self._ranges]
        self._storages = [self._kind.open(self._folder) for _ in self._ranges]
        self.operators = [
            KeyedProcessOperator(
                self._function,
                self._key_type,
                self.output,
                clock,
                key_groups=key_groups,
                max_parallelism=MAX_PARALLELISM,
                order_mode=self._order_mode,
                storage=storage,
                on_error=self._on_error,
            )
            for clock, key_groups, storage in zip(self.clocks, self._ranges, self._storages, strict=True)
        ]
        for operator, key_groups in zip(self.operators, self._ranges, strict=True):
            if snapshots:
                restore_snapshots(operator, snapshots, key_groups)
            operator.open()
