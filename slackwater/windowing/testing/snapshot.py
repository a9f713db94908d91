"""The snapshot that a run leaves to the next: state, timers, watermark and clock, as bytes, so that a test
notices values that cannot leave the process, and two runs never share an object.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot


@dataclass(frozen=True)
class HarnessSnapshot:
    """Taken without flushing: nothing fires for it, open windows stay open. `watermark` is the minimum over
    all subtasks, `clock` processing time in milliseconds; the state is bound to `max_parallelism`.
    """

    watermark: int
    clock: int
    max_parallelism: int
    _pickled: bytes

    @classmethod
    def of(cls, parts: Iterable[OperatorSnapshot], clock: int, max_parallelism: int) -> HarnessSnapshot:
        """From one part per subtask. Raises pickle's error when a value of the state cannot be pickled."""
        parts = list(parts)
        return cls(min(part.watermark for part in parts), clock, max_parallelism, pickle.dumps(parts))

    def parts(self) -> list[OperatorSnapshot]:
        """New objects at each call."""
        parts: list[OperatorSnapshot] = pickle.loads(self._pickled)
        return parts

    def state(self) -> list[tuple[str, Any, Any, Any]]:
        """Every entry as (state name, key, window or None, value), in no particular order."""
        return [
            (entry.state_name, entry.key, entry.namespace, entry.value)
            for part in self.parts()
            for entry in part.entries
        ]

    def event_timers(self) -> list[tuple[int, Any, Any]]:
        """Every event timer as (timestamp, key, window or None), by key group."""
        return [timer for part in self.parts() for timers in part.timers for timer in timers.event]

    def processing_timers(self) -> list[tuple[int, Any, Any]]:
        """Every processing timer as (timestamp, key, window or None), by key group."""
        return [timer for part in self.parts() for timers in part.timers for timer in timers.processing]
