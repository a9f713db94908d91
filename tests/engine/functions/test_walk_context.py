"""Which triggers are handed the elements that they are asked about."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.functions.walk_context import looks_at_elements
from slackwater.windowing import CountTrigger, DeltaTrigger, PurgingTrigger, Trigger, TriggerResult

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class Blind(Trigger):
    """Names no element."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return FIRE if timestamp > context.current_watermark else CONTINUE


class Seeing(Trigger):
    def on_element(self, flight: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return FIRE if flight.delay > 9 else CONTINUE


class SeeingLater(Trigger):
    """Only a function inside the method reads the element."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        def is_late() -> bool:
            return bool(element.delay > 9)

        return FIRE if is_late() else CONTINUE


def is_late(flight: Any, timestamp: int) -> bool:
    return bool(flight.delay > timestamp)


class SeeingBesideTheTimestamp(Trigger):
    """Python loads both arguments with one instruction since 3.13."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return FIRE if is_late(element, timestamp) else CONTINUE


class SeeingByName(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return FIRE if locals()["element"].delay > 9 else CONTINUE


class SeeingByFrame(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        frame = inspect.currentframe()
        return FIRE if frame is not None and frame.f_locals["element"].delay > 9 else CONTINUE


class OfAnything(Trigger):
    def on_element(self, *arguments: Any) -> TriggerResult:
        return FIRE if arguments[0].delay > 9 else CONTINUE


def traced(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return method(*arguments)

    return call


class Decorated(Blind):
    on_element = traced(Blind.on_element)  # type: ignore[assignment]


class Overridden(Blind):
    """One that looks at elements, as an attribute of the object."""

    def __init__(self) -> None:
        self.on_element = Seeing().on_element  # type: ignore[method-assign]


class Heir(Blind):
    """Has the method of its base."""


def name_of(trigger: Trigger) -> str:
    return type(trigger).__name__


@pytest.mark.parametrize("trigger", [Blind(), Heir(), CountTrigger.of(2)], ids=name_of)
def test_a_trigger_that_names_no_element_is_handed_none(trigger: Trigger) -> None:
    assert not looks_at_elements(trigger)


@pytest.mark.parametrize(
    "trigger",
    [
        Seeing(),
        SeeingLater(),
        SeeingBesideTheTimestamp(),
        SeeingByName(),
        SeeingByFrame(),
        OfAnything(),
        Decorated(),
        Overridden(),
        PurgingTrigger.of(Blind()),
        DeltaTrigger.of(1, max),
    ],
    ids=name_of,
)
def test_a_trigger_that_may_look_at_elements_is_handed_them(trigger: Trigger) -> None:
    assert looks_at_elements(trigger)
