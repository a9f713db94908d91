"""Functions of users leave the same on columns as in the operator engine: panes, side outputs, snapshots,
counts and hashes; and a pipeline may change engine between any two runs (P3).
"""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.calls import function_calls
from slackwater.engine.functions import FunctionEngine
from slackwater.engine.operator.window_range import WindowRange
from slackwater.engine.planner import why_not_columnar
from slackwater.pipelines import vectorized
from slackwater.windowing import (
    GLOBAL_WINDOW,
    AllWindowFunction,
    CountTrigger,
    EventTimeTrigger,
    ListStateDescriptor,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowFunction,
)
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.order_modes import OrderMode
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import SCHEMA, declared, pipeline_of, replay_pipeline
from tests.properties.test_carried_watermarks import carrying
from tests.properties.test_engines import FIXED, KEYS, OPERATOR, cuts_between, replays, seen
from tests.properties.test_engines import MIXED as MIXED_OF_SELECT
from tests.properties.test_split_and_parallelism import START, TICK
from tests.properties.test_window_pipelines import short_pieces

ON_COLUMNS = FunctionEngine()
CHAIN = ValueStateDescriptor("chain")
ROWS = ListStateDescriptor("rows")
MIXED = [[OPERATOR if item is OPERATOR else ON_COLUMNS for item in engines] for engines in MIXED_OF_SELECT]


