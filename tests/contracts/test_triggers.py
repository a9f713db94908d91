"""Triggers of one instant, of counts and of distances: answers, timers and state after every question."""

from __future__ import annotations

import pytest

from slackwater.windowing import (
    GLOBAL_WINDOW,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from slackwater.windowing.errors import StateMergeError, WindowTypeError
from slackwater.windowing.windows import TimeWindow

from .conftest import Ask
from .domains import Domain
from .scripted import CONTINUE, FIRE, FIRE_AND_PURGE, MARK, PURGE, ScriptedTrigger

W = TimeWindow
A, B, BOTH = W(0, 2), W(2, 4), W(0, 4)
LONG_MAX = 2**63 - 1


def test_results_are_two_flags_and_merge_by_or() -> None:
    flags = {result: (result.is_fire, result.is_purge) for result in TriggerResult}
    assert flags == {
        CONTINUE: (False, False),
        FIRE: (True, False),
        PURGE: (False, True),
        FIRE_AND_PURGE: (True, True),
    }
    for one in TriggerResult:
        for other in TriggerResult:
            merged = one.merge(other)
            assert (merged.is_fire, merged.is_purge) == (
                one.is_fire or other.is_fire,
                one.is_purge or other.is_purge,
            )


def _advance(harness, domain: Domain, time: int, **expected) -> None:
    harness.watermark(time, **expected) if domain.is_event_time else harness.clock(time, **expected)


def test_each_window_fires_by_itself_at_its_last_instant(ask: Ask, domain: Domain) -> None:
    harness = ask(domain.trigger())
    harness.element(1, A, **domain.timers(1))
    harness.element(1, A, **domain.timers(1))
    harness.element(1, B, **domain.timers(2))
    assert harness.timers(domain.name) == {(1, A), (3, B)}
    _advance(harness, domain, 0, **domain.timers(2))
    _advance(harness, domain, 2, gives=[(A, FIRE)], **domain.timers(1))
    _advance(harness, domain, 4, gives=[(B, FIRE)])


def test_clearing_deletes_the_timer_of_that_window_alone(ask: Ask, domain: Domain) -> None:
    harness = ask(domain.trigger())
    harness.element(1, A, **domain.timers(1))
    harness.element(1, B, **domain.timers(2))
    harness.clear(B, **domain.timers(1))
    assert harness.timers(domain.name) == {(1, A)}
    harness.clear(A)
    harness.clear(A)


def test_merging_registers_the_merged_window_and_clearing_drops_the_absorbed(
    ask: Ask, domain: Domain
) -> None:
    assert domain.trigger().can_merge
    harness = ask(domain.trigger())
    harness.element(1, A, **domain.timers(1))
    harness.element(1, B, **domain.timers(2))
    harness.merge(BOTH, [A, B], **domain.timers(3))
    harness.clear(A, **domain.timers(2))
    harness.clear(B, **domain.timers(1))
    assert harness.timers(domain.name) == {(3, BOTH)}
    _advance(harness, domain, 3, gives=[(BOTH, FIRE)])


def test_merging_into_a_window_that_has_passed_registers_nothing(ask: Ask, domain: Domain) -> None:
    harness = ask(domain.trigger())
    _advance(harness, domain, 10)
    harness.merge(BOTH, [A, B])


def test_an_element_after_the_last_instant_fires_an_event_time_trigger_at_once(ask: Ask) -> None:
    harness = ask(EventTimeTrigger())
    harness.watermark(1)
    harness.element(0, A, gives=FIRE)
    harness.element(0, B, event=1)
    harness.watermark(0, event=1)
    harness.element(0, A, event=2)


def test_a_processing_time_trigger_registers_also_for_what_has_passed(ask: Ask) -> None:
    harness = ask(ProcessingTimeTrigger())
    harness.clock(10)
    harness.element(0, A, processing=1)
    harness.clock(10, gives=[(A, FIRE)])


def test_an_event_time_trigger_fires_at_its_own_instant_only(ask: Ask) -> None:
    harness = ask(EventTimeTrigger())
    harness.timer("event", 1, A, gives=FIRE)
    harness.timer("event", 5, A)
    harness.timer("processing", 1, A)


def test_a_processing_time_trigger_fires_at_any_clock_timer_of_its_window(ask: Ask) -> None:
    harness = ask(ProcessingTimeTrigger())
    harness.timer("processing", 1, A, gives=FIRE)
    harness.timer("processing", 0, A, gives=FIRE)
    harness.timer("event", 1, A)


def test_a_count_trigger_counts_each_window_by_itself_and_starts_again(ask: Ask) -> None:
    harness = ask(CountTrigger.of(3))
    harness.element(1, A, count=1)
    harness.element(1, A, count=1)
    harness.element(1, B, count=2)
    harness.element(1, A, gives=FIRE, count=1)
    harness.element(1, B, count=1)
    harness.element(1, B, gives=FIRE)
    harness.element(1, B, count=1)
    harness.timer("event", 3, B, count=1)
    harness.timer("processing", 3, B, count=1)


def test_clearing_a_count_trigger_forgets_the_count_of_that_window_alone(ask: Ask) -> None:
    harness = ask(CountTrigger.of(3))
    for window in (A, A, B, B):
        harness.element(1, window, count=1 if window is A else 2)
    harness.clear(B, count=1)
    harness.element(1, B, count=2)
    harness.element(1, A, gives=FIRE, count=1)


def test_merging_adds_counts_up_and_fires_at_the_next_element(ask: Ask) -> None:
    harness = ask(CountTrigger.of(3))
    for window in (A, A, B, B):
        harness.element(1, window, count=1 if window is A else 2)
    harness.merge(BOTH, [A, B], count=1)
    harness.clear(A, count=1)
    harness.clear(B, count=1)
    harness.element(1, BOTH, gives=FIRE)


def test_a_count_merges_into_a_window_that_holds_one_already(ask: Ask) -> None:
    harness = ask(CountTrigger.of(5))
    harness.element(1, BOTH, count=1)
    harness.element(1, A, count=2)
    harness.element(1, A, count=2)
    harness.merge(BOTH, [A], count=1)
    harness.element(1, BOTH, count=1)
    harness.element(1, BOTH, gives=FIRE)


def test_a_count_trigger_of_zero_or_less_fires_at_each_element_as_in_flink(ask: Ask) -> None:
    harness = ask(CountTrigger.of(0))
    harness.element(1, A, gives=FIRE)
    harness.element(1, A, gives=FIRE)


def test_a_delta_trigger_fires_strictly_above_its_threshold_from_the_element_that_fired_last(
    ask: Ask,
) -> None:
    harness = ask(DeltaTrigger.of(5, lambda old, new: new - old))
    harness.element(0, A, value=10, last_element=1)
    harness.element(0, A, value=15, last_element=1)
    harness.element(0, A, value=16, gives=FIRE, last_element=1)
    harness.element(0, A, value=21, last_element=1)
    harness.element(0, B, value=100, last_element=2)
    harness.element(0, A, value=22, gives=FIRE, last_element=2)
    harness.timer("event", 1, A, last_element=2)
    harness.timer("processing", 1, A, last_element=2)
    harness.clear(A, last_element=1)


def test_a_delta_trigger_cannot_merge(ask: Ask) -> None:
    trigger = DeltaTrigger.of(5, lambda old, new: new - old)
    assert not trigger.can_merge
    harness = ask(trigger)
    with pytest.raises(NotImplementedError):
        harness.merge(BOTH, [A, B])


def test_purging_turns_fire_into_fire_and_purge_and_leaves_other_answers() -> None:
    for question in ("element", "event", "processing"):
        for answer, expected in {
            CONTINUE: CONTINUE,
            FIRE: FIRE_AND_PURGE,
            PURGE: PURGE,
            FIRE_AND_PURGE: FIRE_AND_PURGE,
        }.items():
            purging = PurgingTrigger.of(ScriptedTrigger(**{question: answer}))
            answers = {
                "element": purging.on_element("x", 1, A, None),
                "event": purging.on_event_time(1, A, None),
                "processing": purging.on_processing_time(1, A, None),
            }
            assert answers == {"element": CONTINUE, "event": CONTINUE, "processing": CONTINUE} | {
                question: expected
            }


def test_purging_forwards_every_question_with_its_window_and_context() -> None:
    questions = []
    inner = ScriptedTrigger(
        **{question: lambda window, context: questions.append((window, context)) for question in QUESTIONS}
    )
    purging = PurgingTrigger.of(inner)
    context = object()
    purging.on_element("x", 1, A, context)
    purging.on_event_time(1, A, context)
    purging.on_processing_time(1, A, context)
    purging.on_merge(A, context)
    purging.clear(A, context)
    assert [question[0] for question in inner.take()] == QUESTIONS
    assert questions == [(A, context)] * 5


QUESTIONS = ["element", "event", "processing", "merge", "clear"]


def test_purging_overrides_every_method_of_a_trigger() -> None:
    methods = {
        name for name, member in vars(Trigger).items() if callable(member) and not name.startswith("__")
    }
    assert methods == {"on_element", "on_event_time", "on_processing_time", "on_merge", "clear"}
    assert methods <= set(vars(PurgingTrigger))


@pytest.mark.parametrize(
    "inner",
    [CountTrigger.of(1), DeltaTrigger.of(1, max), NeverTrigger()],
    ids=lambda trigger: type(trigger).__name__,
)
def test_purging_can_merge_when_its_inner_trigger_can(inner: Trigger) -> None:
    assert PurgingTrigger.of(inner).can_merge == inner.can_merge
    assert PurgingTrigger.of(inner).purges
    assert not inner.purges


def test_never_and_end_of_stream_refuse_windows_of_time(ask: Ask) -> None:
    for trigger in (NeverTrigger(), EndOfStreamTrigger()):
        harness = ask(trigger)
        with pytest.raises(
            WindowTypeError, match=rf"{type(trigger).__name__}.*TimeWindow\(start=0, end=2\)"
        ) as refusal:
            harness.element(1, A)
        assert refusal.value.flink == "ClassCastException"


def test_never_does_nothing(ask: Ask) -> None:
    harness = ask(NeverTrigger())
    harness.element(1, GLOBAL_WINDOW)
    harness.timer("event", LONG_MAX, GLOBAL_WINDOW)
    harness.timer("processing", LONG_MAX, GLOBAL_WINDOW)
    harness.merge(GLOBAL_WINDOW, [GLOBAL_WINDOW])
    harness.clear(GLOBAL_WINDOW)


def test_end_of_stream_fires_at_the_final_watermark_and_clears_nothing(ask: Ask) -> None:
    harness = ask(EndOfStreamTrigger())
    harness.element(1, GLOBAL_WINDOW, event=1)
    harness.element(1, GLOBAL_WINDOW, event=1)
    harness.watermark(LONG_MAX - 1, event=1)
    harness.timer("event", 5, GLOBAL_WINDOW, event=1)
    harness.timer("processing", LONG_MAX, GLOBAL_WINDOW, event=1)
    harness.clear(GLOBAL_WINDOW, event=1)
    harness.watermark(LONG_MAX, gives=[(GLOBAL_WINDOW, FIRE)])


def test_value_state_of_a_trigger_cannot_be_merged(ask: Ask) -> None:
    harness = ask(ScriptedTrigger(merge=lambda window, context: context.merge_partitioned_state(MARK)))
    with pytest.raises(StateMergeError, match="'mark' is value state, which cannot merge"):
        harness.merge(BOTH, [A, B])
