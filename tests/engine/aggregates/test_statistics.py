"""Variance, first and last, distinct counts and quantiles: against brute forces over exact numbers, for any
order and split.
"""

import math
import random
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.aggregates import Accumulator, bind, exact_sums
from slackwater.engine.aggregates.first_or_last import order_rank
from slackwater.engine.aggregates.histograms import bucket_of, buckets_per_octave, middle, octave
from slackwater.engine.aggregates.hyperloglog import hash_decimal, hash_of, hash_text, mix
from slackwater.engine.rows.python_values import to_arrow, to_python
from slackwater.pipelines import Aggregate, agg
from slackwater.pipelines.errors import PipelineError
from tests.engine.aggregates.accumulating import (
    DECIMAL_38,
    NUMBERS,
    VALUES,
    accumulated,
    alike,
    bound,
    emitted,
    parked,
)

STRATEGIES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **VALUES,
    "boolean": (pa.bool_(), st.booleans()),
}


def through_splits(data: st.DataObject, accumulator: Accumulator, values: list[Any]) -> Any:
    """The accumulator of `values` shuffled, split into up to three, parked and merged."""
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), min_size=2, max_size=2)))
    parts = [shuffled[: cuts[0]], shuffled[cuts[0] : cuts[1]], shuffled[cuts[1] :]]
    states = [parked(accumulator, accumulated(accumulator, part)) for part in parts]
    return parked(accumulator, accumulator.merge(accumulator.merge(states[0], states[1]), states[2]))


def columns_of(accumulator: Accumulator, state: Any) -> list[Any]:
    """The parts as a reader of window_state gets them; floats as they are written."""
    return [
        repr(to_arrow([value], kind).to_pylist())
        for value, (_, kind) in zip(accumulator.encode(state), accumulator.parts, strict=True)
    ]


EVERY = [
    *(
        pytest.param(make("x"), kind, id=f"{make('x').kind}-{kind}")
        for make in (agg.variance, agg.stddev)
        for kind in NUMBERS
    ),
    *(pytest.param(agg.count_distinct("x"), kind, id=f"count_distinct-{kind}") for kind in STRATEGIES),
    *(
        pytest.param(agg.approx_distinct("x", precision=4), kind, id=f"approx_distinct-{kind}")
        for kind in STRATEGIES
    ),
    *(
        pytest.param(agg.approx_quantile("x", 0.3, relative_error=0.2), kind, id=f"approx_quantile-{kind}")
        for kind in NUMBERS
    ),
]


@pytest.mark.parametrize(("aggregate", "kind"), EVERY)
@settings(max_examples=15)
@given(st.data())
def test_the_state_is_a_function_of_the_multiset_of_values_alone(
    aggregate: Aggregate, kind: str, data: st.DataObject
) -> None:
    column_type, some_values = STRATEGIES[kind]
    values = data.draw(st.lists(some_values, max_size=24))
    values = to_python(pa.chunked_array([pa.array(values, column_type)]))
    accumulator = bound(aggregate, column_type)

    at_once, merged = accumulated(accumulator, values), through_splits(data, accumulator, values)

    assert columns_of(accumulator, merged) == columns_of(accumulator, at_once)
    assert alike(emitted(accumulator, merged), emitted(accumulator, at_once))


def variance_of(values: list[Any]) -> Fraction | float | None:
    """The sample variance by its definition: squared distances from the mean."""
    if len(values) < 2:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    average = sum(map(Fraction, values)) / Fraction(len(values))
    return sum((Fraction(value) - average) ** 2 for value in values) / Fraction(len(values) - 1)


def nearest_root(exact: Fraction) -> float:
    with localcontext(prec=800):
        return float((Decimal(exact.numerator) / Decimal(exact.denominator)).sqrt())


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=40)
@given(st.data())
def test_variance_is_the_exact_one_rounded_once_and_the_deviation_its_root(
    kind: str, data: st.DataObject
) -> None:
    column_type, some_values = VALUES[kind]
    values = data.draw(st.lists(some_values, max_size=6))
    exact = variance_of(values)
    for aggregate, rounded in (
        (agg.variance("x"), lambda x: exact_sums.quotient(x.numerator, x.denominator)),
        (agg.stddev("x"), nearest_root),
    ):
        accumulator = bound(aggregate, column_type)
        result = accumulator.result(
            accumulated(accumulator, to_python(pa.chunked_array([pa.array(values, column_type)])))
        )
        assert alike(result, rounded(exact) if isinstance(exact, Fraction) else exact)


def test_variance_has_no_cancellation() -> None:
    accumulator = bound(agg.variance("x"), pa.float64())
    assert accumulator.result(accumulated(accumulator, [1e9 + 1, 1e9 + 2, 1e9 + 3])) == 1.0
    readable = dict(
        zip(
            [name for name, _ in accumulator.parts],
            accumulator.encode(accumulated(accumulator, [3.0, -1.5])),
            strict=True,
        )
    )
    assert (readable["sum"], readable["squares"], readable["count"]) == (1.5, 11.25, 2)


