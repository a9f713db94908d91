"""A few random pipelines, always the same, on Spark and in processes: however cut, divided and stored, they
leave what one process leaves in one run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar.engine import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.planner import choose, why_not_columnar
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.transport.in_process import Transport
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.engine.transport.task_processes import TaskProcesses
from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline
from slackwater.runtime.packaging import pickled
from slackwater.windowing.errors import WindowingError
from tests.model import records as model
from tests.properties import (
    process_pipelines,
    test_distinct_rows,
    test_pane_metrics,
    test_process_pipelines,
    test_window_pipelines,
    window_pipelines,
)
from tests.properties.slices import SCHEMA, Replayed, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of, replays

pytestmark = pytest.mark.slow

FIXED = settings(
    max_examples=8,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
Drawn = tuple[model.Replay, list[model.Event]]


@pytest.fixture(scope="module", params=["spark", "processes"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """Tasks in workers of Spark, which get these tests' classes by value, or in processes of this machine."""
    if request.param == "processes":
        carrier = InProcesses(TaskProcesses(2, partial(pickled, by_value=[])))
        yield carrier
        carrier.close()
    else:
        from pyspark import cloudpickle

        for module in (window_pipelines, process_pipelines):
            cloudpickle.register_pickle_by_value(module)
        yield OnSpark(request.getfixturevalue("spark"))


@FIXED
@given(window_pipelines.replays(), st.data())
def test_windows(elsewhere: Transport, replay: Drawn, data: st.DataObject) -> None:
    rules, _ = replay
    pipeline = data.draw(window_pipelines.pipelines(rules))
    engines: list[Engine] = [OperatorEngine()]
    if why_not_columnar(pipeline, SCHEMA) is None:
        engines.insert(0, choose(pipeline, SCHEMA).make())
    check(elsewhere, pipeline, replay, data, engines, test_window_pipelines.everything)


@FIXED
@given(window_pipelines.replays(), st.data())
def test_process_functions(elsewhere: Transport, replay: Drawn, data: st.DataObject) -> None:
    rules, _ = replay
    check(
        elsewhere,
        process_pipelines.pipeline_of(rules),
        replay,
        data,
        [OperatorEngine()],
        test_process_pipelines.everything,
    )


@FIXED
@given(replays(), st.data())
def test_deduplication(elsewhere: Transport, replay: Drawn, data: st.DataObject) -> None:
    rules, _ = replay
    pipeline = replace(pipeline_of(rules, False), distinct_by="x")
    engines = [ColumnarEngine(), OperatorEngine()]
    check(elsewhere, pipeline, replay, data, engines, test_distinct_rows.everything)


@FIXED
@given(replays(), st.data())
def test_validation(elsewhere: Transport, replay: Drawn, data: st.DataObject) -> None:
    """Tasks elsewhere take the metrics of panes that one task in one process takes."""
    rules, events = replay
    pipeline = test_pane_metrics.pipeline_with_expectations(rules, purging=False)
    cuts = data.draw(cuts_of(rules))
    in_one_process = replay_pipeline(pipeline, events, rules, cuts, [1])
    engines = [ColumnarEngine(), OperatorEngine()]
    cut_elsewhere = replay_pipeline(
        pipeline, events, rules, cuts, [5, 2], 3, engines=engines, transport=elsewhere
    )
    assert cut_elsewhere.checks == in_one_process.checks


def check(
    elsewhere: Transport,
    pipeline: Pipeline,
    replay: Drawn,
    data: st.DataObject,
    engines: list[Engine],
    of: Callable[[Replayed], Any],
) -> None:
    rules, events = replay
    cuts, ranges = (
        data.draw(cuts_of(rules)),
        data.draw(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3)),
    )

    def in_one_process() -> Any:
        return of(replay_pipeline(pipeline, events, rules, [], [1]))

    def cut_elsewhere() -> Any:
        return of(
            replay_pipeline(
                pipeline,
                events,
                rules,
                cuts,
                ranges,
                3,
                engines=engines,
                state_memory=[0, 1024],
                transport=elsewhere,
            )
        )

    assert or_error(cut_elsewhere) == or_error(in_one_process)


def or_error(replay: Callable[[], Any]) -> Any:
    """What a replay leaves, or that an error ended it, which Spark wraps into one of its own."""
    try:
        return replay()
    except (SlackwaterError, WindowingError):
        return "an error"
