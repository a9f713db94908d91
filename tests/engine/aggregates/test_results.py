"""Results and parked parts of aggregates that are known by hand, and what their declarations refuse; what all
aggregates have in common is in `contract`.
"""

import math
import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.aggregates import ResultOverflow, bind
from slackwater.engine.aggregates.histograms import buckets_of, buckets_per_octave, middle, octave
from slackwater.engine.aggregates.hyperloglog import hash_decimal, hash_text, hashes_of, mix
from slackwater.engine.aggregates.variances import root
from slackwater.pipelines import Aggregate, agg
from slackwater.pipelines.errors import PipelineError
from tests.engine.aggregates.accumulating import Accumulated
from tests.engine.aggregates.brute_forces import hash_of, nearest_root
from tests.engine.aggregates.elements import DECIMAL_38, VALUES, WIDEST, alike

GREATEST, LEAST = 1.7976931348623157e308, 5e-324


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1]])
def test_an_integer_sum_that_leaves_bigint_is_an_error_at_the_firing_only(values: list[int]) -> None:
    total = Accumulated(agg.sum("x"), pa.int64(), values).restored()
    with pytest.raises(ResultOverflow, match=rf"the sum {sum(values)} does not fit bigint"):
        _ = total.result
    opposite = [2**63 - 1, 1] if values[0] < 0 else [-(2**63)]
    assert (total + Accumulated(agg.sum("x"), pa.int64(), opposite)).result == sum(values) + sum(opposite)
    assert Accumulated(agg.mean("x"), pa.int64(), values).restored().result == sum(values) / 2


def test_a_decimal_sum_of_more_than_38_digits_may_come_back_into_range_in_a_later_run() -> None:
    total = Accumulated(agg.sum("x"), DECIMAL_38, [WIDEST, WIDEST])
    assert total.parts["sum"] is None
    with pytest.raises(ResultOverflow, match="more than 38 digits"):
        _ = total.restored().result
    assert (total.restored() + Accumulated(agg.sum("x"), DECIMAL_38, [WIDEST.copy_negate()])).result == WIDEST


def test_the_readable_part_of_a_sum_says_what_a_firing_would() -> None:
    parts = Accumulated(agg.sum("x"), DECIMAL_38, [Decimal("1.25"), Decimal("0.25")]).parts
    assert list(parts) == ["sum", "sum_exact", "count"]
    assert (parts["sum"], parts["count"]) == (Decimal("1.5"), 2)
    assert Accumulated(agg.mean("x"), pa.float64(), [0.1] * 10).parts["sum"] == 1.0


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([-0.0], 0.0),
        ([0.0, -0.0], 0.0),
        ([1e308, 1e308, -1e308], 1e308),  # the running sum of doubles would be infinite
        ([GREATEST, GREATEST], math.inf),
        ([-GREATEST, -GREATEST], -math.inf),
        ([1e16, 1.0, -1e16], 1.0),  # adding doubles from left to right gives 0.0
        ([0.1] * 10, 1.0),  # 0.1 is a little more than a tenth; ten of them are nearest to 1
        ([LEAST, LEAST], 1e-323),
        ([LEAST, -LEAST], 0.0),
        ([-LEAST, 1e-323, -LEAST], 0.0),
        ([1.0, 2.0**-53], 1.0),  # a tie, to even
        ([1.0, 2.0**-53, LEAST], 1.0 + 2.0**-52),  # just above the tie
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
    ],
)
def test_known_sums_of_doubles(terms: list[float], expected: float) -> None:
    assert alike(Accumulated(agg.sum("x"), pa.float64(), terms).result, expected)


def test_a_mean_that_is_too_small_for_a_double_is_positive_zero() -> None:
    assert alike(Accumulated(agg.mean("x"), pa.float64(), [-LEAST, 0.0, 0.0]).result, 0.0)


@pytest.mark.parametrize(
    ("terms", "parked_bytes"),
    [
        # specials, then the number of trailing zero bits in two bytes, then the odd rest in the fewest bytes
        # of two's complement
        ([], "00 0000 00"),
        ([LEAST], "00 0000 01"),
        ([1.0], "00 0432 01"),  # 1074 zeros
        ([-1.0], "00 0432 ff"),
        ([127.0], "00 0432 7f"),
        ([129.0], "00 0432 0081"),  # the sign needs a byte more
        ([3 * 0.5], "00 0431 03"),
        ([math.nan], "01 0000 00"),
        ([math.inf], "02 0000 00"),
        ([-math.inf], "04 0000 00"),
        ([math.inf, -math.inf, math.nan, LEAST], "07 0000 01"),
    ],
)
def test_known_bytes_of_a_parked_sum_of_doubles(terms: list[float], parked_bytes: str) -> None:
    parts = Accumulated(agg.sum("x"), pa.float64(), terms).parts
    assert parts["sum_exact"] == bytes.fromhex(parked_bytes)


