"""A pipeline with derived columns does what one does over a source that holds their values already, without
the rows on which they fail. Cut or not, in any engine.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of, left, multiset, replays

DERIVE = {
    "document": "to_json({'user': {'number': x}, 'tags': ['grün', key]})",
    "who": "(document ->> '$.tags[1]') || CASE WHEN x < 0 THEN '-' ELSE '+' END",
    "share": "12 / CAST(document -> 'user' AS STRUCT(number INTEGER)).number",
    "great_share": "abs(share) > 3",
}
WHERE = "row % 7 <> 3 AND key NOT LIKE '%2'"
SELECT = {
    "n": agg.count(),
    "total": agg.sum("share"),
    "great": agg.count(where="great_share"),
    "latest": agg.last("share"),
    "odd": agg.count(where="share % 2 <> 0"),
}
SELECT_OF_VALUES = {
    "n": agg.count(),
    "total": agg.sum("x"),
    "great": agg.count(where="x > 3 OR x < -3"),
    "latest": agg.last("x"),
    "odd": agg.count(where="x IN (-3, 3)"),  # the only odd quotients besides 1 and -1, which 12 / x never is
}


def passes(event):
    return event.order % 7 != 3 and event.key is not None and not event.key.endswith("2")


def fails(event):
    return event.values["x"] == 0


def with_values(event):
    """The event as a source would have it that holds the derived values."""
    x = event.values["x"]
    who = None if event.key is None else event.key + ("-" if x is not None and x < 0 else "+")
    share = None if x is None else 12 // abs(x) * (1 if x > 0 else -1)
    return event._replace(key=who, values={**event.values, "x": share})


def under_other_names(rows):
    return [{("key" if name == "who" else name): value for name, value in row.items()} for row in rows]


@pytest.mark.slow
@given(replays(), st.sampled_from(["arrival", "event"]), st.booleans(), st.data())
@searched(4, long=60)
def test_derived_values_count_as_if_the_source_held_them(replay, order, purging, data):
    rules, events = replay
    plain = pipeline_of(rules, purging)
    plain = replace(plain, source=replace(plain.source, order=order))
    pipeline = replace(plain, derive=DERIVE, where=WHERE, key_by="who", select=SELECT)
    cuts = data.draw(cuts_of(rules), label="cuts")
    engines = data.draw(st.permutations([ColumnarEngine(), OperatorEngine()]), label="engines")
    once = replay_pipeline(pipeline, events, rules, [], [2], engines=engines[:1])
    assert left(replay_pipeline(pipeline, events, rules, cuts, [1, 5], engines=engines)) == left(once)

    usable = [with_values(event) for event in events if passes(event) and not fails(event)]
    expected = replay_pipeline(
        replace(plain, select=SELECT_OF_VALUES), usable, rules, [], [2], engines=engines[1:]
    )
    assert multiset(under_other_names(once.panes), "key_group") == multiset(expected.panes, "key_group")
    assert len(once.late) == len(expected.late)
    reasons = [row["reason"] for row in once.quarantined if row["reason_code"] == "expression_failed"]
    assert all(reason.startswith("derive['share'] fails on this row: ") for reason in reasons)
    no_arrivals = sum(  # of failing rows: the reason is the arrival, which is judged first
        passes(event) and fails(event) and (event.arrival if order == "arrival" else event.event_time) is None
        for event in events
    )
    assert len(once.quarantined) - len(reasons) == len(expected.quarantined) + no_arrivals
    assert once.counts["rows_accepted"] == expected.counts["rows_accepted"]
    assert once.counts["rows_read"] == sum(
        once.counts[name]
        for name in ("rows_filtered", "rows_accepted", "rows_late", "rows_unassigned", "rows_quarantined")
    )
