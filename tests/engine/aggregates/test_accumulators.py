"""Every aggregate against a brute force over exact numbers, for any split of its values, through the columns
that hold it between runs.
"""

import math
import pickle
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.aggregates import (
    ResultOverflow,
    SelectFunction,
    bind,
)
from slackwater.engine.rows.python_values import to_python
from slackwater.pipelines import Aggregate, agg
from slackwater.pipelines.errors import PipelineError
from tests.engine.aggregates.accumulating import (
    DECIMAL_38,
    EPOCH,
    NUMBERS,
    VALUES,
    accumulated,
    alike,
    bound,
    emitted,
    parked,
)

# The brute force: from the values that are not null to the result, in exact numbers.


def counted(values: list[Any]) -> int:
    return len(values)


def exact(values: list[Any]) -> Fraction | float:
    """The sum as a fraction, or the special value that it is."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    if not special:
        return reduce(Fraction.__add__, map(Fraction, values), Fraction(0))
    return math.nan if len(set(map(str, special))) > 1 or math.isnan(special[0]) else special[0]


def nearest(value: Fraction | float) -> float:
    if isinstance(value, float):
        return value
    try:
        return value.numerator / value.denominator + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def summed(kind: str) -> Callable[[list[Any]], Any]:
    def brute_force(values: list[Any]) -> Any:
        total = exact(values)
        if not values:
            return None
        if kind in ("float", "double"):
            return nearest(total)
        assert isinstance(total, Fraction)
        if kind == "decimal":
            with localcontext(prec=60):
                decimal_total = reduce(Decimal.__add__, values)
            return ResultOverflow if abs(total) >= 10**28 else decimal_total
        return int(total) if -(2**63) <= total < 2**63 else ResultOverflow

    return brute_force


def averaged(values: list[Any]) -> float | None:
    if not values:
        return None
    total = exact(values)
    return nearest(total / len(values))


def least(values: list[Any]) -> Any:
    numbers = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    return None if not values else math.nan if not numbers else positive(min(numbers))


def greatest(values: list[Any]) -> Any:
    return (
        None
        if not values
        else math.nan
        if any(isinstance(v, float) and math.isnan(v) for v in values)
        else positive(max(values))
    )


def positive(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


CASES = [
    *(pytest.param(agg.count("x"), kind, counted, id=f"count-{kind}") for kind in VALUES),
    *(pytest.param(agg.sum("x"), kind, summed(kind), id=f"sum-{kind}") for kind in NUMBERS),
    *(pytest.param(agg.mean("x"), kind, averaged, id=f"mean-{kind}") for kind in NUMBERS),
    *(pytest.param(agg.min("x"), kind, least, id=f"min-{kind}") for kind in VALUES),
    *(pytest.param(agg.max("x"), kind, greatest, id=f"max-{kind}") for kind in VALUES),
]


@pytest.mark.parametrize(("aggregate", "kind", "brute_force"), CASES)
@settings(max_examples=40)
@given(st.data())
def test_an_aggregate_is_its_brute_force_for_any_split(
    aggregate: Aggregate, kind: str, brute_force: Callable[[list[Any]], Any], data: st.DataObject
) -> None:
    column_type, some_values = VALUES[kind]
    values = data.draw(st.lists(st.none() | some_values, max_size=8))
    cut = data.draw(st.integers(0, len(values)))
    expected = brute_force([value for value in values if value is not None])
    accumulator = bound(aggregate, column_type)
    column = to_python(pa.chunked_array([pa.array(values, column_type)]))

    at_once = accumulated(accumulator, column)
    halves = [parked(accumulator, accumulated(accumulator, half)) for half in (column[cut:], column[:cut])]
    merged = accumulator.merge(*halves)

    assert accumulator.encode(merged) == accumulator.encode(at_once) or aggregate.kind in ("min", "max")
    for state in (at_once, merged):
        if expected is ResultOverflow:
            with pytest.raises(ResultOverflow, match="does not fit"):
                accumulator.result(state)
        else:
            assert alike(emitted(accumulator, state), expected)


def test_count_without_a_column_counts_elements() -> None:
    accumulator = bind("n", agg.count(), {})
    state = accumulator.add(accumulator.add(accumulator.create(), None), None)
    assert accumulator.result(state) == 2


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1]])
def test_an_integer_sum_that_leaves_bigint_is_an_error_at_the_firing_only(values: list[int]) -> None:
    accumulator = bound(agg.sum("x"), pa.int64())
    state = parked(accumulator, accumulated(accumulator, values))
    with pytest.raises(ResultOverflow, match="does not fit bigint"):
        accumulator.result(state)
    assert (
        accumulator.result(accumulator.merge(state, accumulated(accumulator, [-value for value in values])))
        == 0
    )
    assert bound(agg.mean("x"), pa.int64()).result(state) == values[0] / 2


def test_a_decimal_sum_of_more_than_38_digits_may_come_back_into_range_in_a_later_run() -> None:
    accumulator = bound(agg.sum("x"), DECIMAL_38)
    widest = Decimal("9" * 28 + "." + "9" * 10)
    state = accumulated(accumulator, [widest, widest])
    readable, *_ = accumulator.encode(state)
    assert readable is None
    with pytest.raises(ResultOverflow, match="more than 38 digits"):
        accumulator.result(parked(accumulator, state))
    assert accumulator.result(accumulator.add(parked(accumulator, state), widest.copy_negate())) == widest


def test_the_readable_part_of_a_sum_says_what_a_firing_would() -> None:
    names = [name for name, _ in bound(agg.sum("x"), DECIMAL_38).parts]
    assert names == ["sum", "sum_exact", "count"]
    assert bound(agg.sum("x"), DECIMAL_38).encode((2, 15_000_000_000))[0] == Decimal("1.5")
    doubled = bound(agg.mean("x"), pa.float64())
    assert doubled.encode(accumulated(doubled, [0.1] * 10))[0] == 1.0


@pytest.mark.parametrize(
    "aggregate",
    [agg.count("x"), agg.sum("x"), agg.mean("x"), agg.min("x"), agg.max("x")],
    ids=lambda item: item.kind,
)
@pytest.mark.parametrize("column_type", [pa.int32(), pa.float64(), DECIMAL_38], ids=str)
def test_a_bound_aggregate_and_its_accumulators_can_be_pickled(
    aggregate: Aggregate, column_type: pa.DataType
) -> None:
    accumulator = bound(aggregate, column_type)
    value = pa.scalar(3, pa.int32()).cast(column_type).as_py()
    copy = pickle.loads(pickle.dumps(accumulator))
    state = accumulator.add(accumulator.create(), value)
    assert copy.result(pickle.loads(pickle.dumps(state))) == accumulator.result(state)
    assert (copy.parts, copy.result_type) == (accumulator.parts, accumulator.result_type)


@pytest.mark.parametrize(
    "aggregate",
    [
        agg.count("x"),
        agg.sum("x"),
        agg.mean("x"),
        agg.min("x"),
        agg.max("x"),
        agg.variance("x"),
        agg.count_distinct("x"),
    ],
    ids=lambda item: item.kind,
)
@settings(max_examples=40)
@given(st.lists(st.sampled_from([math.nan, 0.0, -0.0, math.inf, 1.5]), max_size=6), st.integers(0, 6))
def test_what_a_state_back_end_on_disk_has_pickled_goes_on_as_if_it_had_not(
    aggregate: Aggregate, values: list[float], cut: int
) -> None:
    accumulator = bound(aggregate, pa.float64())
    at_once = accumulated(accumulator, values)
    state = pickle.loads(pickle.dumps(accumulated(accumulator, values[:cut])))
    resumed = reduce(accumulator.add, values[cut:], state)
    assert repr(accumulator.encode(resumed)) == repr(accumulator.encode(at_once))
    assert alike(emitted(accumulator, resumed), emitted(accumulator, at_once))


@pytest.mark.parametrize(
    ("aggregate", "column_type", "rule"),
    [
        (
            agg.sum("y"),
            pa.int64(),
            r"select\['result'\] = sum\('y'\): the source has no column 'y'; it has x",
        ),
        (agg.count("y"), pa.int64(), "the source has no column 'y'"),
        (agg.sum("x"), pa.string(), "the column is string; sum takes integers, floats and decimals"),
        (agg.mean("x"), pa.timestamp("us"), "mean takes integers, floats and decimals"),
        (agg.sum("x"), pa.bool_(), "the column is bool"),
        (agg.min("x"), pa.bool_(), "min takes integers, floats, decimals, strings, dates and timestamps"),
        (agg.max("x"), pa.list_(pa.int64()), "takes integers, floats, decimals, strings, dates"),
        (agg.min("x"), pa.binary(), "takes integers, floats, decimals, strings, dates"),
    ],
)
def test_a_column_that_does_not_suit_the_aggregate_is_refused(
    aggregate: Aggregate, column_type: pa.DataType, rule: str
) -> None:
    with pytest.raises(PipelineError, match=rule):
        bound(aggregate, column_type)


def test_select_adds_each_row_to_all_its_aggregates_and_skips_nulls() -> None:
    select = {"n": agg.count(), "seen": agg.count("x"), "total": agg.sum("x"), "last": agg.max("t")}
    types = {"x": pa.int32(), "t": pa.timestamp("us", tz="UTC")}
    accumulators = [bind(name, aggregate, types) for name, aggregate in select.items()]
    moments = [EPOCH, EPOCH + timedelta(days=1), EPOCH]
    columns = [
        None,
        [4, None, -1],
        [4, None, -1],
        to_python(pa.chunked_array([pa.array(moments, types["t"])])),
    ]
    function = SelectFunction(accumulators, columns)

    state = reduce(lambda state, row: function.add(row, state), range(3), function.create_accumulator())
    assert function.get_result(state) == (3, 2, 3, 86_400_000_000)
    assert function.get_result(function.merge(state, function.create_accumulator())) == (
        3,
        2,
        3,
        86_400_000_000,
    )
    assert function.get_result(function.create_accumulator()) == (0, 0, None, None)


def test_dates_are_picked_by_day() -> None:
    accumulator = bound(agg.min("x"), pa.date32())
    days = to_python(pa.chunked_array([pa.array([date(2013, 1, 2), date(1969, 12, 31)], pa.date32())]))
    assert emitted(accumulator, accumulated(accumulator, days)) == date(1969, 12, 31)
