"""Whatever settings change between the runs of a lineage, what is parked is carried on as the model defines the change: in both
engines, any number of ranges and any state back end.
"""

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engines.columnar import ColumnarEngine
from jobs.engines.operator import OperatorEngine
from tests.model import records as model
from tests.properties.slices import AGGREGATES, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import START, check_against_model
from windowing import WatermarkStrategy

LENGTH = 1200
COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
ASSIGNERS = (
    *(model.Tumbling(60), model.Tumbling(100, 7), model.Sliding(90, 30), model.Sliding(130, 60, 11)),
    *(model.Session(30), model.Session(80)),
)
TICKS = (20, 30, 50, 100)
Rules = Mapping[str, Any]


class Past(NamedTuple):
    """A lineage whose settings change: `changes` holds for each cut the rules of the model from there on, all of them."""

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
    "tick": st.sampled_from(TICKS),
}


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Rules, events of which many are late, from two source partitions that pause, and cuts at which one rule or several change."""
    drawn = {name: draw(values) for name, values in RULES.items()}
    rules = model.Replay(start=START, to=START + LENGTH, assigner=draw(st.sampled_from(ASSIGNERS)), aggregates=AGGREGATES, **drawn)
    step = st.sampled_from(range(START + 100, START + LENGTH, 100)) | st.integers(START + 1, START + LENGTH - 1)
    changes = {}
    for cut in sorted(draw(st.sets(step, min_size=1, max_size=5))):
        for name in draw(st.sets(st.sampled_from(sorted(RULES)), max_size=3)):
            value = draw(RULES[name])
            if name != "tick" or not (cut % value or cut % drawn["tick"]):
                drawn[name] = value
        changes[cut] = dict(drawn)
    random = Random(draw(st.integers(0, 2**32), label="seed"))
    return Past(rules, [_event(random, number) for number in range(draw(st.sampled_from([60, 90, 120])))], changes)


def _event(random: Random, number: int) -> model.Event:
    """One event, in time, a little early or very late. The second source partition pauses in every other stretch of 200."""
    arrival = random.randint(0, LENGTH - 1)
    source = "t" if arrival // 200 % 2 and random.random() < 0.4 else "s"
    delay = random.choice([random.randint(-3, 30), random.randint(-30, 10), random.randint(50, 700)])
    values = {"x": random.randint(-5, 6), "y": random.choice([0.1, 1e300, float("nan")])}
    return model.Event(START + arrival - delay, START + arrival, source, number, random.choice("aab"), values)


def declarations(rules: Rules) -> dict[str, Any]:
    """The rules as a pipeline declares them."""
    watermarks = WatermarkStrategy.bounded_out_of_orderness(_ms(rules["bound"])).with_interval(_ms(rules["tick"]))
    if rules["idle_timeout"] is not None:
        watermarks = watermarks.with_idleness(_ms(rules["idle_timeout"]))
    return {
        "watermarks": watermarks,
        "allowed_lateness": _ms(rules["allowed_lateness"]),
        "max_ahead": _ms(rules["max_ahead"]),
    }


def _ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


@given(pasts(), st.data())
@settings(max_examples=15)
def test_changed_settings_count_from_their_cut_on_for_what_is_parked_as_the_model_says(past: Past, data: st.DataObject) -> None:
    check_past(past, data)


@pytest.mark.slow
@given(pasts(), st.data())
@settings(max_examples=400)
def test_changed_settings_count_from_their_cut_on_in_many_more_lineages(past: Past, data: st.DataObject) -> None:
    check_past(past, data)


def check_past(past: Past, data: st.DataObject) -> None:
    engines = data.draw(st.lists(st.sampled_from([OPERATOR, COLUMNAR]), min_size=1, max_size=3), label="engines")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=3), label="ranges")
    memory = data.draw(st.sampled_from([[1024], [0, 1024], [1024, 0, 0]]), label="memory: none puts state in RocksDB")
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
