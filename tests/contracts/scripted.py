"""A user's assigner, trigger, evictor and function whose answers a test writes, and which tell what they were
asked.

No expectations here; the harness and the tests have those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slackwater.windowing import (
    Evictor,
    MergingWindowAssigner,
    ProcessWindowFunction,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
    WindowAssigner,
)
from slackwater.windowing.windows import TimeWindow, merge_time_windows

from .harness import Row, Side

CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = (
    TriggerResult.CONTINUE,
    TriggerResult.FIRE,
    TriggerResult.PURGE,
    TriggerResult.FIRE_AND_PURGE,
)

MARK = ValueStateDescriptor("mark")

Answer = TriggerResult | Callable[..., Any]


class GivenWindows(WindowAssigner):
    """Gives every element the windows that the test has put into `windows`, and counts how often it was
    asked.
    """

    def __init__(self, *windows: Any, is_event_time: bool = True) -> None:
        self.windows: Sequence[Any] = windows
        self.is_event_time = is_event_time  # type: ignore[misc]
        self.questions: list[tuple[Any, int]] = []

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Sequence[Any]:
        self.questions.append((element, timestamp))
        return self.windows

    def get_default_trigger(self) -> Trigger:
        return ScriptedTrigger()


class GivenSessions(GivenWindows, MergingWindowAssigner):
    """As GivenWindows, but windows that overlap or touch merge, unless `merges` says into what.

    Attributes:
        merges: the next answers of `merge_windows`: (result, members); used up one by one.
        asked_to_merge: the windows of each question.
    """

    def __init__(self, *windows: Any, is_event_time: bool = True) -> None:
        super().__init__(*windows, is_event_time=is_event_time)
        self.merges: list[tuple[Any, list[Any]]] = []
        self.asked_to_merge: list[set[Any]] = []

    def merge_windows(self, windows: Iterable[Any], callback: Callable[[Any, list[Any]], None]) -> None:
        windows = list(windows)
        self.asked_to_merge.append(set(windows))
        if self.merges:
            callback(*self.merges.pop(0))
        else:
            merge_time_windows(windows, callback)


class ScriptedTrigger(Trigger):
    """Answers each question with a TriggerResult or what a callable of (window, context) gives.

    Attributes:
        questions: (question, window) or, for timers, (question, window, timestamp), since the last `take`.
    """

    can_merge = True
    purges = True

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = answers
        self.questions: list[tuple[Any, ...]] = []

    def take(self) -> list[tuple[Any, ...]]:
        questions, self.questions = self.questions, []
        return questions

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> Any:
        return self._answer("element", window, context)

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> Any:
        return self._answer("event", window, context, timestamp)

    def on_processing_time(self, timestamp: int, window: Any, context: Any) -> Any:
        return self._answer("processing", window, context, timestamp)

    def on_merge(self, window: Any, context: Any) -> None:
        self._answer("merge", window, context)

    def clear(self, window: Any, context: Any) -> None:
        self._answer("clear", window, context)

    def _answer(self, question: str, window: Any, context: Any, *time: int) -> Any:
        self.questions.append((question, window, *time))
        answer = self.answers.get(question, CONTINUE)
        return answer if isinstance(answer, TriggerResult) else answer(window, context) or CONTINUE


class KeepAll(Evictor):
    """Evicts nothing: with it, an evicting operator does what the other one does."""

    def evict_before(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
        assert size == len(elements)

    def evict_after(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
        assert size == len(elements)


class Contents(ProcessWindowFunction):
    """A row of all elements at each firing, and a side row "cleared" when the window is collected."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return [tuple(elements)]

    def clear(self, context: Any) -> None:
        context.output("cleared", None)


def fired_row(window: TimeWindow, *elements: Any, key: Any = "a") -> Row:
    """What Contents emits for one firing: stamped with the window's last instant, end - 1."""
    return Row(elements, window, window.end - 1, key)


def cleared_row(window: TimeWindow, key: Any = "a") -> Side:
    """What Contents emits when a window is collected."""
    return Side("cleared", None, window, window.end - 1, key)
