"""A pipeline over raw values, whose source derives the columns with roles and explodes lists, does what one
does over a source that holds the columns already. Cut or not, in any engine.
"""

import json
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.properties.search import searched
from tests.properties.slices import SCHEMA, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of, left, multiset, replays

IN_JSON = ("event_time", "arrival_time", "source", "row", "key", "x")
DERIVE = {
    "event_time": "epoch_ms(CAST(value ->> '$.event_time' AS BIGINT))",
    "arrival_time": "epoch_ms(CAST(value ->> '$.arrival_time' AS BIGINT))",
    "source": "value ->> '$.source'",
    "row": "CAST(value ->> '$.row' AS BIGINT)",
    "key": "value ->> '$.key'",
    "x": "CAST(value ->> '$.x' AS INTEGER)",
}
ENGINES = [ColumnarEngine(), OperatorEngine()]
COUNTS = ("rows_filtered", "rows_accepted", "rows_late", "rows_unassigned", "rows_quarantined")


def milliseconds(time):
    return None if time is None else round(time.timestamp() * 1000)


def as_json(rows, is_broken=lambda row: False):
    """The rows with the columns `IN_JSON` within JSON, as bytes: cut off where `is_broken`."""
    texts = []
    for row in rows.to_pylist():
        values = {name: milliseconds(row[name]) if "time" in name else row[name] for name in IN_JSON}
        text = json.dumps(values)
        texts.append((text[: len(text) // 2] if is_broken(row) else text).encode())
    return rows.drop_columns(list(IN_JSON)).append_column("value", pa.array(texts, pa.binary()))


def over_json(pipeline):
    return replace(pipeline, source=replace(pipeline.source, derive=DERIVE))


def drawn_replays(data, pipeline, events, rules, **options):
    """(replayed at once, replayed with cuts) by engines that are drawn."""
    engines = data.draw(st.permutations(ENGINES), label="engines")
    cuts = data.draw(cuts_of(rules), label="cuts")
    once = replay_pipeline(pipeline, events, rules, [], [2], engines=engines[:1], **options)
    cut = replay_pipeline(pipeline, events, rules, cuts, [1, 5], engines=engines, **options)
    return once, cut


@given(replays(), st.booleans(), st.data())
@searched(5, long=60)
def test_columns_out_of_json_count_as_if_the_source_held_them(replay, purging, data):
    rules, events = replay
    plain = pipeline_of(rules, purging)
    once, cut = drawn_replays(data, over_json(plain), events, rules, stored_as=as_json)
    assert left(cut) == left(once)
    expected = replay_pipeline(plain, events, rules, [], [2], engines=ENGINES[:1])
    assert multiset(once.panes) == multiset(expected.panes)
    assert multiset(once.windows) == multiset(expected.windows)
    assert len(once.late) == len(expected.late)
    assert once.counts == expected.counts
    assert once.state_hash == expected.state_hash


@pytest.mark.slow
@given(replays(), st.integers(2, 5), st.data())
@searched(4, long=40)
def test_broken_values_are_quarantined_and_leave_the_others_as_they_are(replay, every, data):
    rules, events = replay
    plain = pipeline_of(rules, False)
    once, cut = drawn_replays(
        data,
        over_json(plain),
        events,
        rules,
        stored_as=lambda rows: as_json(rows, lambda row: row["row"] % every == 0),
    )
    assert left(cut) == left(once)
    whole = [event for event in events if event.order % every]
    expected = replay_pipeline(plain, whole, rules, [], [2], engines=ENGINES[:1])
    assert multiset(once.panes) == multiset(expected.panes)
    failed = [row for row in once.quarantined if row["reason_code"] == "expression_failed"]
    assert len(failed) == len(events) - len(whole)
    assert all(row["column_name"] in DERIVE for row in failed)
    assert once.counts["rows_read"] == sum(once.counts[name] for name in COUNTS)


ITEM_DERIVE = {name: f"item.{name}" for name in ("event_time", "key", "x", "y")}
ITEMS = pa.list_(pa.struct([SCHEMA.field(name) for name in ITEM_DERIVE]))


def in_lists(events, random):
    """(the events with the arrival, source and order of the first of their list; the list of each)."""
    lists, grouped = 0, []
    for event in events:
        if not grouped or random.random() < 0.5:
            lists += 1
            first = event
        values = {**event.values, **{name: None for name in event.values if name not in ITEM_DERIVE}}
        grouped.append(
            event._replace(
                arrival=first.arrival, source=first.source, order=lists, values={**values, "code": lists}
            )
        )
    return grouped


def as_lists(rows):
    """One row for each list (`code`), with its items; and one with an empty or null list after each third."""
    by_list = {}
    for row in rows.to_pylist():
        by_list.setdefault(row["code"], []).append(row)
    stored = []
    for number, items in by_list.items():
        outer = {name: value for name, value in items[0].items() if name not in ITEM_DERIVE}
        stored.append({**outer, "items": [{name: item[name] for name in ITEM_DERIVE} for item in items]})
        if number % 3 == 0:
            stored.append({**outer, "items": [] if number % 2 else None})
    fields = [field for field in SCHEMA if field.name not in ITEM_DERIVE]
    return pa.Table.from_pylist(stored, schema=pa.schema([*fields, ("items", ITEMS)]))


@pytest.mark.slow
@given(replays(), st.integers(0, 2**32), st.data())
@searched(4, long=40)
def test_items_of_lists_count_as_rows_of_their_own(replay, seed, data):
    rules, events = replay
    events = in_lists(events, Random(seed))
    plain = pipeline_of(rules, False)
    source = replace(plain.source, explode="items", derive=ITEM_DERIVE)
    once, cut = drawn_replays(data, replace(plain, source=source), events, rules, stored_as=as_lists)
    assert left(cut) == left(once)
    expected = replay_pipeline(plain, events, rules, [], [2], engines=ENGINES[:1])
    assert multiset(once.panes) == multiset(expected.panes)
    assert multiset(once.windows) == multiset(expected.windows)
    assert once.counts["rows_accepted"] == expected.counts["rows_accepted"]
    assert once.counts["rows_read"] == sum(once.counts[name] for name in COUNTS)
