"""The columnar form of each further aggregate gives the parts and results of its accumulator, to the bit,
however its rows are grouped.
"""

import math
import pickle
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.aggregates import (
    Accumulator,
    ColumnarAggregate,
    Columns,
    OverflowAtRow,
    bind,
    bind_columnar,
    bind_select,
)
from slackwater.engine.aggregates.histograms import bucket_of, buckets_of
from slackwater.engine.aggregates.hyperloglog import estimate, estimates, hash_of, hashes_of
from slackwater.engine.aggregates.operands import operands
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.python_values import to_arrow, to_python
from slackwater.pipelines import Aggregate, DeltaSource, Pipeline, agg
from slackwater.tables.schemas import TIME
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from slackwater.windowing.columnar.arrays.groups import Groups
from tests.engine.aggregates.accumulating import NUMBERS, VALUES
from tests.properties.search import searched

STRATEGIES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **VALUES,
    "boolean": (pa.bool_(), st.booleans()),
}
EVERY = [
    *((make("x"), kind) for make in (agg.sum, agg.mean, agg.variance, agg.stddev) for kind in NUMBERS),
    *(
        (make("x"), kind)
        for make in (agg.min, agg.max)
        for kind in ("byte", "float", "double", "decimal", "text", "date", "time")
    ),
    *((agg.count_distinct("x"), kind) for kind in STRATEGIES),
    *((agg.approx_distinct("x", precision=4), kind) for kind in STRATEGIES),
    *((agg.approx_quantile("x", 0.3, relative_error=0.2), kind) for kind in NUMBERS),
    *(
        (make("x", by=by), kind)
        for make in (agg.first, agg.last)
        for by in ("event_time", "arrival")
        for kind in ("long", "double", "text", "time")
    ),
]


def scalar_parts(accumulator: Accumulator, operand: Sequence[Any], members: list[int]) -> Any:
    state = accumulator.create()
    for member in members:
        if operand[member] is not None:
            state = accumulator.add(state, operand[member])
    return state


def as_scalar(accumulator: Accumulator, states: list[Any]) -> list[pa.Array]:
    encoded = list(zip(*map(accumulator.encode, states), strict=True)) or [()] * len(accumulator.parts)
    return [to_arrow(values, kind) for values, (_, kind) in zip(encoded, accumulator.parts, strict=True)]


def overflow_of(accumulator: Accumulator, row: tuple[int, Any]) -> tuple[int, str] | None:
    """The row and its error, if it has no result."""
    try:
        accumulator.result(row[1])
    except ArithmeticError as error:
        return row[0], str(error)
    return None


def check(columnar: ColumnarAggregate, columns: Columns, accumulator: Accumulator, states: list[Any]) -> None:
    """Parts and results are those of the scalar accumulators, also after having been parked."""
    assert [column.type for column in columns] == [kind for _, kind in columnar.columns]
    for group_columns in (columns, columnar.decode(columnar.encode(columns))):
        for part, expected in zip(
            columnar.encode(group_columns), as_scalar(accumulator, states), strict=True
        ):
            assert part.type == expected.type
            assert repr(part.to_pylist()) == repr(expected.to_pylist())
        overflow = next(filter(None, map(partial(overflow_of, accumulator), enumerate(states))), None)
        if overflow is not None:
            with pytest.raises(OverflowAtRow) as raised:
                columnar.results(group_columns)
            assert (raised.value.row, str(raised.value.error)) == overflow
            continue
        results = columnar.results(group_columns)
        assert results.type == accumulator.result_type
        assert repr(results.to_pylist()) == repr(
            to_arrow([accumulator.result(state) for state in states], accumulator.result_type).to_pylist()
        )


@st.composite
def tables(draw: st.DrawFn, kind: str) -> pa.Table:
    column_type, some_values = STRATEGIES[kind]
    values = draw(st.lists(st.none() | some_values, max_size=10))
    values = [draw(st.sampled_from(values)) if values and draw(st.booleans()) else value for value in values]
    count = len(values)
    times = st.lists(st.integers(-3, 3), min_size=count, max_size=count)
    arrivals, events = draw(times), draw(times)
    return pa.table(
        {
            "key": pa.array(["k"] * count, pa.string()),
            "event_time": pa.array([1000 * event for event in events], TIME),
            "arrival_time": pa.array([1000 * arrival for arrival in arrivals], TIME),
            "x": pa.array(values, column_type),
            "row": pa.array(
                draw(
                    st.lists(
                        st.none() | st.sampled_from([0.0, -1.5, math.nan]), min_size=count, max_size=count
                    )
                ),
                pa.float64(),
            ),
            ARRIVAL: pa.array(arrivals, pa.int64()),
            EVENT: pa.array(events, pa.int64()),
        }
    )


