"""A cut does not show: whatever is snapshot, restored and rescaled between two steps, the rest of the script
does the same.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.conformance.timers import RunCommands
from slackwater.windowing import OrderMode, TumblingEventTimeWindows
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from tests.properties.search import searched
from tests.properties.windowing_choices import Choice, choices
from tests.properties.windowing_replays import (
    MAX_PARALLELISM,
    MakeOperator,
    Step,
    elements,
    play,
    scripts,
    windows_of,
)

SCRIPTS = scripts(elements(st.integers(-5, 60)))
TIMED_OR_NOT = scripts(elements(st.none() | st.integers(0, 60)))
CUTS = st.dictionaries(st.integers(1, 25), st.integers(1, 4), min_size=1, max_size=4)


def assert_cuts_do_not_show(make: Any, script: list[Step], cuts: dict[int, int]) -> None:
    """`make` gives a MakeOperator for each of the two plays."""
    whole, cut = (
        play(make(), script),
        play(make(), script, {position % len(script): parallelism for position, parallelism in cuts.items()}),
    )
    assert [outcome.error for outcome in cut] == [outcome.error for outcome in whole]
    assert [outcome.by_key_group() for outcome in cut] == [outcome.by_key_group() for outcome in whole]
    assert [outcome.as_multiset() for outcome in cut] == [outcome.as_multiset() for outcome in whole]
    assert [outcome.held for outcome in cut] == [outcome.held for outcome in whole]


@pytest.mark.slow
@searched(100, long=500)
@given(choice=choices(), script=SCRIPTS | TIMED_OR_NOT, cuts=CUTS)
def test_windows_do_the_same_after_any_restore_and_rescale(
    choice: Choice, script: list[Step], cuts: dict[int, int]
) -> None:
    # Without a timestamp the trigger would fire at each interval from the smallest long on, as Flink's does:
    # for ever.
    assume(
        "ContinuousEventTimeTrigger" not in repr(choice.trigger)
        or all(step[-1] is not None for step in script)
    )
    config = choice.config()
    assert_cuts_do_not_show(lambda: windows_of(config, OrderMode.ROCKSDB), script, cuts)


@searched(30, long=120)
@given(choice=choices(), script=SCRIPTS, parallelism=st.integers(1, 3))
def test_windows_do_the_same_when_they_are_restored_before_every_step(
    choice: Choice, script: list[Step], parallelism: int
) -> None:
    config = choice.config()
    cuts = {number: 1 + (number + parallelism) % 4 for number in range(len(script))}
    assert_cuts_do_not_show(lambda: windows_of(config, OrderMode.ROCKSDB), script, cuts)


def commands() -> st.SearchStrategy[list[Any]]:
    """Commands of one element, some with commands for the timer that they register; no timer registers
    without end.
    """
    times = st.integers(0, 60)
    emitting = st.sampled_from([["emit"], ["add", 3], ["clear"], ["side", 1]])
    deleting = st.tuples(st.sampled_from(["delete_event", "delete_processing"]), times).map(list)
    registering = st.tuples(st.sampled_from(["register_event", "register_processing"]), times).map(list)
    later = st.tuples(
        st.sampled_from(["register_event_in", "register_processing_in"]), st.integers(-3, 20)
    ).map(list)
    simple = emitting | deleting | registering | later
    planned = st.tuples(registering | later, st.lists(simple, min_size=1, max_size=3)).map(
        lambda pair: [*pair[0], pair[1]]
    )
    return st.lists(simple | planned, min_size=1, max_size=4)


def timers() -> MakeOperator:
    """Makes process operators that share the commands planned for timers, as only timers and state are in a
    snapshot.
    """
    function = RunCommands({})

    def make(output: Any, clock: Any, owned: Any) -> Any:
        return KeyedProcessOperator(
            function, STRING, output, clock, key_groups=owned, max_parallelism=MAX_PARALLELISM
        )

    return make


@searched(60, long=300)
@given(script=scripts(elements(st.none() | st.integers(0, 60), commands())), cuts=CUTS)
def test_timers_of_a_process_function_do_the_same_after_any_restore_and_rescale(
    script: list[Step], cuts: dict[int, int]
) -> None:
    assert_cuts_do_not_show(timers, script, cuts)


def test_a_restore_that_loses_the_watermark_would_be_noticed() -> None:
    config = Choice(TumblingEventTimeWindows(size_ms=10), None, None, "reduce").config()
    script: list[Step] = [("watermark", 20), ("element", "a", 1, 3)]
    whole = play(windows_of(config, OrderMode.ROCKSDB), script)
    assert [row.kind for row in whole[1].emitted] == ["late"]
    assert [row.kind for row in play(windows_of(config, OrderMode.ROCKSDB), script[1:])[0].emitted] == []
