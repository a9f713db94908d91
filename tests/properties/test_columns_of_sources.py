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
from tests.properties.raw_columns import raw_columns
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_growing_pipelines import RESULTS_WITH_HASHES
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
@searched(3, long=60)
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
    sound_events = [event for event in events if event.order % every]
    expected = replay_pipeline(plain, sound_events, rules, [], [2], engines=ENGINES[:1])
    assert multiset(once.panes) == multiset(expected.panes)
    failed = [row for row in once.quarantined if row["reason_code"] == "expression_failed"]
    assert len(failed) == len(events) - len(sound_events)
    assert all(row["column_name"] in DERIVE for row in failed)
    assert once.counts["rows_read"] == sum(once.counts[name] for name in COUNTS)


IN_ITEMS = ("event_time", "key", "x", "y")


def in_lists(events, random):
    """The events with the arrival, source and order of the first of their list, whose number is `code`."""
    lists, grouped = 0, []
    for event in events:
        if not grouped or random.random() < 0.5:
            lists += 1
            first = event
        grouped.append(
            event._replace(
                arrival=first.arrival,
                source=first.source,
                order=lists,
                values={"x": None, "y": None, **event.values, "code": lists},
            )
        )
    return grouped


def numbered(events):
    return [event._replace(values={**event.values, "far": number}) for number, event in enumerate(events)]


def broken_columns(data, columns, events):
    """The number of an event → the column that is broken in its row; of a fifth of the rows, or of none."""
    if not columns.breakable or not data.draw(st.booleans(), label="some rows are broken"):
        return {}
    random = Random(data.draw(st.integers(0, 2**32), label="seed of broken rows"))
    breakable = [name for name in columns.breakable if not columns.in_items or name in columns.in_items]
    if not breakable:
        return {}
    return {number: random.choice(breakable) for number in range(len(events)) if random.random() < 0.2}


def without_hashes(windows):
    return [
        {name: value for name, value in window.items() if not name.startswith(RESULTS_WITH_HASHES)}
        for window in windows
    ]


def check_raw_columns(columns, stored_as, plain, events, rules, data):
    """`stored_as` are the rows of the columns, given those of the events and the broken ones."""
    broken = broken_columns(data, columns, events)
    once, cut = drawn_replays(
        data, columns.over(plain), events, rules, stored_as=lambda rows: stored_as(rows, broken)
    )
    assert left(cut) == left(once)
    sound_events = [event for number, event in enumerate(events) if number not in broken]
    expected = replay_pipeline(plain, sound_events, rules, [], [2], engines=ENGINES[:1])
    assert multiset(once.panes) == multiset(expected.panes)
    if columns.derives_key_in_pipeline:  # which then reads another column, whose hash elements have
        once.windows, expected.windows = map(without_hashes, (once.windows, expected.windows))
    else:
        assert once.state_hash == expected.state_hash
    assert multiset(once.windows) == multiset(expected.windows)
    assert len(once.late) == len(expected.late)
    # Of these a row without an arrival is the first run's.
    events_of_runs = [
        events[number]
        for number, column in broken.items()
        if events[number].arrival is None
        or column == "arrival_time"
        or rules.start <= events[number].arrival < rules.to
    ]
    assert once.counts["rows_quarantined"] == expected.counts["rows_quarantined"] + len(events_of_runs)
    failed = [row["column_name"] for row in once.quarantined if row["reason_code"] == "expression_failed"]
    assert set(failed) <= set(broken.values())
    assert once.counts["rows_accepted"] == expected.counts["rows_accepted"]
    assert once.counts["rows_read"] == sum(once.counts[name] for name in COUNTS)


@given(replays(), raw_columns(), st.data())
@searched(3, long=150)
def test_columns_in_any_shape_count_as_if_the_source_held_them(replay, columns, data):
    rules, events = replay
    plain = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    check_raw_columns(columns, columns.stored, plain, numbered(events), rules, data)


@pytest.mark.slow
@given(replays(), raw_columns(), st.integers(0, 2**32), st.data())
@searched(4, long=100)
def test_items_of_lists_in_any_shape_count_as_rows_of_their_own(replay, columns, seed, data):
    rules, events = replay
    # The items of a list have one place in the order, and are told apart by the hash of the columns that are
    # read, which is another one where the pipeline derives the key.
    columns = replace(columns, in_items=IN_ITEMS, key_by=False)
    events = numbered(in_lists(events, Random(seed)))
    check_raw_columns(columns, columns.stored_in_lists, pipeline_of(rules, False), events, rules, data)
