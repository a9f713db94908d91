"""Whatever settings change between the runs of a lineage, what is parked is carried on as the models
define the change: in both engines, any number of ranges and any state back end; for windows and triggers
of every kind, and for process functions.
"""

from bisect import bisect_right
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.windowing import GlobalWindow, WatermarkStrategy
from tests.model import brute_force
from tests.model import records as model
from tests.properties import keyed_model, process_pipelines, test_process_pipelines, window_pipelines
from tests.properties.search import searched
from tests.properties.slices import AGGREGATES, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import START, check_against_model, cuts_of
from tests.properties.test_window_pipelines import check_against_core, everything, outcome_of

LENGTH = 1200
COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
ASSIGNERS = (
    *(model.Tumbling(60), model.Tumbling(100, 7), model.Sliding(90, 30), model.Sliding(130, 60, 11)),
    *(model.Session(30), model.Session(80)),
)
TICKS = (20, 30, 50, 100)
Rules = Mapping[str, Any]


class Past(NamedTuple):
    """A lineage whose settings change: `changes` holds for each cut the rules of the model from there on,
    all of them."""

    rules: model.Replay
    events: list[model.Event]
    changes: dict[int, Rules]

    @property
    def of_slices(self) -> list[Rules]:
        """The rules of each slice."""
        first = {name: getattr(self.rules, name) for name in RULES}
        return [first, *(self.changes[cut] for cut in sorted(self.changes))]


RULES = {
    "allowed_lateness": st.sampled_from([0, 10, 30, 200, 1000]),
    "bound": st.sampled_from([0, 5, 20, 75]),
    "idle_timeout": st.sampled_from([None, 30, 60, 150]),
    "max_ahead": st.sampled_from([5, 20, 100_000]),
    "max_behind": st.sampled_from([None, 100, 400]),
    "tick": st.sampled_from(TICKS),
}


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Rules, events of which many are late, from two source partitions that pause, and cuts at which one
    rule or several change."""
    drawn = {name: draw(values) for name, values in RULES.items()}
    rules = model.Replay(
        start=START,
        to=START + LENGTH,
        assigner=draw(st.sampled_from(ASSIGNERS)),
        aggregates=AGGREGATES,
        **drawn,
    )
    step = st.sampled_from(range(START + 100, START + LENGTH, 100)) | st.integers(
        START + 1, START + LENGTH - 1
    )
    changes = {}
    for cut in sorted(draw(st.sets(step, min_size=1, max_size=5))):
        for name in draw(st.sets(st.sampled_from(sorted(RULES)), max_size=3)):
            value = draw(RULES[name])
            if name != "tick" or not (cut % value or cut % drawn["tick"]):
                drawn[name] = value
        changes[cut] = dict(drawn)
    random = Random(draw(st.integers(0, 2**32), label="seed"))
    return Past(
        rules, [_event(random, number) for number in range(draw(st.sampled_from([60, 90, 120])))], changes
    )


def _event(random: Random, number: int) -> model.Event:
    """One event, in time, a little early or very late. The second source partition pauses in every other
    stretch of 200."""
    arrival = random.randint(0, LENGTH - 1)
    source = "t" if arrival // 200 % 2 and random.random() < 0.4 else "s"
    delay = random.choice([random.randint(-3, 30), random.randint(-30, 10), random.randint(50, 700)])
    values = {"x": random.randint(-5, 6), "y": random.choice([0.1, 1e300, float("nan")])}
    return model.Event(START + arrival - delay, START + arrival, source, number, random.choice("aab"), values)


def declarations(rules: Rules) -> dict[str, Any]:
    """The rules as a pipeline declares them."""
    watermarks = WatermarkStrategy.bounded_out_of_orderness(_ms(rules["bound"])).with_interval(
        _ms(rules["tick"])
    )
    if rules["idle_timeout"] is not None:
        watermarks = watermarks.with_idleness(_ms(rules["idle_timeout"]))
    return {
        "watermarks": watermarks,
        "allowed_lateness": _ms(rules["allowed_lateness"]),
        "max_ahead": _ms(rules["max_ahead"]),
        "max_behind": None if rules["max_behind"] is None else _ms(rules["max_behind"]),
    }


def _ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


@pytest.mark.slow
@given(pasts(), st.data())
@searched(3, long=12)
def test_changed_settings_count_from_their_cut_on_for_what_is_parked_as_the_model_says(
    past: Past, data: st.DataObject
) -> None:
    check_past(past, data)


@pytest.mark.slow
@given(pasts(), st.data())
@settings(max_examples=150)
def test_changed_settings_count_from_their_cut_on_in_many_more_lineages(
    past: Past, data: st.DataObject
) -> None:
    check_past(past, data)


def check_past(past: Past, data: st.DataObject) -> None:
    engines = data.draw(
        st.lists(st.sampled_from([OPERATOR, COLUMNAR]), min_size=1, max_size=3), label="engines"
    )
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=3), label="ranges")
    memory = data.draw(
        st.sampled_from([[1024], [0, 1024], [1024, 0, 0]]), label="memory: none puts state in RocksDB"
    )
    ours = replay_pipeline(
        pipeline_of(past.rules, False),
        past.events,
        past.rules,
        sorted(past.changes),
        ranges,
        engines=engines,
        state_memory=memory,
        settings=[declarations(rules) for rules in past.of_slices],
    )
    check_against_model(ours, past.events, past.rules, past.changes)


@st.composite
def changes_of_watermarks(draw: st.DrawFn, rules: model.Replay) -> dict[int, Rules]:
    """For each of some cuts the bound, the idle timeout and the interval from there on."""
    drawn: dict[str, Any] = {name: getattr(rules, name) for name in ("bound", "idle_timeout", "tick")}
    changes = {}
    for cut in sorted({START + 20, *draw(cuts_of(rules), label="cuts")}):
        if cut >= rules.to:
            continue
        drawn |= {
            "bound": draw(st.sampled_from([0, 5, 15, 40])),
            "idle_timeout": draw(st.sampled_from([None, 4, 12])),
        }
        tick = draw(st.sampled_from([4, 5, 10]))
        if not (cut % tick or cut % drawn["tick"]):
            drawn["tick"] = tick
        changes[cut] = dict(drawn)
    return changes


@st.composite
def without_effect(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that mean nothing as long as no function raises and all state is of plain values."""
    return {
        "on_error": draw(st.sampled_from(["fail", "quarantine"])),
        "pickled_state": draw(st.booleans()),
        "expect": [],
        "stragglers": draw(st.sampled_from(["fold", "restate"])),
        "slice": draw(st.sampled_from([timedelta(days=1), timedelta(hours=1)])),
    }


