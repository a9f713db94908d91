"""However few key groups a pipeline has, its keys are divided among as many ranges and parts of ranges as
needed, and nothing of it shows: panes, snapshots, counts and hashes are those of one range, and either run
restores what the other has parked.
"""

import dataclasses
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying import task_memory
from tests.properties import process_pipelines
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import SELECT, replays
from tests.properties.test_process_pipelines import everything as everything_of_process
from tests.properties.test_split_and_parallelism import cuts_of
from tests.properties.test_window_pipelines import everything, short_pieces, spilling_soon
from tests.properties.window_pipelines import replays as short_replays

COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
KEYS = (["key"], ["code"], ["flag", "key"], ["day", "code"])


@st.composite
def divisions(draw):
    """Of each slice in turn: the number of ranges, and megabytes; zero has each range merged in parts, or its
    state in RocksDB.
    """
    ranges = draw(st.lists(st.sampled_from([1, 3, 7, 40]), min_size=1, max_size=3), label="ranges")
    memory = draw(st.lists(st.sampled_from([0, 1024]), min_size=1, max_size=2), label="memory")
    return ranges, memory


def with_more_keys(events):
    """The events with four times as many keys."""
    return [
        event._replace(
            key=None if event.key is None else f"{event.key}{event.order}",
            values={
                **event.values,
                "code": None if event.values["code"] is None else event.values["code"] + 10 * event.order,
            },
        )
        for event in events
    ]


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("deduplicates", [False, True], ids=["all rows", "first rows"])
@given(replays(), st.sampled_from([1, 2, 128]), st.sampled_from(KEYS), divisions(), st.data())
@searched(3, long=30)
def test_no_division_of_key_groups_shows(deduplicates, replay, max_parallelism, key_by, division, data):
    rules, events = replay[0], with_more_keys(replay[1])
    names = data.draw(st.sets(st.sampled_from(sorted(SELECT)), min_size=1, max_size=3), label="select")
    pipeline = dataclasses.replace(
        pipeline_of(rules, purging=data.draw(st.booleans(), label="purging")),
        key_by=key_by,
        max_parallelism=max_parallelism,
        select={name: SELECT[name] for name in sorted(names)},
        distinct_by=("x", "y") if deduplicates else None,
    )
    cuts = data.draw(cuts_of(rules), label="cuts")
    once = everything(replay_pipeline(pipeline, events, rules, cuts, [1], engines=[OPERATOR]))
    ranges, memory = division
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    engines = data.draw(st.sampled_from([[COLUMNAR], [OPERATOR], [COLUMNAR, OPERATOR]]), label="engines")
    with patch.object(task_memory, "ROWS_WORTH_A_PART", 1):
        ours = replay_pipeline(
            pipeline, events, rules, cuts, ranges, file_rows, engines=engines, state_memory=memory
        )
    assert everything(ours) == once


@pytest.mark.slow
@given(short_replays(), st.sampled_from([1, 2]), divisions(), st.data())
@settings(max_examples=8)
def test_a_process_function_is_divided_with_its_state_and_timers(replay, max_parallelism, division, data):
    rules, events = replay
    pipeline = process_pipelines.pipeline_of(rules, max_parallelism=max_parallelism)
    cuts, file_rows = data.draw(cuts_of(rules), label="cuts"), data.draw(st.sampled_from([1, 1000]))
    ranges, memory = division
    with short_pieces():
        once = everything_of_process(replay_pipeline(pipeline, events, rules, cuts, [1]))
        with spilling_soon():
            ours = replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, state_memory=memory)
    assert everything_of_process(ours) == once