class Middle(ProcessWindowFunction):
    """The middle of the rows' numbers: reads one column."""

    def process(self, key, context, elements):
        rows = sorted(element.row for element in elements)
        return [{"middle": rows[len(rows) // 2], "elements_of_window": len(rows)}]


class EveryField(ProcessWindowFunction):
    """A row for each element in its order, with all that can be seen of it and of the firing."""

    def process(self, key, context, elements):
        for position, element in enumerate(elements):
            yield (position, repr(tuple(element)), context.current_watermark, context.current_processing_time)
            if (element.x or 0) % 2:
                context.output("odd", {"x": element.x, "at_end": context.window.max_timestamp()})


class AsTuples(WindowFunction):
    """Uses elements as the tuples that they are."""

    def apply(self, key, window, inputs):
        first = inputs[0]
        assert isinstance(first, tuple) and first == tuple(first) and hash(first) == hash(tuple(first))
        assert first[3] == first.row and first[-1] is first.text and len(first) == len(first._fields)
        assert first._replace(row=-1).row == -1 and (*first, 1) == first + (1,)  # noqa: RUF005
        source, row, *_ = first[2:]
        place = [element.row for element in inputs].index(row)  # a long list makes each anew, and NaN != NaN
        begins = None if window is GLOBAL_WINDOW else window.start
        return [(begins, f"{source} {row} {place}", sorted(first._asdict()))]


class OfOddSum(WindowFunction):
    """Emits nothing for windows of an even sum, so that a refire may withdraw rows."""

    def apply(self, key, window, inputs):
        total = sum(element.x or 0 for element in inputs)
        return [(total, str([element.row for element in inputs]))] * (total % 3)


class HiddenState(ProcessWindowFunction):
    """Asks for state in a way that nothing but a call shows, and would catch what came of it."""

    def process(self, key, context, elements):
        rows = ",".join(str(element.row) for element in elements)
        try:
            chain = getattr(getattr(context, "global" + "_state")(), "get" + "_state")(CHAIN)
            chain.update(f"{chain.value()}|{rows}"[-60:])
            yield chain.value()
        except Exception:  # noqa: BLE001
            yield "no state"


class StateOfWindows(ProcessWindowFunction):
    """Counts the firings of a window, in state that outlives it, and keeps rows of its key."""

    def process(self, key, context, elements):
        firings = context.window_state().get_state(CHAIN)
        firings.update((firings.value() or 0) + 1)
        rows = context.global_state().get_list_state(ROWS)
        rows.add_all(element.row for element in elements)
        yield f"{firings.value()} {rows.get()[-5:]}"


class OfAll(AllWindowFunction):
    """For windows of all rows."""

    def apply(self, window, inputs):
        return [",".join(f"{element.key}{element.row}" for element in inputs)]


def of_arrow(firings: pa.Table) -> pa.Table:
    """The sum of a column with nulls, and what else there is of each firing."""
    names = [name for name in firings.column_names if pa.types.is_list(firings.schema.field(name).type)]
    texts = [repr([row[name] for name in names]) for row in firings.to_pylist()]
    keys = [name for name in firings.column_names if name not in names]
    owners = [repr(list(row.values())) for row in firings.select(keys).to_pylist()]
    sums = [sum(x or 0 for x in values) for values in firings.column("x").to_pylist()]
    return pa.table({"total": pa.array(sums, pa.int32()), "rows": texts, "owner": owners})


def of_pandas(firings):
    """The longest span of event times, by data frames in and out."""
    spans = [max(times) - min(times) for times in firings["event_time"]]
    return firings.assign(span_ms=[span // timedelta(milliseconds=1) for span in spans])[["span_ms"]]


def of_polars(firings):
    """The least and the newest row."""
    row = firings["row"].list
    return firings.select(least=row.min(), newest=row.last())


FUNCTIONS = {
    "reads one column": {"process": Middle(), "output": "middle long, elements_of_window long"},
    "reads all columns": {
        "process": EveryField(),
        "output": "position long, fields string, watermark_then long, clock long",
        "side_outputs": {"odd": "x int, at_end long"},
    },
    "takes rows as tuples": {
        "process": AsTuples(),
        "output": "begins long, first string, names array<string>",
    },
    "emits nothing at times": {"process": OfOddSum(), "output": "total long, rows string"},
    "arrow tables": {
        "process": vectorized(of_arrow),
        "output": "owner string, rows string, total long",
    },
    "pandas frames": {"process": vectorized(of_pandas, frame="pandas"), "output": "span_ms long"},
    "polars frames": {"process": vectorized(of_polars, frame="polars"), "output": "least long, newest long"},
    "few columns": {"process": OfOddSum(), "output": "total long, rows string", "columns": ["row", "x"]},
}


def everything(replayed):
    sides = {
        tag: Counter(map(repr, (sorted({**row, "run_id": ""}.items()) for row in rows)))
        for tag, rows in replayed.sides.items()
    }
    return {**seen(replayed), "sides": sides, "keyed": Counter(map(repr, replayed.keyed))}


def check_engines(pipeline, rules, events, data, keys=KEYS[:-1], **options):
    """The operator leaves the same where windows hold numbers of elements, and where they hold the elements
    themselves, in memory and on disk; so do columns, where they take the pipeline, and all of these in turn.
    """
    cuts = data.draw(cuts_between(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=2), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    appears = data.draw(
        st.lists(st.integers(0, len(cuts)), min_size=len(events), max_size=len(events)), label="appears"
    )
    mixed = data.draw(st.sampled_from(MIXED), label="engines")
    # The order of timers in a heap is one that no disk keeps.
    in_memory = options.get("order_mode", OrderMode.ROCKSDB).has_heap_timers
    memories = [[1024]] if in_memory else [[1024], [0], [1024, 0], [0, 1024, 1024]]
    memory = data.draw(st.sampled_from(memories), label="memory")
    late_refires = (
        "element"
        if pipeline.purges
        else data.draw(st.sampled_from(["element", "tick", "run"]), label="late_refires")
    )
    pipeline = replace(
        pipeline,
        key_by=data.draw(st.sampled_from(keys), label="key_by"),
        where=data.draw(st.sampled_from([None, None, "x > 0 or x is null"]), label="where"),
        # What is remembered of rows is forgotten by the bound of watermarks, which carried ones have not.
        distinct_by=data.draw(
            st.sampled_from([None] if rules.carried is not None else [None, None, "x"]), label="distinct_by"
        ),
        late_refires=late_refires,
    )
    is_columnar = why_not_columnar(pipeline, SCHEMA) is None

    def run(engines, memory=(1024,)):
        return everything(
            replay_pipeline(
                pipeline,
                events,
                rules,
                cuts,
                ranges,
                file_rows,
                appears,
                engines=engines if is_columnar else [OPERATOR],
                state_memory=memory,
                **options,
            )
        )

    at_once = data.draw(st.sampled_from([1 << 16, 1, 7]), label="elements made at once")
    pieces = short_pieces() if data.draw(st.booleans(), label="short pieces") else nullcontext()
    bytes_per_element = data.draw(st.sampled_from([200, 200, 1 << 40]), label="bytes per element")
    with (
        pieces,
        patch.object(function_calls, "ELEMENTS_AT_ONCE", at_once),
        patch.object(function_calls, "BYTES_PER_ELEMENT", bytes_per_element),
    ):
        with patch.object(WindowRange, "element_contents", None):
            with_objects = run([OPERATOR])
        assert run([OPERATOR]) == with_objects
        assert run(mixed, memory) == with_objects
        if is_columnar:
            assert run([ON_COLUMNS]) == with_objects


@pytest.mark.first_fast
@pytest.mark.parametrize("name", FUNCTIONS)
@given(st.data())
@searched(2, long=5)
def test_functions_leave_the_same_on_columns(name, data):
    rules, events = data.draw(replays(FIXED), label="replay")
    pipeline = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    check_engines(replace(pipeline, select={}, **FUNCTIONS[name]), rules, events, data)


@pytest.mark.slow
@given(st.data())
@searched(4, long=6)
def test_windows_of_all_rows_leave_the_same_on_columns(data):
    rules, events = data.draw(replays(FIXED), label="replay")
    pipeline = replace(
        pipeline_of(rules, False), select={}, key_by=None, process=OfAll(), output="rows string"
    )
    check_engines(pipeline, rules, events, data, keys=[None])


@pytest.mark.slow
@given(st.data())
@searched(4, long=24)
def test_a_function_that_asks_for_state_leaves_the_same(data):
    rules, events = data.draw(replays(FIXED), label="replay")
    process = data.draw(st.sampled_from([HiddenState(), StateOfWindows()]), label="function")
    trigger = data.draw(st.sampled_from([EventTimeTrigger(), CountTrigger.of(2)]), label="trigger")
    declarations = {"process": process, "output": "chain string", "trigger": trigger}
    pipeline = replace(pipeline_of(rules, False), select={}, **declarations)
    assert why_not_columnar(pipeline, SCHEMA) is None
    check_engines(pipeline, rules, events, data)


class Refusing(WindowFunction):
    """Raises at windows that hold a 13."""

    def apply(self, key, window, inputs):
        if any(element.x == 13 for element in inputs):
            raise ValueError("thirteen")
        return [len(inputs)]


def refuse(firings: pa.Table) -> pa.Table:
    if 13 in firings.column("x").combine_chunks().flatten().to_pylist():
        raise ValueError("thirteen")
    return pa.table({"n": firings.column("x").combine_chunks().value_lengths()})


def lose_rows(firings: pa.Table) -> pa.Table:
    return pa.table({"n": pa.array([1] * (firings.num_rows + 1))})


@pytest.mark.parametrize(
    ("process", "text"),
    [
        (Refusing(), "thirteen"),
        (vectorized(refuse), "thirteen"),
        (vectorized(lose_rows), "returned 2 rows for 1 firings"),
        (vectorized(lambda firings: firings.select(["key"])), "but the output has"),
        (vectorized(lambda firings: 7), "returned a int, which is no table"),
        (vectorized(lambda firings: pa.table({"n": ["x"] * len(firings)})), "is no int64"),
    ],
    ids=["a function", "a vectorized one", "rows", "columns", "no table", "type"],
)
def test_what_a_function_raises_names_the_same_key_and_window(process, text):
    rules = model.Replay(START, START + 400, TICK, 0, model.Tumbling(100), 0, None)
    rows = [(0, 1, "a"), (110, 13, "b"), (120, 2, "a"), (390, 1, "a")]
    events = [model.Event(START + at, START + at, "s", at, key, {"x": x}) for at, x, key in rows]
    window = TumblingEventTimeWindows(size_ms=100)
    pipeline = declared(rules, window=window, process=process, output="n long")
    errors = []
    for engine in (OPERATOR, ON_COLUMNS):
        with pytest.raises(UserCodeError, match=text) as failure:
            replay_pipeline(pipeline, events, rules, [], [2], engines=[engine])
        errors.append((str(failure.value), failure.value.key, failure.value.window))
    assert errors[0] == errors[1]


@pytest.mark.slow
@given(st.data())
@searched(4, long=6)
def test_functions_leave_the_same_where_rows_carry_watermarks(data):
    rules, events = data.draw(carrying(replays(FIXED)), label="replay")
    pipeline = pipeline_of(rules, data.draw(st.booleans(), label="purging"))
    check_engines(replace(pipeline, select={}, **FUNCTIONS["reads all columns"]), rules, events, data)
