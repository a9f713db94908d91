"""Both engines give the same panes, late rows, snapshots, counts and hashes, and a pipeline may change engine
between any two runs (P3).
"""

import datetime
import decimal
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine, element_windows
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.operator.firing import FunctionRaised
from slackwater.pipelines import agg
from slackwater.runs.lineage.moves import NeverEnds, refuse_endless
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from slackwater.windowing.columnar.arrays import groups
from slackwater.windowing.errors import UserCodeError
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import declared, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import START, TICK, left

SELECT = {
    "n": agg.count(),
    "known": agg.count("x"),
    "total": agg.sum("x"),
    "wide": agg.sum("big"),
    "average": agg.mean("big"),
    "exact": agg.sum("y"),
    "centre": agg.mean("y"),
    "least": agg.min("y"),
    "paid": agg.sum("amount"),
    "price": agg.mean("amount"),
    "cheapest": agg.min("amount"),
    "name": agg.max("source"),
    "newest": agg.max("seen"),
    "oldest": agg.min("seen"),
    "first_day": agg.min("day"),
    "spread": agg.variance("y"),
    "deviation": agg.stddev("big"),
    "dispersion": agg.variance("amount", where="x > 0"),
    "opening": agg.first("x"),
    "closing": agg.last("y"),
    "earliest": agg.first("amount", by="arrival"),
    "latest": agg.last("source", by="arrival", where="y < 3 or y is null"),
    "several": agg.count_distinct("y"),
    "names": agg.count_distinct("source", where="x <= 2"),
    "sum_of_several": agg.sum_distinct("amount"),
    "values": agg.collect_set("y"),
    "population": agg.var_pop("y"),
    "population_deviation": agg.stddev_pop("x"),
    "all_true": agg.bool_and("flag"),
    "any_true": agg.bool_or("flag", where="x > 0"),
    "common_bits": agg.bit_and("big"),
    "bits": agg.bit_or("x"),
    "odd_bits": agg.bit_xor("small"),
    "cheapest_source": agg.min_by("source", "amount"),
    "greatest_number": agg.max_by("big", "y", where="x > -3"),
    "in_order": agg.collect_list("y"),
    "first_two": agg.collect_list("amount", by="arrival", limit=2),
    "sources": agg.string_agg("source", ", ", where="x <= 2"),
    "usual": agg.mode("y"),
    "most_frequent": agg.top("amount", 2),
    "exact_middle": agg.median("y"),
    "exact_low": agg.quantile("big", 0.3),
    "together": agg.covar_samp("y", "amount"),
    "relation": agg.corr("x", "big"),
    "slope": agg.regr_slope("amount", "x"),
    "ranges": agg.histogram("y", [-1, 0, 10.5]),
    "about": agg.approx_distinct("big", precision=4),
    "middle": agg.approx_quantile("y", 0.5),
    "low": agg.approx_quantile("amount", 0.1, relative_error=0.1),
}
DOUBLES = [
    0.1,
    -0.0,
    0.0,
    1e300,
    -1e300,
    1e-300,
    5e-324,
    -2.5,
    1 / 3,
    float("nan"),
    float("inf"),
    float("-inf"),
]
LONGS = [0, 1, -1, 7, 2**31, -(2**33) + 5, 2**53 + 1, 2**56, -(2**56)]
DECIMALS = [
    decimal.Decimal(text)
    for text in ("0.00", "1.25", "-3.10", "9999999999999999999.99", "-12345678901234567890123.01")
]
KEYS = (["key"], ["code"], ["flag", "key"], ["day", "code"], ["key", "code", "flag"], None)


TUMBLING = st.builds(
    model.Tumbling, size=st.sampled_from([60, 100, 130]), offset=st.sampled_from([0, 7, -20])
)
SLIDING = st.builds(
    model.Sliding,
    size=st.sampled_from([90, 200]),
    slide=st.sampled_from([30, 60, 120]),
    offset=st.sampled_from([0, 11]),
)
CUMULATIVE = st.builds(
    model.Cumulative,
    size=st.sampled_from([90, 180]),
    step=st.sampled_from([30, 45]),
    offset=st.sampled_from([0, 11]),
)
FIXED = TUMBLING | SLIDING | CUMULATIVE
SESSIONS = st.builds(model.Session, gap=st.sampled_from([10, 20, 40, 80, 1]))


