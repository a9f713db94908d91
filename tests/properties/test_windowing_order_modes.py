"""Where order cannot matter, it does not: commutative functions without state of a key give the same in all
three order modes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import EventTimeSessionWindows, OrderMode
from tests.properties.search import searched
from tests.properties.windowing_choices import COMMUTATIVE, Choice, choices
from tests.properties.windowing_replays import Step, elements, play, scripts, windows_of

SCRIPTS = scripts(elements(st.integers(-5, 60)))


@pytest.mark.slow
@searched(60, long=300)
@given(choice=choices(COMMUTATIVE), script=SCRIPTS)
def test_commutative_functions_give_the_same_rows_at_each_step_in_every_order_mode(
    choice: Choice, script: list[Step]
) -> None:
    config = choice.config()
    plays = {mode: play(windows_of(config, mode), script) for mode in OrderMode}
    expected = plays.pop(OrderMode.ROCKSDB)
    for outcomes in plays.values():
        assert [outcome.as_multiset() for outcome in outcomes] == [
            outcome.as_multiset() for outcome in expected
        ]
        assert [(outcome.held, outcome.error) for outcome in outcomes] == [
            (outcome.held, outcome.error) for outcome in expected
        ]


def test_a_function_that_shows_its_arguments_tells_the_modes_apart() -> None:
    """Or the property above would say nothing: merged sessions, and ties between two windows of a key with
    state.
    """
    choice = Choice(EventTimeSessionWindows(gap_ms=10), None, None, "reduce in order")
    script: list[Step] = [
        ("element", "a", 1, 0),
        ("element", "a", 2, 20),
        ("element", "a", 3, 10),
        ("watermark", 50),
    ]
    rows = {mode: play(windows_of(choice.config(), mode), script)[-1].emitted[0].value for mode in OrderMode}
    assert rows == {
        OrderMode.HEAP: "((21)3)",
        OrderMode.ROCKSDB: "((12)3)",
        OrderMode.ROCKSDB_HEAP_TIMERS: "((12)3)",
    }
