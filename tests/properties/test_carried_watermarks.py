"""Watermarks that rows carry: both engines leave what the brute-force model says, whatever cuts, parallelism
and changes of engine there are (P1 to P3), also where rows of one millisecond see different watermarks.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.properties import test_engines, test_split_and_parallelism
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import FIXED, SESSIONS, check_engines
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of, left

ENGINES = {"operator": OperatorEngine(), "columnar": ColumnarEngine()}


def marks(least: int, ahead: int):
    """Rows whose x is greater than `least` carry their event time and `ahead`."""
    return lambda values, time: None if values["x"] is None or values["x"] <= least else time + ahead


@st.composite
def carrying(draw, replays):
    """A replay whose rows carry watermarks: many or few, below or above their own time; now and then all
    arrive within a few milliseconds.
    """
    rules, events = draw(replays)
    carried = marks(draw(st.sampled_from([0, 3, -6])), draw(st.sampled_from([-60, -1, 0, 25])))
    crowd = draw(st.sampled_from([1, 40]), label="milliseconds that become one")
    events = [
        event._replace(arrival=None if event.arrival is None else event.arrival // crowd * crowd)
        for event in events
    ]
    return replace(rules, carried=carried), events


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@given(carrying(test_split_and_parallelism.replays()))
@searched(8, long=60)
def test_one_run_is_what_the_model_says(engine, replay):
    rules, events = replay
    replayed = replay_pipeline(pipeline_of(rules, False), events, rules, [], [2], engines=[ENGINES[engine]])
    check_against_model(replayed, events, rules)


@pytest.mark.slow
@given(carrying(test_split_and_parallelism.replays()), st.data())
@searched(5, long=60)
def test_cuts_and_parallelism_do_not_show(replay, data):
    rules, events = replay
    pipeline = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    once = left(replay_pipeline(pipeline, events, rules, [], [1], engines=[ENGINES["columnar"]]))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5, 32]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    engines = [ENGINES[name] for name in data.draw(st.permutations(sorted(ENGINES)), label="engines")]
    assert left(replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, engines=engines)) == once


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("assigners", [FIXED, SESSIONS], ids=["fixed", "sessions"])
@given(st.data())
@searched(3, long=40)
def test_engines_leave_the_same(assigners, data):
    rules, events = data.draw(carrying(test_engines.replays(assigners)), label="replay")
    check_engines(pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data)


@pytest.mark.slow
@given(st.data())
@searched(2, long=30)
def test_the_function_is_handed_derived_columns_in_both_engines(data):
    rules, events = data.draw(carrying(test_engines.replays(FIXED)), label="replay")
    by_half = marks(1, data.draw(st.sampled_from([-30, 20])))
    rules = replace(rules, carried=lambda values, time: by_half({"x": values["twice"]}, time))
    pipeline = replace(pipeline_of(rules, False), derive={"twice": "2 * x"})
    check_engines(pipeline, rules, events, data)