@pytest.mark.parametrize(
    ("total", "parked_bytes"), [(0, "00"), (-1, "ff"), (127, "7f"), (128, "0080"), (-128, "ff80")]
)
def test_known_bytes_of_a_parked_sum_of_decimals(total: int, parked_bytes: str) -> None:
    values = [Decimal((int(total < 0), (1,), -10))] * abs(total)
    parts = Accumulated(agg.sum("x"), DECIMAL_38, values).parts
    assert parts["sum_exact"] == bytes.fromhex(parked_bytes)


def test_variance_has_no_cancellation() -> None:
    variance = agg.variance("x")
    assert Accumulated(variance, pa.float64(), [1e9 + 1, 1e9 + 2, 1e9 + 3]).result == 1.0
    parts = Accumulated(variance, pa.float64(), [3.0, -1.5]).parts
    assert (parts["sum"], parts["squares"], parts["count"]) == (1.5, 11.25, 2)


@given(st.integers(0, 2**300), st.integers(1, 2**300))
def test_a_root_is_the_nearest_double(divided: int, divisor: int) -> None:
    assert root(divided, divisor) == nearest_root(Fraction(divided, divisor))


def test_different_values_are_parked_in_their_order() -> None:
    values = [math.nan, 2.0, -0.0, None, 0.0, -math.inf, 2.0]
    parts = Accumulated(agg.count_distinct("x"), pa.float64(), values).parts
    assert repr(parts["values"]) == repr([-math.inf, 0.0, 2.0, math.nan])


def test_the_parts_of_first_say_where_its_value_comes_from() -> None:
    types = {"x": pa.timestamp("us", tz="UTC"), "o": pa.int64()}
    of_event_time = bind("r", agg.first("x"), types, "o").parts
    assert [name for name, _ in of_event_time] == ["value", "event_time", "arrival", "order", "row_hash"]
    of_arrival = bind("r", agg.last("x", by="arrival"), types).parts
    assert [name for name, _ in of_arrival] == ["value", "arrival", "row_hash"]


def test_dates_are_picked_by_day() -> None:
    days = [date(2013, 1, 2), date(1969, 12, 31)]
    assert Accumulated(agg.min("x"), pa.date32(), days).result == date(1969, 12, 31)


@pytest.mark.parametrize("precision", [4, 10, 12, 14])
@pytest.mark.parametrize("kind", ["integer", "text"])
def test_about_how_many_differ_by_no_more_than_the_standard_error_allows(precision: int, kind: str) -> None:
    """Over many sets: the mean error is near 0 and its spread near 1.04 / √registers, which is what
    HyperLogLog promises.
    """
    column_type = pa.int64() if kind == "integer" else pa.string()
    rounds, step = 40, {4: 300, 10: 1000, 12: 1500, 14: 2000}[precision]
    errors = []
    for number in range(rounds):
        values = range(number * step, (number + 1) * step)
        members = list(values) if kind == "integer" else [f"user {value}" for value in values]
        about = Accumulated(agg.approx_distinct("x", precision=precision), column_type, members).result
        errors.append(about / step - 1)
    promised = 1.04 / math.sqrt(2**precision)
    assert abs(sum(errors) / rounds) < 4 * promised / math.sqrt(rounds)
    assert math.sqrt(sum(error * error for error in errors) / rounds) < 1.4 * promised


@pytest.mark.parametrize("different", [0, 1, 2, 10, 100])
def test_few_different_values_are_counted_to_a_few_percent(different: int) -> None:
    about = Accumulated(agg.approx_distinct("x"), pa.int64(), list(range(different)) * 3).result
    assert abs(about - different) <= different // 25


def test_registers_are_parked_one_by_one_or_all_whichever_is_shorter() -> None:
    few = Accumulated(agg.approx_distinct("x", precision=4), pa.int64(), [1]).parts["registers"]
    many = Accumulated(agg.approx_distinct("x", precision=4), pa.int64(), list(range(99))).parts["registers"]
    number, rest = divmod(hash_of(1), 1 << 60)
    assert few == number.to_bytes(2, "big") + bytes([61 - rest.bit_length()])
    assert len(many) == 16 and all(many)


def test_the_mixer_is_splitmix64() -> None:
    """The first outputs of the generator with seed 0, as its authors publish them: it mixes multiples of its
    increment.
    """
    increments = np.array([0x9E3779B97F4A7C15 * number % 2**64 for number in range(3)], np.uint64)
    assert mix(increments).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=30)
@given(st.data())
def test_a_column_of_values_hashes_as_its_values(kind: str, data: st.DataObject) -> None:
    column_type, some_values, extremes = VALUES[kind]
    values = pa.array([*extremes, *data.draw(st.lists(some_values, max_size=20))], column_type)
    assert hashes_of(values).tolist() == list(map(hash_of, values.to_pylist()))


