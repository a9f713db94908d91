"""Drives one window operator step by step, and asserts after each step all that it emitted and all that it
still holds.

A count that a test does not mention is asserted to be zero, so that a leak anywhere fails the step that made
it.
"""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from tests.contracts.backends import Variant

ALL_KEY_GROUPS = KeyGroupRange(0, 127)


class Row(NamedTuple):
    """A row of the main output."""

    value: Any
    window: Any
    timestamp: int | None
    key: Any


class Late(NamedTuple):
    """An element in the late side output."""

    value: Any
    timestamp: int | None
    key: Any


class Side(NamedTuple):
    """A row of a user's side output."""

    tag: str
    value: Any
    window: Any
    timestamp: int | None
    key: Any


class RecordingOutput:
    """An OperatorOutput that keeps what it is given until it is taken."""

    def __init__(self) -> None:
        self._rows: list[Row | Late | Side] = []

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self._rows.append(Row(value, window, timestamp, key))

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        self._rows.append(Late(value, timestamp, key))

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self._rows.append(Side(tag, value, window, timestamp, key))

    def take(self) -> list[Row | Late | Side]:
        rows, self._rows = self._rows, []
        return rows


def state_and_timers(operator: Any) -> dict[str, int]:
    """Entries of each state that has any, by name, and timers of each domain."""
    entries = Counter(entry.state_name for entry in operator.backend.entries())
    assert entries == Counter(
        {state.descriptor.name: len(state) for state in operator.backend.states() if len(state)}
    )
    timers = operator.timer_service
    return {
        **entries,
        "event timers": len(timers.event_timers),
        "processing timers": len(timers.processing_timers),
    }


def expected_state_and_timers(event: int, processing: int, state: dict[str, int]) -> dict[str, int]:
    """`contents`, `sessions` and other names in Python's spelling as the operator's states are named."""
    named_counts = {
        _STATE_NAMES.get(name, name.replace("_", "-")): count for name, count in state.items() if count
    }
    return {**named_counts, "event timers": event, "processing timers": processing}


_STATE_NAMES = {"contents": "window-contents", "sessions": "merging-window-set"}


class WindowHarness:
    """One window operator over all 128 key groups, opened.

    Each step takes what it must emit (`out`, in exact order), how many elements it must drop as late
    (`dropped`), how many timers must be left in each domain, and how many entries in each state by name:
    `contents`, `sessions`, and any other with - as _.
    """

    def __init__(
        self, config: WindowOperatorConfig, variant: Variant, folder: Path, on_error: Any = "fail"
    ) -> None:
        self._config, self._variant, self._folder, self._on_error = config, variant, folder, on_error
        self.output = RecordingOutput()
        self.clock_service = HarnessProcessingTimeService()
        self.operator = self._start([])

    def element(
        self, value: Any, at: int | None, /, *, key: Any = "a", out: Any = (), dropped: int = 0, **counts: int
    ) -> None:
        before = self.operator.late_records_dropped
        self.operator.process_element(key, value, at)
        self.check(out, **counts)
        assert self.operator.late_records_dropped - before == dropped

    def watermark(self, time: int, /, *, out: Any = (), **counts: int) -> None:
        self.operator.process_watermark(time)
        self.check(out, **counts)

    def clock(self, time: int, /, *, out: Any = (), **counts: int) -> None:
        self.clock_service.advance_to(time)
        self.check(out, **counts)

    def snapshot_and_restore(
        self, *, restores_watermark: bool = False, variant: Variant | None = None, **counts: int
    ) -> None:
        """Replace the operator by a new one that is restored from its snapshot, of another variant if given,
        and whose clock reads the same.
        """
        snapshot = take_snapshot(self.operator, ALL_KEY_GROUPS)
        copied_snapshot: OperatorSnapshot = pickle.loads(pickle.dumps(snapshot))
        self.close()
        self._variant = variant or self._variant
        self.clock_service = HarnessProcessingTimeService(self.clock_service.current_processing_time)
        self.operator = self._start([copied_snapshot])
        if restores_watermark:
            self.operator.initialize_watermark(snapshot.watermark)
        self.check((), **counts)

    def check(self, out: Any = (), *, event: int = 0, processing: int = 0, **state: int) -> None:
        """Assert all that a step emitted, and all timers and state entries that there are after it."""
        assert self.output.take() == list(out)
        assert state_and_timers(self.operator) == expected_state_and_timers(event, processing, state)
        assert self.clock_service.pending() <= 1, "one physical timer at most"

    def timers(self) -> dict[str, set[tuple[int, Any, Any]]]:
        """(timestamp, key, window) of every timer, by domain."""
        service = self.operator.timer_service
        return {
            "event": set(service.for_each_event_time_timer()),
            "processing": set(service.for_each_processing_time_timer()),
        }

    def namespaces(self, state_name: str) -> set[Any]:
        """Where a state has entries."""
        return {
            entry.namespace for entry in self.operator.backend.entries() if entry.state_name == state_name
        }

    def sessions(self) -> dict[Any, Any]:
        """Window → state window, over all keys."""
        entries = [
            entry for entry in self.operator.backend.entries() if entry.state_name == "merging-window-set"
        ]
        return {window: state_window for entry in entries for window, state_window in entry.value}

    def close(self) -> None:
        self.operator.close()
        self._storage.close()

    def _start(self, snapshots: list[OperatorSnapshot]) -> WindowOperator:
        self._storage = self._variant.kind.open(self._folder)
        operator = WindowOperator(
            self._config,
            self.output,
            self.clock_service,
            order_mode=self._variant.order_mode,
            storage=self._storage,
            on_error=self._on_error,
        )
        if snapshots:  # restoring nothing is not the same as a new operator: it doubts its watermark
            restore_snapshots(operator, snapshots, ALL_KEY_GROUPS)
        operator.open()
        return operator