@given(st.integers(0, 2**300), st.integers(1, 2**300))
def test_a_root_is_the_nearest_double(divided: int, divisor: int) -> None:
    assert exact_sums.root(divided, divisor) == nearest_root(Fraction(divided, divisor))


@pytest.mark.parametrize("kind", STRATEGIES)
@settings(max_examples=40)
@given(st.data())
def test_count_distinct_is_exact_and_shows_its_values(kind: str, data: st.DataObject) -> None:
    column_type, some_values = STRATEGIES[kind]
    values = data.draw(
        st.lists(
            some_values | st.sampled_from(data.draw(st.lists(some_values, min_size=1, max_size=3))),
            max_size=12,
        )
    )
    column = pa.chunked_array([pa.array(values, column_type)])
    accumulator = bound(agg.count_distinct("x"), column_type)
    state = accumulated(accumulator, to_python(column))

    different = {repr(value + 0.0 if isinstance(value, float) else value) for value in column.to_pylist()}
    assert accumulator.result(parked(accumulator, state)) == len(different)
    shown = to_arrow([accumulator.encode(state)[0]], accumulator.parts[0][1]).to_pylist()[0]
    assert sorted(map(repr, shown)) == sorted(different)


orders = st.none() | st.sampled_from([-1.5, 0.0, 2.0, math.nan])


def place_of(order: float | None) -> tuple[int, float]:
    return (0, 0.0) if order is None else (2, 0.0) if math.isnan(order) else (1, order)


@pytest.mark.parametrize("make", [agg.first, agg.last])
@pytest.mark.parametrize("by", ["event_time", "arrival"])
@settings(max_examples=40)
@given(st.data())
def test_first_and_last_are_those_of_the_sorted_rows(make: Any, by: Any, data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(
            st.tuples(st.integers(-2, 2), st.integers(0, 2), orders, st.sampled_from("abc")), max_size=12
        )
    )
    times = [(event, arrival) if by == "event_time" else (arrival,) for event, arrival, _, _ in rows]
    values = [
        (time, order_rank(row[2]), row[3].encode(), row[3]) for time, row in zip(times, rows, strict=True)
    ]
    accumulator = bind("r", make("x", by=by), {"x": pa.string(), "o": pa.float64()}, "o", ("x",))

    placed = sorted((*time, *place_of(order), x) for time, (_, _, order, x) in zip(times, rows, strict=True))
    expected = (placed[0] if make is agg.first else placed[-1])[-1] if placed else None
    assert accumulator.result(through_splits(data, accumulator, values)) == expected


def test_the_parts_of_first_say_where_its_value_comes_from() -> None:
    types = {"x": pa.timestamp("us", tz="UTC"), "o": pa.int64()}
    assert [name for name, _ in bind("r", agg.first("x"), types, "o").parts] == [
        "value",
        "event_time",
        "arrival",
        "order",
        "row_hash",
    ]
    assert [name for name, _ in bind("r", agg.last("x", by="arrival"), types).parts] == [
        "value",
        "arrival",
        "row_hash",
    ]


@pytest.mark.parametrize("precision", [4, 10, 12, 14])
@pytest.mark.parametrize("kind", ["integer", "text"])
def test_about_how_many_differ_by_no_more_than_the_standard_error_allows(precision: int, kind: str) -> None:
    """Over many sets: the mean error is near 0 and its spread near 1.04 / √registers, which is what
    HyperLogLog promises.
    """
    column_type = pa.int64() if kind == "integer" else pa.string()
    rounds, step = 40, {4: 300, 10: 1000, 12: 1500, 14: 2000}[precision]
    accumulator = bound(agg.approx_distinct("x", precision=precision), column_type)
    errors = []
    for number in range(rounds):
        values = range(number * step, (number + 1) * step)
        state = accumulated(
            accumulator, list(values) if kind == "integer" else [f"user {value}" for value in values]
        )
        errors.append(accumulator.result(state) / step - 1)
    promised = 1.04 / math.sqrt(2**precision)
    assert abs(sum(errors) / rounds) < 4 * promised / math.sqrt(rounds)
    assert math.sqrt(sum(error * error for error in errors) / rounds) < 1.4 * promised


@pytest.mark.parametrize("different", [0, 1, 2, 10, 100])
def test_few_different_values_are_told_to_a_few_percent(different: int) -> None:
    accumulator = bound(agg.approx_distinct("x"), pa.int64())
    assert (
        abs(accumulator.result(accumulated(accumulator, list(range(different)) * 3)) - different)
        <= different // 25
    )