@st.composite
def replays(draw, assigners=FIXED | SESSIONS):
    """Rules and events; a share of the events, from none to half, is late or nearly so.

    A seed draws the rows, because drawn one by one most would be alike, and hardly a window would fire. Keys
    are few, so that what was parked of a window is met by elements on time and by late ones.
    """
    length = draw(st.sampled_from([700, 400, 250, 60]))
    rules = model.Replay(
        start=START,
        to=START + length,
        tick=TICK,
        bound=draw(st.sampled_from([20, 0, 70])),
        assigner=draw(assigners),
        allowed_lateness=draw(st.sampled_from([200, 400, 30, 0])),
        idle_timeout=draw(st.sampled_from([None, 60])),
        max_ahead=draw(st.sampled_from([100_000, 50])),
        max_behind=draw(st.sampled_from([None, 150])),
        aggregates=(),
    )
    latest = draw(st.sampled_from([200, 100, 400]))
    share = draw(st.sampled_from([0.3, 0.5, 0.1, 0.0]), label="share of late rows")
    size = draw(st.sampled_from([70, 120, 40, 3]))
    sources = draw(st.sampled_from([["s"], ["s", "s", "t", None]]))
    variety = draw(st.sampled_from([2, 1, 4]), label="values of a key column")
    random = Random(draw(st.integers(0, 2**32), label="seed"))
    step = draw(
        st.sampled_from([1, 10]), label="event times are multiples of"
    )  # of ten, so are most bounds: elements come just in time
    delays = [random.randint(40, latest) if random.random() < share else None for _ in range(size)]
    return rules, [_event(random, length, sources, variety, delay, step) for delay in delays]


