"""What the runtime leaves out does not show: a trigger that has armed itself, an element that has been taken
back, and an element's place among those that it is taken together with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    EventTimeTrigger,
    OrderMode,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from slackwater.windowing.columnar.numbered_windows import FixedWindows
from slackwater.windowing.columnar.shared_windows import steps_of
from slackwater.windowing.runtime.shared_windows import takes_together
from slackwater.windowing.windows import Window
from tests.properties.search import searched
from tests.properties.windowing_choices import COMMUTATIVE, Choice, choices
from tests.properties.windowing_replays import KEYS, Outcome, Play, Step, elements, play, scripts, windows_of

SCRIPTS = scripts(elements(st.integers(-5, 60)))
CUTS = st.dictionaries(st.integers(1, 25), st.integers(1, 4), max_size=2)
POISON = 13


class AskedEveryTime(EventTimeTrigger):
    """The default trigger without its promise that it need not be asked again."""

    arms_once = False


@searched(50, long=240)
@given(choice=choices(), script=SCRIPTS, cuts=CUTS, purges=st.booleans())
def test_a_trigger_that_is_not_asked_again_would_have_changed_nothing(
    choice: Choice, script: list[Step], cuts: dict[int, int], purges: bool
) -> None:
    def plays(trigger: Trigger) -> list[Outcome]:
        declared = replace(choice, trigger=PurgingTrigger.of(trigger) if purges else trigger)
        return play(windows_of(declared.config(), OrderMode.ROCKSDB), script, cuts)

    assert plays(EventTimeTrigger()) == plays(AskedEveryTime())


@dataclass
class Together:
    """Elements that are taken at once, put where the first of them stands."""

    elements: list[Step]


def taken_together(windows: FixedWindows, script: list[Step], keeps_order: bool) -> list[Step | Together]:
    """The script with its elements in steps."""
    watermark, places, watermarks = -(2**63), [], []
    for place, step in enumerate(script):
        if step[0] == "element":
            places.append(place)
            watermarks.append(watermark)
        elif step[0] == "watermark":
            watermark = step[1]
    keys = [KEYS.index(script[place][1]) for place in places]
    times = [script[place][3] for place in places]
    columns = [np.array(column, np.int64) for column in (keys, times, watermarks)]
    order, starts, are_together = steps_of(*columns, windows, keeps_order=keeps_order)
    wholes: list[Step | Together | None] = [None if step[0] == "element" else step for step in script]
    for (start, end), together in zip(pairwise(starts.tolist()), are_together.tolist(), strict=True):
        members = [script[places[position]] for position in order[start:end].tolist()]
        wholes[places[order[start]]] = Together(members) if together else members[0]
    return [step for step in wholes if step is not None]


@searched(80, long=400)
@given(
    data=st.data(),
    assigner=st.sampled_from([(10, 10), (25, 25), (20, 10), (25, 7), (10, 15)]),
    trigger=st.sampled_from([None, EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())]),
    script=scripts(elements(st.integers(-5, 60)), min_size=12, max_size=40),
)
def test_elements_that_are_taken_together_might_have_come_one_by_one(
    data: st.DataObject, assigner: tuple[int, int], trigger: Trigger | None, script: list[Step]
) -> None:
    size, slide = assigner
    windows: Any = (
        TumblingEventTimeWindows(size_ms=size)
        if size == slide
        else SlidingEventTimeWindows(size_ms=size, slide_ms=slide)
    )
    choice = replace(data.draw(choices(), label="the rest"), assigner=windows, trigger=trigger)
    assert takes_together(windows, choice.config().trigger, OrderMode.ROCKSDB)
    one_by_one, at_once = (Play(windows_of(choice.config(), OrderMode.ROCKSDB)) for _ in range(2))
    expected = [one_by_one.step(step) for step in script]
    keeps_order = choice.function not in COMMUTATIVE or choice.evictor is not None
    steps = taken_together(FixedWindows(size, slide, 0, choice.lateness), script, keeps_order)
    found = [together(at_once, step) if isinstance(step, Together) else at_once.step(step) for step in steps]
    emitting = [
        [outcome.by_key_group() for outcome in outcomes if outcome.emitted] for outcomes in (expected, found)
    ]
    assert emitting[0] == emitting[1]
    assert expected[-1].held == found[-1].held


def together(play: Play, step: Together) -> Outcome:
    [operator] = play.operators
    operator.shared_windows.process_elements(
        step.elements[0][1],
        [element[2] for element in step.elements],
        [element[3] for element in step.elements],
        0,
    )
    return Outcome([], play.held())


@dataclass(frozen=True, kw_only=True)
class Poisonable(Trigger):
    """Raises on the poisoned value in about half of all windows, after the inner trigger is done."""

    inner: Trigger

    @property
    def can_merge(self) -> bool:  # type: ignore[override]
        return self.inner.can_merge

    @property
    def purges(self) -> bool:  # type: ignore[override]
        return self.inner.purges

    def on_element(self, element: Any, timestamp: int, window: Window, context: Any) -> TriggerResult:
        result = self.inner.on_element(element, timestamp, window, context)
        if element == POISON and window.max_timestamp() // 7 % 2:
            raise ValueError("poison")
        return result

    def on_event_time(self, timestamp: int, window: Window, context: Any) -> TriggerResult:
        return self.inner.on_event_time(timestamp, window, context)

    def on_processing_time(self, timestamp: int, window: Window, context: Any) -> TriggerResult:
        return self.inner.on_processing_time(timestamp, window, context)

    def on_merge(self, window: Window, context: Any) -> None:
        self.inner.on_merge(window, context)

    def clear(self, window: Window, context: Any) -> None:
        self.inner.clear(window, context)


POISONED = scripts(elements(st.integers(-5, 60), st.integers(0, 9) | st.just(POISON)), min_size=10)


@pytest.mark.slow
@settings(max_examples=150)
@given(choice=choices(), script=POISONED)
def test_a_quarantined_element_has_never_been(choice: Choice, script: list[Step]) -> None:
    trigger = choice.trigger or choice.assigner.get_default_trigger()
    config = replace(choice, trigger=Poisonable(inner=trigger)).config()
    playing = Play(windows_of(config, OrderMode.ROCKSDB, on_error="quarantine"))
    good: list[Step] = []
    outcomes: list[Outcome] = []
    for step in script:
        before = playing.held()
        outcome = playing.step(step)
        if outcome.error == "UserCodeError":
            assert playing.held() == before
            continue
        good.append(step)
        outcomes.append(outcome)
        if outcome.error is not None:
            break
    playing.close()
    assume(len(good) < len(script))
    without = play(windows_of(config, OrderMode.ROCKSDB), good)
    assert [outcome.by_key_group() for outcome in outcomes] == [outcome.by_key_group() for outcome in without]
    assert [(outcome.held, outcome.error) for outcome in outcomes] == [
        (outcome.held, outcome.error) for outcome in without
    ]