def test_the_mixer_is_splitmix64() -> None:
    """The first outputs of the generator with seed 0, as its authors publish them: it mixes multiples of its
    increment.
    """
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    assert [mix(golden * i & mask) for i in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_equal_values_hash_alike_whatever_they_are_stored_as() -> None:
    assert hash_of(pa.int8())(-1) == hash_of(pa.int64())(-1)
    assert hash_of(pa.float64())(-0.0) == hash_of(pa.float64())(0.0)
    assert hash_of(pa.float64())(math.nan) == hash_of(pa.float64())(-math.nan)
    assert hash_decimal(Decimal("1.50")) == hash_decimal(Decimal("1.5")) == hash_text("1.5")
    assert hash_decimal(Decimal("-0.00")) == hash_decimal(Decimal("0")) != hash_decimal(Decimal("100"))
    wide = "12345678901234567890123456789012345678"
    assert hash_decimal(Decimal(wide)) != hash_decimal(Decimal(wide[:-1] + "9"))


@pytest.mark.parametrize("relative_error", [0.0001, 0.01, 0.1, 0.5])
@settings(max_examples=40)
@given(value=st.floats(min_value=2.3e-308, allow_infinity=False), is_negative=st.booleans())
def test_the_middle_of_a_bucket_is_near_all_that_it_holds(
    relative_error: float, value: float, is_negative: bool
) -> None:
    value = -value if is_negative else value
    buckets = buckets_per_octave(relative_error)
    result = middle(bucket_of(value, buckets), buckets)
    assert abs(Fraction(result) - Fraction(value)) <= Fraction(relative_error) * abs(Fraction(value)) * (
        1 + Fraction(1, 10**12)
    )


@pytest.mark.parametrize("buckets", [1, 2, 35, 347])
def test_the_borders_of_an_octave_are_roots_of_two(buckets: int) -> None:
    borders = octave(buckets)
    assert borders[0] == 0.5
    for i, border in enumerate(borders[1:], 1):
        below, above = Fraction(math.nextafter(border, 0)), Fraction(math.nextafter(border, 1))
        assert below**buckets * 2**buckets < 2**i < above**buckets * 2**buckets


@settings(max_examples=40)
@given(
    st.lists(st.floats() | st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324]), max_size=12),
    st.sampled_from([0, 0.1, 0.25, 0.5, 0.7, 0.99, 1]),
)
def test_a_quantile_is_within_its_error_of_the_value_at_its_place(
    values: list[float], quantile: float
) -> None:
    accumulator = bound(agg.approx_quantile("x", quantile), pa.float64())
    result = accumulator.result(parked(accumulator, accumulated(accumulator, values)))
    if not values:
        assert result is None
        return
    ordered = sorted(value for value in values if value == value) + [
        value for value in values if value != value
    ]
    true = ordered[math.floor(Fraction(str(quantile)) * (len(values) - 1))]
    if math.isnan(true) or math.isinf(true):
        assert repr(result) == repr(math.nan if math.isnan(true) else true)
    elif abs(true) < 2.3e-308:
        assert abs(result) <= 2.3e-308 * 1.01
    else:
        assert abs(result / true - 1) <= 0.01 + 1e-12


def test_quantiles_of_a_known_distribution() -> None:
    draws = random.Random(5)
    values = [draws.gauss(1000, 100) for _ in range(20_000)]
    for quantile in (0.05, 0.5, 0.95):
        accumulator = bound(agg.approx_quantile("x", quantile, relative_error=0.001), pa.float64())
        result = accumulator.result(accumulated(accumulator, values))
        assert result == pytest.approx(NormalDist(1000, 100).inv_cdf(quantile), rel=0.005)
        assert abs(result / sorted(values)[math.floor(quantile * 19_999)] - 1) <= 0.001


def test_the_histogram_is_an_open_column() -> None:
    accumulator = bound(agg.approx_quantile("x", 0.5, relative_error=0.5), pa.int64())
    (shown,) = accumulator.encode(accumulated(accumulator, [1, 1, 2, -4, 0]))
    assert Counter({item["bucket"]: item["count"] for item in shown}).total() == 5
    assert [item["count"] for item in shown] == [1, 1, 2, 1], "buckets stand in the order of their values"


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: agg.approx_distinct("x", precision=3), "precision is 3; it is a whole number from 4 to 16"),
        (lambda: agg.approx_quantile("x", 1.5), "quantile is 1.5; it is a number from 0 to 1"),
        (lambda: agg.approx_quantile("x", 0.5, relative_error=0.0), "relative_error is 0.0"),
        (lambda: agg.first("x", by="row"), "by is 'row'; it is 'event_time' or 'arrival'"),  # type: ignore[arg-type]
        (lambda: Aggregate("sum", "x", by="arrival"), "by is 'arrival'; it belongs to first and last"),
        (
            lambda: Aggregate("approx_quantile", "x"),
            "quantile is None; it belongs to approx_quantile, which must have it",
        ),
        (lambda: agg.variance("x", where="x >"), "at column 4: the text ends; a column, a literal"),
        (lambda: bound(agg.variance("x"), pa.string()), "variance takes integers, floats and decimals"),
        (
            lambda: bound(agg.approx_quantile("x", 0.5), pa.timestamp("us")),
            "approx_quantile takes integers, floats and decimals",
        ),
        (
            lambda: bound(agg.count_distinct("x"), pa.list_(pa.int64())),
            "takes integers, floats, decimals, strings, dates, timestamps and bool",
        ),
        (
            lambda: bound(agg.variance("x", where="z = 1"), DECIMAL_38),
            "the source has no column 'z'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, rule: str) -> None:
    with pytest.raises(PipelineError, match=rule):
        make()
