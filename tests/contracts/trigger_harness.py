"""Asks one trigger, without an operator around it, and asserts after each step its answers and all that it
holds.

A count that a test does not mention is asserted to be zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slackwater.windowing import Trigger, TriggerResult
from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.contexts import OperatorTriggerContext
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from tests.contracts.backends import Variant
from tests.contracts.harness import ALL_KEY_GROUPS, expected_state_and_timers, state_and_timers

Answers = Sequence[tuple[Any, TriggerResult]]


class TriggerHarness:
    """A trigger with real timers and state of the key "a". Plays the operator's part: KeyContext and target
    of its timers.
    """

    def __init__(self, trigger: Trigger, variant: Variant, folder: Path) -> None:
        index = KeyGroupIndex(STRING, ALL_KEY_GROUPS, 128)
        self.current_key: Any = "a"
        self._trigger = trigger
        self._storage = variant.kind.open(folder)
        self.backend = self._storage.make_backend(index, variant.order_mode, None)
        self._clock = HarnessProcessingTimeService()
        self.timer_service = InternalTimerService(
            "window-timers", self, index, variant.order_mode, self._clock, storage=self._storage
        )
        self._context = OperatorTriggerContext(self, self.timer_service, self.backend)
        self._answers: list[tuple[Any, TriggerResult]] = []

    def element(
        self,
        at: int,
        window: Any,
        /,
        *,
        value: Any = 1,
        gives: TriggerResult = TriggerResult.CONTINUE,
        **counts: int,
    ) -> None:
        self._context.window = window
        assert self._trigger.on_element(value, at, window, self._context) is gives
        self._check(**counts)

    def watermark(self, time: int, /, *, gives: Answers = (), **counts: int) -> None:
        """`gives` are the answers at the timers that are due, with their windows, in order."""
        self.timer_service.advance_watermark(time)
        self._check_answers(gives)
        self._check(**counts)

    def clock(self, time: int, /, *, gives: Answers = (), **counts: int) -> None:
        self._clock.advance_to(time)
        self._check_answers(gives)
        self._check(**counts)

    def merge(self, result: Any, absorbed: Sequence[Any], /, **counts: int) -> None:
        """Only `on_merge`; the operator clears the absorbed windows afterwards."""
        self._context.window, self._context.merged_windows = result, list(absorbed)
        self._trigger.on_merge(result, self._context)
        self._check(**counts)

    def clear(self, window: Any, /, **counts: int) -> None:
        self._context.window = window
        self._trigger.clear(window, self._context)
        self._check(**counts)

    def timer(
        self,
        domain: str,
        time: int,
        window: Any,
        /,
        *,
        gives: TriggerResult = TriggerResult.CONTINUE,
        **counts: int,
    ) -> None:
        """Ask as if a timer of somebody else's were due, such as the operator's cleanup timer."""
        self._context.window = window
        ask = self._trigger.on_event_time if domain == "event" else self._trigger.on_processing_time
        assert ask(time, window, self._context) is gives
        self._check(**counts)

    def timers(self, domain: str) -> set[tuple[int, Any]]:
        """(timestamp, window) of every timer."""
        queue = self.timer_service.event_timers if domain == "event" else self.timer_service.processing_timers
        return {(timestamp, window) for timestamp, _, window in queue}

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._context.window = namespace
        self._answers.append((namespace, self._trigger.on_event_time(timestamp, namespace, self._context)))

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._context.window = namespace
        self._answers.append(
            (namespace, self._trigger.on_processing_time(timestamp, namespace, self._context))
        )

    def close(self) -> None:
        self.backend.close()
        self._storage.close()

    def _check_answers(self, gives: Answers) -> None:
        answers, self._answers = self._answers, []
        assert answers == list(gives)

    def _check(self, event: int = 0, processing: int = 0, **state: int) -> None:
        assert state_and_timers(self) == expected_state_and_timers(event, processing, state)
