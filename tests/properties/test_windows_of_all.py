"""Windows of all rows (`key_by=None`): what they hold is what windows of a key hold that every row has; cuts,
parallelism and the engine do not show.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine, element_windows
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.results import name_of
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import agg
from slackwater.windowing import (
    AllWindowFunction,
    ContinuousEventTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessAllWindowFunction,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tests.model import records as model
from tests.properties.keyed_model import expected
from tests.properties.own_windows import as_of_lanes, keyed_by_lane
from tests.properties.search import searched
from tests.properties.slices import SELECT, Replayed, declared, pipeline_of, replay_pipeline
from tests.properties.test_engines import FIXED, SESSIONS, check_engines
from tests.properties.test_engines import replays as late_replays
from tests.properties.test_own_windows import pipeline_with_lanes
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of, left
from tests.properties.test_split_and_parallelism import replays as modelled_replays
from tests.properties.test_window_pipelines import check_against_core, everything
from tests.properties.window_pipelines import replays as short_replays

GLOBAL: dict[str, Any] = {"window": GlobalWindows.create(), "allowed_lateness": timedelta(0)}
KINDS: dict[str, dict[str, Any]] = {
    "time": {},
    "count": {"trigger": CountTrigger.of(3)},
    "continuous": {"trigger": ContinuousEventTimeTrigger(interval_ms=40)},
    "global count": {**GLOBAL, "trigger": PurgingTrigger.of(CountTrigger.of(5))},
    "global continuous": {**GLOBAL, "trigger": ContinuousEventTimeTrigger(interval_ms=200)},
    "global at the end": {**GLOBAL, "trigger": EndOfStreamTrigger()},
}


@pytest.mark.first_fast
@pytest.mark.parametrize("kind", [*KINDS, "sessions"])
@given(late_replays(FIXED), late_replays(SESSIONS), st.data())
@searched(1, long=8)
def test_engines_cuts_and_parallelism_do_not_show(kind, fixed, sessions, data):
    rules, events = sessions if kind == "sessions" else fixed
    pipeline = pipeline_of(rules, purging=data.draw(st.booleans(), label="purging"))
    pipeline = replace(pipeline, **KINDS.get(kind, {}))
    check_engines(pipeline, rules, events, data, keys=[None])


@pytest.mark.slow
@given(modelled_replays(), st.data())
@searched(6, long=40)
def test_one_run_is_what_the_model_says_of_a_key_that_all_rows_have(replay, data):
    rules, events = replay
    pipeline = replace(pipeline_of(rules, purging=False), key_by=None)
    cuts = data.draw(cuts_of(rules), label="cuts")
    ours = replay_pipeline(pipeline, events, rules, cuts, [3, 1])
    check_against_model(of_one_key(ours), [event._replace(key="a") for event in events], rules)


class Trail(ProcessAllWindowFunction):
    """A row for each element in its order, odd ones in a side output, too."""

    def process(self, context: Any, elements: Any) -> Any:
        for position, element in enumerate(elements):
            yield (position, element.x, context.current_watermark)
            if (element.x or 0) % 2:
                context.output("odd", (element.x,))

    def clear(self, context: Any) -> None:
        context.output("odd", (-1,))


class Rows(AllWindowFunction):
    """The rows of the elements in their order, as one list."""

    def apply(self, window: Any, inputs: Any) -> Any:
        return [[element.row for element in inputs]]


FUNCTIONS = {
    "process": {
        "process": Trail(),
        "output": "position long, x int, watermark_then long",
        "side_outputs": {"odd": "odd_x int"},
    },
    "apply": {"process": Rows(), "output": "rows array<long>"},
    "reduce": {
        "reduce": lambda a, b: b._replace(x=((a.x or 0) * 31 + (b.x or 0)) % 1009),
        "output": "x int, row long",
        "columns": ["x", "row"],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@given(short_replays(), st.data())
@searched(3, long=25)
def test_functions_of_all_elements_give_what_the_core_gives_of_one_key(function, replay, data):
    rules, events = replay
    window = TumblingEventTimeWindows(size_ms=12)
    pipeline = declared(rules, key_by=None, window=window, **FUNCTIONS[function])

    def run(cuts: list[int], ranges: list[int]) -> Replayed:
        return replay_pipeline(pipeline, events, rules, cuts, ranges, engines=[OperatorEngine()])

    once = run([], [2])
    of_one_key_events = [event._replace(key="a") for event in events]
    check_against_core(pipeline, of_one_key(once), expected(pipeline, of_one_key_events, rules))
    cuts = data.draw(cuts_of(rules), label="cuts")
    assert everything(run(cuts, [1, 7])) == everything(once)


def of_one_key(replayed: Replayed) -> Replayed:
    """Rows of windows of all, as the models have those of the key a."""
    names = ("panes", "late", "windows", "keyed", "timers")
    with_key = {name: [{**row, "key": "a"} for row in getattr(replayed, name)] for name in names}
    sides = {tag: [{**row, "key": "a"} for row in rows] for tag, rows in replayed.sides.items()}
    assert all("key" not in row for name in names if name != "late" for row in getattr(replayed, name))
    return replace(replayed, **with_key, sides=sides)


@pytest.mark.parametrize("rows_per_cell", [0, 1 << 40], ids=["combined", "one by one"])
def test_of_elements_that_arrive_together_the_first_in_order_arms_the_window(rows_per_cell):
    start, tick = 1_000_000, 50
    rules = model.Replay(start, start + 400, tick, 100, model.Tumbling(100), 0, None)
    # The row with the least order column is neither the first of the source nor of the least time.
    early = [
        model.Event(start + ahead, start + 20, "s", order, "a", {"x": order})
        for order, ahead in ((5, 12), (3, 34), (9, 2), (4, 19), (8, 44))
    ]
    events = [*early, model.Event(start + 320, start + 320, "s", 99, "a", {"x": 1})]
    trigger = ContinuousEventTimeTrigger(interval_ms=10)
    pipeline = declared(rules, key_by=None, select=SELECT, window=GlobalWindows.create(), trigger=trigger)
    with patch.object(element_windows, "ROWS_PER_CELL", rows_per_cell):
        ours, theirs = (
            replay_pipeline(pipeline, events, rules, [], [1], engines=[engine])
            for engine in (ColumnarEngine(), OperatorEngine())
        )
    assert left(ours) == left(theirs)
    # Armed at 34, it fires at 40, 50, … up to the watermark 320 - 100 - 1.
    assert [pane["elements"] for pane in ours.panes][:2] == [6, 6] and len(ours.panes) == 18


class CountingRows(InProcess):
    """Counts the rows that map tasks send to ranges, but for those with counts."""

    rows_sent = 0

    def shuffle(self, scan: Any, task: Any, ranges: int, reduce: Any) -> Any:
        def reduce_counted(number: int, tables: Any) -> Any:
            tables = list(tables)
            self.rows_sent += sum(table.num_rows for table in tables if name_of(table) != "counts")
            return reduce(number, tables)

        return super().shuffle(scan, task, ranges, reduce_counted)


SESSIONS_OF_30_MS = {"window": EventTimeSessionWindows(gap_ms=30)}


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        # Two files of the source; windows of 100 ms, in each some rises of the watermark, every 50 ms.
        ({}, 8, 2 * 4),
        (SESSIONS_OF_30_MS, 2, 2),
        (KINDS["continuous"], 8, 2 * (4 + 8)),
        (KINDS["global continuous"], 8, 2 * 8),
        (KINDS["global at the end"], 8, 2 * 8),
        (KINDS["count"], 4_000, 4_000),
    ],
    ids=["time", "sessions", "continuous", "global continuous", "global at the end", "count"],
)
def test_rows_are_combined_before_they_meet_in_one_task(kind, least, most):
    start = 1_000_000
    rules = model.Replay(start, start + 400, 50, 20, model.Tumbling(100), 0, None)
    events = [
        model.Event(start + n // 10, start + n // 10, "s", n, f"key {n}", {"x": n % 7, "y": 0.5})
        for n in range(4_000)
    ]
    transport = CountingRows()
    pipeline = replace(pipeline_of(rules, purging=False), key_by=None, select={"n": agg.count()}, **kind)
    ours = replay_pipeline(pipeline, events, rules, [], [4], engines=[ColumnarEngine()], transport=transport)
    assert ours.counts["rows_accepted"] == 4_000
    assert least <= transport.rows_sent <= most


@pytest.mark.slow
@given(late_replays(FIXED | SESSIONS), st.data())
@searched(4, long=30)
def test_rows_of_all_are_deduplicated_in_both_engines_however_cut(replay, data):
    rules, events = replay
    pipeline = replace(pipeline_of(rules, purging=False), key_by=None, distinct_by=("x", "code"))
    cuts = data.draw(cuts_of(rules), label="cuts")
    once = replay_pipeline(pipeline, events, rules, [], [1], engines=[OperatorEngine()])
    ours = replay_pipeline(
        pipeline, events, rules, cuts, [3, 1], engines=[ColumnarEngine(), OperatorEngine()]
    )
    assert everything(ours) == everything(once)
    assert once.counts["rows_duplicate"] == ours.counts["rows_duplicate"]


@given(modelled_replays(), st.booleans(), st.data())
@searched(3, long=20)
def test_windows_of_an_own_class_may_be_of_all_rows(replay, has_bounds, data):
    rules, events = replay
    pipeline = replace(pipeline_with_lanes(rules, has_bounds), key_by=None)
    ours = replay_pipeline(pipeline, events, rules, data.draw(cuts_of(rules), label="cuts"), [2, 1])
    of_key_a = [event._replace(key="a") for event in events]
    check_against_model(as_of_lanes(of_one_key(ours)), keyed_by_lane(of_key_a), rules)
