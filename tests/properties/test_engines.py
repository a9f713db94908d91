"""Both engines give the same panes, late rows, snapshots, counts and hashes, and a pipeline may change engine between any two runs (P3)."""

import datetime
import decimal
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs.engines.columnar import ColumnarEngine
from jobs.engines.operator import OperatorEngine
from jobs.pipelines import approx_distinct, approx_quantile, count, count_distinct, first, last, max_, mean, min_, stddev, sum, variance
from jobs.protocol.close import NeverEnds, refuse_endless
from tests.model import records as model
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import START, TICK, cuts_of, left
from windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
)

SELECT = {
    "n": count(),
    "known": count("x"),
    "total": sum("x"),
    "wide": sum("big"),
    "average": mean("big"),
    "exact": sum("y"),
    "centre": mean("y"),
    "least": min_("y"),
    "paid": sum("amount"),
    "price": mean("amount"),
    "cheapest": min_("amount"),
    "name": max_("source"),
    "newest": max_("seen"),
    "oldest": min_("seen"),
    "first_day": min_("day"),
    "spread": variance("y"),
    "deviation": stddev("big"),
    "dispersion": variance("amount", where="x > 0"),
    "opening": first("x"),
    "closing": last("y"),
    "earliest": first("amount", by="arrival"),
    "latest": last("source", by="arrival", where="y < 3 or y is null"),
    "several": count_distinct("y"),
    "names": count_distinct("source", where="x <= 2"),
    "about": approx_distinct("big", precision=4),
    "middle": approx_quantile("y", 0.5),
    "low": approx_quantile("amount", 0.1, relative_error=0.1),
}
DOUBLES = [0.1, -0.0, 0.0, 1e300, -1e300, 1e-300, 5e-324, -2.5, 1 / 3, float("nan"), float("inf"), float("-inf")]
LONGS = [0, 1, -1, 7, 2**31, -(2**33) + 5, 2**53 + 1, 2**61, -(2**61)]
DECIMALS = [decimal.Decimal(text) for text in ("0.00", "1.25", "-3.10", "9999999999999999999.99", "-12345678901234567890123.01")]
KEYS = (["key"], ["code"], ["flag", "key"], ["day", "code"], ["key", "code", "flag"])


def assigners():
    tumbling = st.builds(model.Tumbling, size=st.sampled_from([60, 100, 130]), offset=st.sampled_from([0, 7, -20]))
    sliding = st.builds(
        model.Sliding, size=st.sampled_from([90, 200]), slide=st.sampled_from([30, 60, 120]), offset=st.sampled_from([0, 11])
    )
    sessions = st.builds(model.Session, gap=st.sampled_from([1, 30, 80]))
    return st.one_of(tumbling, sliding, sessions)


@st.composite
def replays(draw):
    """Rules and events; a share of the events, from none to half, is late or nearly so."""
    length = draw(st.integers(1, 900))
    rules = model.Replay(
        start=START,
        to=START + length,
        tick=TICK,
        bound=draw(st.sampled_from([0, 20, 75])),
        assigner=draw(assigners()),
        allowed_lateness=draw(st.sampled_from([0, 30, 200])),
        idle_timeout=draw(st.sampled_from([None, 60])),
        max_ahead=draw(st.sampled_from([50, 100_000])),
        aggregates=(),
    )
    delay = st.one_of(st.integers(-30, 40), st.integers(0, draw(st.sampled_from([50, 400]))))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(-20, length + 20),  # arrival
                st.one_of(st.none(), delay, delay, delay, delay),
                st.sampled_from(["s", "t", None]),
                st.sampled_from(["a", "b", "ключ", None, "𝒳"]),
                st.integers(0, 3),  # order: ties are common
                st.one_of(st.none(), st.integers(-5, 5)),
                st.one_of(st.none(), st.sampled_from(DOUBLES)),
                st.one_of(st.none(), st.sampled_from(LONGS)),
                st.one_of(st.none(), st.sampled_from(DECIMALS)),
                st.one_of(st.none(), st.integers(0, 3)),
            ),
            max_size=40,
        )
    )
    return rules, [_event(*row) for row in rows]


