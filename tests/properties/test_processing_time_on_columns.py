"""Windows of processing time leave the same on columns as in the operator engine: panes, snapshots, timers,
counts and hashes; and a pipeline may change engine between any two runs (P3).
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    DynamicProcessingTimeSessionWindows,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.properties import test_engines, test_functions_on_columns
from tests.properties.search import searched
from tests.properties.slices import pipeline_of
from tests.properties.test_carried_watermarks import carrying
from tests.properties.test_engines import COUNTED, FIXED, purging_or_not, replays
from tests.properties.test_firings_on_columns import ALL_FUNCTIONS, gap_of

GRIDS = st.one_of(
    st.sampled_from([(1, 0), (10, 3), (40, 0), (100, -7)]).map(
        lambda sizes: TumblingProcessingTimeWindows(size_ms=sizes[0], offset_ms=sizes[1])
    ),
    st.sampled_from([(40, 20, 0), (50, 20, 7), (10, 30, 0), (100, 10, -9)]).map(
        lambda sizes: SlidingProcessingTimeWindows(size_ms=sizes[0], slide_ms=sizes[1], offset_ms=sizes[2])
    ),
)
SESSIONS = st.sampled_from([1, 2, 10, 40]).map(lambda gap: ProcessingTimeSessionWindows(gap_ms=gap))
DYNAMIC_SESSIONS = st.just(DynamicProcessingTimeSessionWindows(gap_ms_of=gap_of))
AT_THE_END = st.just(ProcessingTimeTrigger())


@st.composite
def declarations(draw: st.DrawFn, sessions: Any = SESSIONS) -> dict[str, Any]:
    is_session = draw(st.booleans(), label="sessions")
    return {
        "window": draw(sessions if is_session else GRIDS, label="window"),
        "trigger": draw(purging_or_not(AT_THE_END if is_session else AT_THE_END | COUNTED), label="trigger"),
    }


@pytest.mark.slow
@given(replays(FIXED), st.data())
@searched(4, long=24)
def test_engines_leave_the_same_of_windows_of_processing_time(replay: Any, data: st.DataObject) -> None:
    rules, events = replay
    pipeline = replace(pipeline_of(rules, False), **data.draw(declarations(), label="windows"))
    test_engines.check_engines(pipeline, rules, events, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_FUNCTIONS)
@given(replays(FIXED), st.data())
@searched(2, long=6)
def test_functions_see_the_same_of_windows_of_processing_time(
    name: str, replay: Any, data: st.DataObject
) -> None:
    rules, events = replay
    declared = data.draw(declarations(SESSIONS | DYNAMIC_SESSIONS), label="windows")
    pipeline = replace(pipeline_of(rules, False), select={}, **declared, **ALL_FUNCTIONS[name])
    is_exact = data.draw(st.booleans(), label="flink_exact")
    pipeline = replace(pipeline, flink_exact=is_exact)
    test_functions_on_columns.check_engines(pipeline, rules, events, data)


@pytest.mark.slow
@given(carrying(replays(FIXED)), st.data())
@searched(4, long=12)
def test_rows_that_carry_watermarks_move_no_window_of_processing_time(
    replay: Any, data: st.DataObject
) -> None:
    rules, events = replay
    declared = data.draw(declarations(SESSIONS | DYNAMIC_SESSIONS), label="windows")
    declared |= {"trigger": data.draw(purging_or_not(AT_THE_END), label="trigger")}
    name = "reads all columns"
    pipeline = replace(pipeline_of(rules, False), select={}, **declared, **ALL_FUNCTIONS[name])
    test_functions_on_columns.check_engines(pipeline, rules, events, data)