def watermarks_of(rules: model.Replay, changes: Mapping[int, Rules]) -> list[dict[str, Any]]:
    """What each slice declares of watermarks."""
    first = {name: getattr(rules, name) for name in ("bound", "idle_timeout", "tick")}
    others = {"allowed_lateness": 0, "max_ahead": 0, "max_behind": None}
    whole = [{**first, **others}, *({**first, **change, **others} for change in changes.values())]
    return [{"watermarks": declarations(rules)["watermarks"]} for rules in whole]


@pytest.mark.slow
@given(window_pipelines.replays(), st.data())
@searched(8, long=40)
def test_changed_watermarks_are_those_of_one_timeline_whatever_the_windows_and_triggers(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline = data.draw(window_pipelines.pipelines(rules), label="pipeline")
    changes = data.draw(changes_of_watermarks(rules), label="changes")
    declared = [{**item, **data.draw(without_effect())} for item in watermarks_of(rules, changes)]
    memory = data.draw(st.sampled_from([[1024], [0, 1024]]), label="memory")
    timeline = brute_force.replay(events, rules, changes).timeline
    ours = outcome_of(
        lambda: replay_pipeline(
            pipeline, events, rules, sorted(changes), [1, 3], settings=declared, state_memory=memory
        )
    )
    check_against_core(
        pipeline, ours, outcome_of(lambda: keyed_model.expected(pipeline, events, rules, timeline))
    )


@given(window_pipelines.replays(), st.data())
@searched(6, long=24)
def test_changed_watermarks_are_those_of_one_timeline_for_process_functions(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    changes = data.draw(changes_of_watermarks(rules), label="changes")
    declared = [{**item, **data.draw(without_effect())} for item in watermarks_of(rules, changes)]
    memory = data.draw(st.sampled_from([[1024], [0, 1024]]), label="memory")
    timeline = brute_force.replay(events, rules, changes).timeline
    pipeline = process_pipelines.pipeline_of(rules)
    ours = replay_pipeline(
        pipeline, events, rules, sorted(changes), [1, 3], settings=declared, state_memory=memory
    )
    theirs = process_pipelines.expected(process_pipelines.Watch(), events, rules, timeline)
    test_process_pipelines.check_against_core(ours, theirs)


@pytest.mark.slow
@given(window_pipelines.replays(), st.data())
@settings(max_examples=60)
def test_cuts_at_which_nothing_changes_do_not_show_between_those_at_which_settings_do(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    """Also of the allowed lateness, for triggers, evictors and functions of every kind."""
    rules, events = replay
    pipeline = data.draw(window_pipelines.pipelines(rules), label="pipeline")
    changes = data.draw(changes_of_watermarks(rules), label="changes")
    lateness = st.sampled_from([0, 3, 7, 30, 100])
    declared = [
        {**item, "allowed_lateness": _ms(data.draw(lateness))} for item in watermarks_of(rules, changes)
    ]
    if pipeline.windows.window_type is GlobalWindow:
        declared = [{**item, "allowed_lateness": pipeline.allowed_lateness} for item in declared]
    cuts = sorted(changes)
    finer = sorted({*cuts, *data.draw(cuts_of(rules), label="more cuts")})
    memory = data.draw(st.sampled_from([[1024], [0, 1024]]), label="memory")

    def run(cuts_: list[int], ranges: list[int], memory_: list[int]) -> Any:
        of_slices = [declared[bisect_right(cuts, cut)] for cut in (rules.start, *cuts_)]
        return outcome_of(
            lambda: everything(
                replay_pipeline(
                    pipeline, events, rules, cuts_, ranges, settings=of_slices, state_memory=memory_
                )
            )
        )

    assert run(finer, [1, 3], memory) == run(cuts, [2], [1024])