def _event(random, length, sources, variety, delay, step):
    """One event, so late or in time; now and then a value is null."""

    def some(values, nulls=0.1):
        return None if random.random() < nulls else random.choice(values)

    number = some(range(variety), 0.03)
    arrival = random.randint(-length // 20, length + length // 20)
    order = random.randint(0, 3)  # ties are common
    values = {
        "x": some(range(-5, 6)),
        "y": some(DOUBLES),
        "big": some(LONGS),
        "amount": some(DECIMALS),
        "code": None if number is None else number - 1,
        "seen": None if number is None else datetime.datetime(1969, 12, 31, number, tzinfo=datetime.UTC),
        "day": None if number is None else datetime.date(1968 + number, 2, 28),
        "flag": None if number is None else number % 2 == 0,
    }
    event_time = some(
        [(START + arrival - (random.randint(-30, 40) if delay is None else delay)) // step * step], 0.03
    )
    return model.Event(
        event_time,
        START + arrival,
        random.choice(sources),
        order,
        some(["a", "ключ", "𝒳", "b"][:variety], 0.03),
        values,
    )


def cuts_between(rules):
    """Where the range is cut, several times as a rule: most mistakes would show in what was parked."""
    counts_and_seeds = st.tuples(st.sampled_from([2, 3, 4, 1, 0]), st.integers(0, 2**32))
    return counts_and_seeds.map(
        lambda drawn: sorted(Random(drawn[1]).sample(range(rules.start + 1, rules.to), drawn[0]))
    )


def seen(replayed):
    return {**left(replayed), "hashes of each run": replayed.hashes}


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("assigners", [FIXED, SESSIONS], ids=["fixed", "sessions"])
@given(st.data())
@searched(3, long=12)
def test_engines_leave_the_same_and_may_change_between_runs(assigners, data):
    rules, events = data.draw(replays(assigners), label="replay")
    check_engines(pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data)


COUNTED = st.builds(CountTrigger, max_count=st.integers(0, 4))
CONTINUOUS = st.builds(ContinuousEventTimeTrigger, interval_ms=st.sampled_from([7, 40, 200]))

AT_THE_END = st.sampled_from([NeverTrigger(), EndOfStreamTrigger(), EventTimeTrigger()])


@st.composite
def purging_or_not(draw, triggers):
    trigger = draw(triggers)
    return PurgingTrigger.of(trigger) if draw(st.booleans()) else trigger


@pytest.mark.parametrize(
    "triggers",
    [pytest.param(COUNTED, id="count"), pytest.param(CONTINUOUS, id="continuous", marks=pytest.mark.slow)],
)
@given(replays(FIXED), st.data())
@searched(2, long=12)
def test_engines_leave_the_same_of_triggers_that_fire_early(triggers, replay, data):
    rules, events = replay
    trigger = data.draw(purging_or_not(triggers), label="trigger")
    latenesses = data.draw(
        st.none() | st.lists(st.sampled_from([0, 1, 30, 200]), min_size=6, max_size=6), label="latenesses"
    )
    check_engines(replace(pipeline_of(rules, False), trigger=trigger), rules, events, data, latenesses)


@pytest.mark.first_fast
@pytest.mark.parametrize(
    "triggers", [COUNTED, CONTINUOUS, AT_THE_END], ids=["count", "continuous", "at the end"]
)
@given(replays(), st.data())
@searched(2, long=8)
def test_engines_leave_the_same_of_global_windows(triggers, replay, data):
    rules, events = replay
    trigger = data.draw(purging_or_not(triggers), label="trigger")
    declared = {
        "window": GlobalWindows.create(),
        "trigger": trigger,
        "allowed_lateness": datetime.timedelta(0),
    }
    check_engines(replace(pipeline_of(rules, False), **declared), rules, events, data)


@pytest.mark.slow
@given(replays(FIXED), st.data())
@searched(3, long=12)
def test_an_evictor_that_takes_nothing_out_changes_no_result(replay, data):
    """Its windows park the operands of elements, of which they accumulate anew at each firing."""
    rules, events = replay
    cuts = data.draw(cuts_between(rules), label="cuts")
    plain = replace(pipeline_of(rules, False), select=SELECT)
    panes, panes_under_evictor = (
        sorted(
            repr([pane[name] for name in ("key", "window_start", "firing", "kind", *SELECT)])
            for pane in panes
        )
        for panes in (
            replay_pipeline(pipeline, events, rules, cuts, [2]).panes
            for pipeline in (plain, replace(plain, evictor=CountEvictor.of(10**6)))
        )
    )
    assert panes_under_evictor == panes


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=6)
def test_engines_leave_the_same_when_the_lateness_changes_between_runs(replay, data):
    rules, events = replay
    latenesses = data.draw(
        st.lists(st.sampled_from([0, 1, 30, 200]), min_size=6, max_size=6), label="latenesses"
    )
    check_engines(
        pipeline_of(rules, data.draw(st.booleans(), label="purging")), rules, events, data, latenesses
    )


def ends(pipeline):
    """Whether the final watermark leaves no firing to come; a close refuses what would fire for ever."""
    try:
        refuse_endless(pipeline)
    except NeverEnds:
        return False
    return True


COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
APART = ((groups, "FREE_ENTRIES"), (groups, "ENTRIES_PER_ROW"))
MIXED = (
    (COLUMNAR, OPERATOR),
    (OPERATOR, COLUMNAR),
    (COLUMNAR, COLUMNAR, OPERATOR),
    (OPERATOR, OPERATOR, COLUMNAR),
)


def check_engines(pipeline, rules, events, data, latenesses=None, keys=KEYS):
    closes = latenesses is None and ends(pipeline) and data.draw(st.booleans(), label="closes")
    cuts = data.draw(cuts_between(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=2), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    select = {
        name: SELECT[name]
        for name in data.draw(st.sets(st.sampled_from(sorted(SELECT)), min_size=1), label="select")
    }
    key_by = data.draw(st.sampled_from(keys), label="key_by")
    appears = data.draw(
        st.lists(st.integers(0, len(cuts)), min_size=len(events), max_size=len(events)), label="appears"
    )
    mixed = data.draw(st.sampled_from(MIXED), label="engines")
    memory = data.draw(st.sampled_from([[1024], [1024], [0, 1024]]), label="memory of columnar tasks")
    where = data.draw(st.sampled_from([None, None, "x > 0 or x is null"]), label="where")
    late_refires = (
        "element"
        if pipeline.purges
        else data.draw(st.sampled_from(["element", "tick", "run"]), label="late_refires")
    )
    pipeline = replace(pipeline, select=select, key_by=key_by, where=where, late_refires=late_refires)

    def run(engines, memory=(1024,)):
        replayed = replay_pipeline(
            pipeline,
            events,
            rules,
            cuts,
            ranges,
            file_rows,
            appears,
            latenesses,
            engines=engines,
            state_memory=memory,
            closes=closes,
        )
        return seen(replayed)

    once = run([OPERATOR])
    apart = data.draw(
        st.sampled_from([(), APART, (*APART, (groups, "SORTED_PER_ROW"))]),
        label="how far apart values count as",
    )
    rows_per_cell = data.draw(st.sampled_from([0, 0, 1, 2, 4]), label="elements for each cell")
    with ExitStack() as stack:
        stack.enter_context(patch.object(element_windows, "ROWS_PER_CELL", rows_per_cell))
        for module, limit in apart:
            stack.enter_context(patch.object(module, limit, 0))
        assert run([COLUMNAR], memory) == once
        assert run(mixed) == once


@pytest.mark.parametrize(
    "window", [TumblingEventTimeWindows(size_ms=100), GlobalWindows.create()], ids=["tumbling", "global"]
)
@pytest.mark.parametrize(
    "trigger", [CountTrigger.of(2), ContinuousEventTimeTrigger(interval_ms=10)], ids=["count", "continuous"]
)
def test_a_sum_that_overflows_fails_at_the_same_key_and_window(window, trigger):
    rules = model.Replay(START, START + 400, TICK, 0, model.Tumbling(100), 0, None)
    rows = [(0, 2**62), (1, 2**62), (200, 0)]
    events = [model.Event(START + at, START + at, "s", at, "a", {"big": big}) for at, big in rows]
    pipeline = declared(rules, window=window, trigger=trigger, select={"wide": agg.sum("big")})
    errors = []
    for engine in (OPERATOR, COLUMNAR):
        with pytest.raises((UserCodeError, FunctionRaised), match="does not fit bigint") as failure:
            replay_pipeline(pipeline, events, rules, [], [2], engines=[engine])
        error = failure.value.__cause__ if isinstance(failure.value, FunctionRaised) else failure.value
        errors.append((error.key, error.window))
    assert errors[0] == errors[1]