def test_equal_values_hash_alike_whatever_they_are_stored_as() -> None:
    for values, types in (([-1, 5], (pa.int8(), pa.int64())), ([1.5, -0.0], (pa.float32(), pa.float64()))):
        hashes = [hashes_of(pa.array(values, kind)).tolist() for kind in types]
        assert hashes[0] == hashes[1]
    assert len(set(hashes_of(pa.array([0.0, -0.0])).tolist())) == 1
    assert len(set(hashes_of(pa.array([math.nan, -math.nan])).tolist())) == 1
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
    [bucket] = buckets_of(np.array([value]), buckets).tolist()
    distance = abs(Fraction(middle(bucket, buckets)) - Fraction(value))
    assert distance <= Fraction(relative_error) * abs(Fraction(value)) * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("buckets", [1, 2, 35, 347])
@settings(max_examples=40)
@given(values=st.lists(st.floats(), max_size=20))
def test_buckets_are_in_the_order_of_their_values(buckets: int, values: list[float]) -> None:
    numbers = [value for value in values if not math.isnan(value)]
    ordered = np.array([*sorted(numbers), math.nan], np.float64)
    assert (np.diff(buckets_of(ordered, buckets)) >= 0).all()


@pytest.mark.parametrize("buckets", [1, 2, 35, 347])
def test_the_borders_of_an_octave_are_roots_of_two(buckets: int) -> None:
    borders = octave(buckets)
    assert borders[0] == 0.5
    for i, border in enumerate(borders[1:], 1):
        below, above = Fraction(math.nextafter(border, 0)), Fraction(math.nextafter(border, 1))
        assert below**buckets * 2**buckets < 2**i < above**buckets * 2**buckets


def test_quantiles_of_a_known_distribution() -> None:
    draws = random.Random(5)
    values = [draws.gauss(1000, 100) for _ in range(20_000)]
    for quantile in (0.05, 0.5, 0.95):
        aggregate = agg.approx_quantile("x", quantile, relative_error=0.001)
        result = Accumulated(aggregate, pa.float64(), values).result
        assert result == pytest.approx(NormalDist(1000, 100).inv_cdf(quantile), rel=0.005)
        assert abs(result / sorted(values)[math.floor(quantile * 19_999)] - 1) <= 0.001


def test_the_histogram_is_an_open_column_in_the_order_of_values() -> None:
    aggregate = agg.approx_quantile("x", 0.5, relative_error=0.5)
    buckets = Accumulated(aggregate, pa.int64(), [1, 1, 2, -4, 0]).parts["buckets"]
    assert [item["count"] for item in buckets] == [1, 1, 2, 1]


def bound(aggregate: Aggregate, column_type: pa.DataType) -> None:
    bind("result", aggregate, {"x": column_type})


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (
            lambda: bound(agg.sum("y"), pa.int64()),
            r"select\['result'\] = sum\('y'\): the source has no column 'y'; it has x",
        ),
        (lambda: bound(agg.count("y"), pa.int64()), "the source has no column 'y'"),
        (
            lambda: bound(agg.sum("x"), pa.string()),
            "the column is string; sum takes integers, floats and decimals",
        ),
        (lambda: bound(agg.mean("x"), pa.timestamp("us")), "mean takes integers, floats and decimals"),
        (lambda: bound(agg.sum("x"), pa.bool_()), "the column is bool"),
        (
            lambda: bound(agg.min("x"), pa.bool_()),
            "min takes integers, floats, decimals, strings, dates and timestamps",
        ),
        (
            lambda: bound(agg.max("x"), pa.list_(pa.int64())),
            "takes integers, floats, decimals, strings, dates",
        ),
        (lambda: bound(agg.min("x"), pa.binary()), "takes integers, floats, decimals, strings, dates"),
        (lambda: agg.approx_distinct("x", precision=3), "precision is 3; it is a whole number from 4 to 16"),
        (lambda: agg.approx_quantile("x", 1.5), "quantile is 1.5; it is a number from 0 to 1"),
        (lambda: agg.approx_quantile("x", 0.5, relative_error=0.0), "relative_error is 0.0"),
        (lambda: agg.first("x", by="row"), "by is 'row'; it is 'event_time' or 'arrival'"),  # type: ignore[arg-type]
        (
            lambda: Aggregate("sum", "x", by="arrival"),
            "by is 'arrival'; it belongs to first, last, collect_list",
        ),
        (
            lambda: Aggregate("approx_quantile", "x"),
            "quantile is None; it belongs to quantile and approx_quantile, which must have it",
        ),
        (
            lambda: bound(agg.min_by("x", "y"), pa.int64()),
            r"select\['result'\] = min_by\('x'\): the source has no column 'y'; it has x",
        ),
        (
            lambda: bound(agg.string_agg("x", ","), pa.int64()),
            "the column is int64; string_agg takes strings",
        ),
        (lambda: bound(agg.bool_and("x"), pa.int64()), "the column is int64; bool_and takes boolean"),
        (lambda: bound(agg.median("x"), pa.date32()), "median takes integers, floats and decimals"),
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
        (lambda: bound(agg.variance("x", where="z = 1"), DECIMAL_38), "the source has no column 'z'"),
    ],
)
def test_what_does_not_suit_is_refused(make: Callable[[], Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=rule):
        make()