def _event(arrival, delay, source, key, order, x, y, big, amount, number):
    values = {
        "x": x,
        "y": y,
        "big": big,
        "amount": amount,
        "code": None if number is None else number - 1,
        "seen": None if number is None else datetime.datetime(1969, 12, 31, number, tzinfo=datetime.UTC),
        "day": None if number is None else datetime.date(1968 + number, 2, 28),
        "flag": None if number is None else number % 2 == 0,
    }
    return model.Event(None if delay is None else START + arrival - delay, START + arrival, source, order, key, values)


def seen(replayed):
    return {**left(replayed), "hashes of each run": replayed.hashes}


@given(replays(), st.data())
@settings(max_examples=25)
def test_engines_leave_the_same_and_may_change_between_runs(replay, data):
    rules, events = replay
    check_engines(pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data)


COUNTED = st.builds(CountTrigger, max_count=st.integers(0, 4))
CONTINUOUS = st.builds(ContinuousEventTimeTrigger, interval_ms=st.sampled_from([7, 40, 200]))

AT_THE_END = st.sampled_from([NeverTrigger(), EndOfStreamTrigger(), EventTimeTrigger()])


@st.composite
def purging_or_not(draw, triggers):
    trigger = draw(triggers)
    return PurgingTrigger.of(trigger) if draw(st.booleans()) else trigger


@given(replays(), purging_or_not(COUNTED | CONTINUOUS), st.data())
@settings(max_examples=30)
def test_engines_leave_the_same_of_triggers_that_fire_early(replay, trigger, data):
    rules, events = replay
    assume(not isinstance(rules.assigner, model.Session))
    latenesses = data.draw(st.none() | st.lists(st.sampled_from([0, 1, 30, 200]), min_size=6, max_size=6), label="latenesses")
    check_engines(replace(pipeline_of(rules, False), trigger=trigger), rules, events, data, latenesses)


@given(replays(), purging_or_not(COUNTED | CONTINUOUS | AT_THE_END), st.data())
@settings(max_examples=20)
def test_engines_leave_the_same_of_global_windows(replay, trigger, data):
    rules, events = replay
    declared = {"window": GlobalWindows.create(), "trigger": trigger, "allowed_lateness": datetime.timedelta(0)}
    check_engines(replace(pipeline_of(rules, False), **declared), rules, events, data)


@given(replays(), st.data())
@settings(max_examples=40)
def test_engines_leave_the_same_when_the_lateness_changes_between_runs(replay, data):
    rules, events = replay
    latenesses = data.draw(st.lists(st.sampled_from([0, 1, 30, 200]), min_size=6, max_size=6), label="latenesses")
    check_engines(pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data, latenesses)


def ends(pipeline):
    """Whether the final watermark leaves no firing to come; a close refuses what would fire for ever."""
    try:
        refuse_endless(pipeline)
    except NeverEnds:
        return False
    return True


def check_engines(pipeline, rules, events, data, latenesses=None):
    closes = latenesses is None and ends(pipeline) and data.draw(st.booleans(), label="closes")
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=2), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    select = {name: SELECT[name] for name in data.draw(st.sets(st.sampled_from(sorted(SELECT)), min_size=1), label="select")}
    key_by = data.draw(st.sampled_from(KEYS), label="key_by")
    appears = data.draw(st.lists(st.integers(0, len(cuts)), min_size=len(events), max_size=len(events)), label="appears")
    mixed = data.draw(st.lists(st.sampled_from([ColumnarEngine(), OperatorEngine()]), min_size=1, max_size=3), label="engines")
    memory = data.draw(st.sampled_from([[1024], [1024], [0, 1024]]), label="memory of columnar tasks")
    pipeline = replace(pipeline, select=select, key_by=key_by)

    def run(engines, memory=(1024,)):
        replayed = replay_pipeline(
            pipeline, events, rules, cuts, ranges, file_rows, appears, latenesses, engines=engines, state_memory=memory, closes=closes
        )
        return seen(replayed)

    once = run([OperatorEngine()])
    assert run([ColumnarEngine()], memory) == once
    assert run(mixed) == once