def pipeline_with(aggregate: Aggregate) -> Pipeline:
    return Pipeline(
        name="statistics",
        source=DeltaSource("events", event_time="event_time", arrival_time="arrival_time", order_by="row"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(
            timedelta(seconds=1)
        ),
        key_by="key",
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        select={"r": aggregate},
        start="2013-01-01",
    )


@pytest.mark.parametrize(
    ("aggregate", "kind"), EVERY, ids=lambda item: item if isinstance(item, str) else f"{item.kind}-{item.by}"
)
@given(st.data())
@searched(4, long=12)
def test_columns_accumulate_as_elements_do(aggregate: Aggregate, kind: str, data: st.DataObject) -> None:
    rows = data.draw(tables(kind))
    types = {field.name: field.type for field in rows.drop_columns([ARRIVAL, EVENT]).schema}
    accumulator = bind_select(pipeline_with(aggregate), types)["r"]
    columnar = bind_columnar(accumulator, aggregate, types)
    assert columnar is not None
    columnar = pickle.loads(pickle.dumps(columnar))
    [operand] = operands(pipeline_with(aggregate), rows)
    assert operand is not None
    size = data.draw(st.integers(1, 4))
    codes = data.draw(st.lists(st.integers(0, size - 1), min_size=rows.num_rows, max_size=rows.num_rows))
    groups = Groups(np.array(codes, np.int64), size)
    members = [[row for row, code in enumerate(codes) if code == group] for group in range(size)]

    all_at_once = columnar.partial(rows, groups)
    check(
        columnar,
        all_at_once,
        accumulator,
        [scalar_parts(accumulator, operand, rows_of) for rows_of in members],
    )

    cut = data.draw(st.integers(0, rows.num_rows))
    halves = [
        columnar.partial(rows.slice(a, b - a), Groups(groups.codes[a:b], size))
        for a, b in ((0, cut), (cut, rows.num_rows))
    ]
    joined = [pa.concat_arrays(columns) for columns in zip(*halves, strict=True)]
    both = columnar.combine(joined, Groups(np.tile(np.arange(size), 2), size))
    check(columnar, both, accumulator, [scalar_parts(accumulator, operand, rows_of) for rows_of in members])

    each = columnar.partial(rows, Groups.singletons(rows.num_rows))
    starts = (
        sorted({0, *data.draw(st.lists(st.integers(0, max(rows.num_rows - 1, 0)), max_size=3))})
        if rows.num_rows
        else []
    )
    running = columnar.running(each, np.array(starts, np.int64))
    begins = [max(start for start in starts if start <= row) for row in range(rows.num_rows)]
    check(
        columnar,
        running,
        accumulator,
        [scalar_parts(accumulator, operand, list(range(begin, row + 1))) for row, begin in enumerate(begins)],
    )


@settings(max_examples=100)
@given(st.lists(st.floats(), max_size=20), st.sampled_from([1, 2, 35, 347]))
def test_a_column_of_values_falls_into_the_buckets_of_its_values(values: list[float], buckets: int) -> None:
    assert buckets_of(np.array(values, np.float64), buckets).tolist() == [
        bucket_of(value, buckets) for value in values
    ]


@pytest.mark.parametrize("kind", STRATEGIES)
@settings(max_examples=60)
@given(st.data())
def test_a_column_of_values_hashes_as_its_values(kind: str, data: st.DataObject) -> None:
    column_type, some_values = STRATEGIES[kind]
    values = pa.array(data.draw(st.lists(some_values, max_size=20)), column_type)
    expected = list(map(hash_of(column_type), to_python(pa.chunked_array([values]))))
    assert hashes_of(values).tolist() == expected


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 61), min_size=16, max_size=16), min_size=1, max_size=4))
def test_registers_of_every_rank_are_estimated_as_one_sketch_is(sketches: list[list[int]]) -> None:
    of_rank = [
        np.array(
            [row for row, ranks in enumerate(sketches) for rank in ranks if rank == bit_length], np.int64
        )
        for bit_length in range(62)
    ]
    untouched = np.array([ranks.count(0) for ranks in sketches], np.int64)
    assert estimates(of_rank, untouched, 4).tolist() == [estimate(Counter(ranks), 4) for ranks in sketches]


def test_squares_of_far_doubles_are_exact() -> None:
    numbers = [
        5e-324,
        1e-160,
        -1e-140,
        1.0,
        1e150,
        -1e160,
        1.7976931348623157e308,
        2.0**511,
        2.0**512,
        2.0**-448,
    ]
    rows = pa.table({"x": pa.array(numbers)})
    accumulator = bind("r", agg.variance("x"), {"x": pa.float64()})
    columnar = bind_columnar(accumulator, agg.variance("x"), {"x": pa.float64()})
    assert columnar is not None
    for members in ([0, 1], [0, 6], [4, 5, 6], list(range(10))):
        group_columns = columnar.partial(rows.take(members), Groups(np.zeros(len(members), np.int64), 1))
        check(columnar, group_columns, accumulator, [scalar_parts(accumulator, numbers, members)])
