"""What the runtime leaves out does not show: a trigger that has armed itself, the set of a key's windows in
flight, and an element that has been taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    EventTimeTrigger,
    MergingWindowAssigner,
    OrderMode,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from slackwater.windowing.runtime.merging_windows import MergingWindows
from slackwater.windowing.windows import Window
from tests.properties.search import searched
from tests.properties.windowing_choices import Choice, choices
from tests.properties.windowing_replays import Outcome, Play, Step, elements, play, scripts, windows_of

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


@searched(60, long=300)
@given(
    choice=choices().filter(lambda choice: isinstance(choice.assigner, MergingWindowAssigner)),
    script=SCRIPTS,
    cuts=CUTS,
)
def test_a_merge_with_the_only_session_of_a_key_is_that_of_its_set_of_windows(
    choice: Choice, script: list[Step], cuts: dict[int, int]
) -> None:
    for mode in (OrderMode.ROCKSDB, OrderMode.HEAP):
        make = windows_of(choice.config(), mode)
        outcomes = play(make, script, cuts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MergingWindows, "add_to_only_session", lambda windows, key, new: None)
            assert outcomes == play(make, script, cuts)


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
