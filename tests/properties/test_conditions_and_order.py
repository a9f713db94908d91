"""Rows that do not meet a pipeline's condition might never have come; in order of events each row arrives as
it happens. Cut or not, in any engine.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of, left, replays

# Each condition with what it says of a key and an x, by hand.
CONDITIONS = {
    "x > 0": lambda key, x: x is not None and x > 0,
    "key <> 'b' OR x IS NULL": lambda key, x: (key is not None and key != "b") or x is None,
    "NOT (key = 'a' AND x BETWEEN -1 AND 2)": lambda key, x: (
        (key is not None and key != "a") or (x is not None and not -1 <= x <= 2)
    ),
}


@pytest.mark.slow
@given(replays(), st.sampled_from(sorted(CONDITIONS)), st.data())
@settings(max_examples=30)
def test_rows_that_do_not_meet_the_condition_might_never_have_come(replay, condition, data):
    rules, events = replay
    pipeline = replace(pipeline_of(rules, False), where=condition)
    once = replay_pipeline(pipeline, events, rules, [], [2])
    assert left(
        replay_pipeline(pipeline, events, rules, data.draw(cuts_of(rules), label="cuts"), [1, 5])
    ) == left(once)
    meets = CONDITIONS[condition]
    kept = [event for event in events if meets(event.key, event.values["x"])]
    read = [event for event in events if event.arrival is None or rules.start <= event.arrival < rules.to]
    assert once.counts["rows_filtered"] == len(
        [event for event in read if not meets(event.key, event.values["x"])]
    )
    once.counts["rows_read"] -= once.counts["rows_filtered"]
    check_against_model(once, kept, rules)


@pytest.mark.slow
@given(replays(), st.sampled_from(sorted(CONDITIONS)), st.sampled_from(["arrival", "event"]), st.data())
@searched(8, long=40)
def test_both_engines_leave_the_same(replay, condition, order, data):
    rules, events = replay
    pipeline = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    source = replace(pipeline.source, order=order)
    pipeline = replace(
        pipeline,
        where=condition,
        source=source,
        select={"n": agg.count(), "total": agg.sum("x"), "greatest": agg.max("y")},
    )
    cuts = data.draw(cuts_of(rules), label="cuts")
    engines = data.draw(st.permutations([ColumnarEngine(), OperatorEngine()]), label="engines")
    assert left(replay_pipeline(pipeline, events, rules, cuts, [1, 5], engines=engines)) == left(
        replay_pipeline(pipeline, events, rules, cuts, [2], engines=engines[1:])
    )


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=20)
def test_in_order_of_events_a_row_arrives_at_its_event_time(replay, data):
    rules, events = replay
    pipeline = pipeline_of(rules, False)
    pipeline = replace(pipeline, source=replace(pipeline.source, order="event"))
    once = replay_pipeline(pipeline, events, rules, [], [2])
    assert left(
        replay_pipeline(pipeline, events, rules, data.draw(cuts_of(rules), label="cuts"), [1, 5])
    ) == left(once)
    check_against_model(once, [event._replace(arrival=event.event_time) for event in events], rules)
