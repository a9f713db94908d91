"""Whatever becomes of the allowed lateness between runs, a window that a run has collected stays collected:
what it has published is never replaced by the part of it that comes afterwards. In both engines, and in any
change between them.
"""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import AGGREGATES, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import START, TICK, check_against_model

LENGTH = 900
COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
ENGINES = ([OPERATOR], [COLUMNAR], [COLUMNAR, OPERATOR], [OPERATOR, COLUMNAR, COLUMNAR])
ASSIGNERS = (
    model.Tumbling(60),
    model.Tumbling(100, 7),
    model.Sliding(90, 30),
    model.Sliding(130, 60, 11),
    model.Session(30),
    model.Session(80),
)


@st.composite
def histories(draw):
    """Rules, events of which half come late, cuts, and a lateness for each slice: more than once more than
    the one before.
    """
    cuts = sorted(
        draw(st.sets(st.sampled_from(range(START + 20, START + LENGTH, 20)), min_size=2, max_size=5))
    )
    latenesses = draw(
        st.lists(st.sampled_from([0, 10, 30, 200, 1000]), min_size=len(cuts) + 1, max_size=len(cuts) + 1)
    )
    rules = model.Replay(
        start=START,
        to=START + LENGTH,
        tick=TICK,
        bound=draw(st.sampled_from([0, 20])),
        assigner=draw(st.sampled_from(ASSIGNERS)),
        allowed_lateness=latenesses[0],
        aggregates=AGGREGATES,
        max_ahead=100_000,
    )
    random = Random(draw(st.integers(0, 2**32), label="seed"))
    return (
        rules,
        [_event(random, number) for number in range(draw(st.sampled_from([60, 90, 120])))],
        cuts,
        latenesses,
    )


def _event(random, number):
    arrival = random.randint(0, LENGTH - 1)
    delay = random.choice([random.randint(-3, 30), random.randint(50, 700)])
    values = {"x": random.randint(-5, 6), "y": random.choice([0.1, 1e300, float("nan")])}
    return model.Event(START + arrival - delay, START + arrival, "s", number, random.choice("aab"), values)


@pytest.mark.first_fast
@pytest.mark.parametrize("engines", ENGINES, ids=["operator", "columnar", "columnar first", "operator first"])
@given(histories())
@searched(3, long=16)
def test_a_collected_window_stays_collected_when_the_lateness_changes(engines, history):
    rules, events, cuts, latenesses = history
    ours = replay_pipeline(
        pipeline_of(rules, False), events, rules, cuts, [1, 3], 1000, None, latenesses, engines
    )
    event(f"late rows: {bool(ours.late)}, lateness is raised: {any(a < b for a, b in pairwise(latenesses))}")
    changes = {
        cut: {"allowed_lateness": lateness} for cut, lateness in zip(cuts, latenesses[1:], strict=True)
    }
    check_against_model(ours, events, rules, changes)
    if not isinstance(rules.assigner, model.Session):
        elements = {}
        for pane in ours.panes:  # run after run; of one run in no order
            elements.setdefault((pane["key"], pane["window_start"], pane["window_end"]), {}).setdefault(
                pane["firing"], []
            ).append(pane["elements"])
        for firings in elements.values():
            assert all(len(counts) == 1 for counts in firings.values()), "no firing comes twice"
            assert [counts[0] for _, counts in sorted(firings.items())] == sorted(
                counts[0] for counts in firings.values()
            )


@pytest.mark.slow
@given(histories(), st.booleans())
@settings(max_examples=40)
def test_engines_leave_the_same_state_when_the_lateness_changes(history, purging):
    rules, events, cuts, latenesses = history
    pipeline = pipeline_of(rules, purging)
    once, other = (
        replay_pipeline(pipeline, events, rules, cuts, [2], 1000, None, latenesses, engines)
        for engines in ENGINES[:2]
    )
    assert (once.hashes, once.counts, once.state_hash) == (other.hashes, other.counts, other.state_hash)
