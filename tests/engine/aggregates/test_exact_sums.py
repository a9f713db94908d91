"""Exact sums against rational arithmetic: the sum of doubles is a fraction, and reading it rounds once."""

import math
import pickle
import struct
from fractions import Fraction
from functools import reduce
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.aggregates import exact_sums
from slackwater.engine.aggregates.exact_sums import ZERO, ExactSum

GREATEST = 1.7976931348623157e308
LEAST = 5e-324

finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.floats()


def total_of(terms: list[float]) -> ExactSum:
    return reduce(exact_sums.add, terms, ZERO)


def nearest(value: Fraction) -> float:
    """The double that is nearest to a fraction; too great is infinite, and a zero is positive."""
    try:
        return value.numerator / value.denominator + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


@given(st.lists(finite), st.randoms(use_true_random=False), st.integers(min_value=0))
def test_any_order_and_any_split_gives_the_rounded_rational_sum(
    terms: list[float], random: Random, cut: int
) -> None:
    expected = nearest(sum(map(Fraction, terms), Fraction(0)))
    shuffled = list(terms)
    random.shuffle(shuffled)
    cut %= len(terms) + 1
    merged = exact_sums.merge(total_of(shuffled[:cut]), total_of(shuffled[cut:]))
    assert bits(exact_sums.round_sum(merged)) == bits(expected)
    assert merged == total_of(terms)


@given(st.lists(finite, min_size=1))
def test_a_mean_is_the_rational_quotient_rounded_once(terms: list[float]) -> None:
    expected = nearest(sum(map(Fraction, terms), Fraction(0)) / len(terms))
    assert bits(exact_sums.round_sum(total_of(terms), len(terms))) == bits(expected)


@given(st.lists(anything, max_size=8))
def test_special_values_follow_the_rules_of_addition(terms: list[float]) -> None:
    result = exact_sums.round_sum(total_of(terms))
    if any(math.isnan(term) for term in terms) or {math.inf, -math.inf} <= set(terms):
        assert math.isnan(result)
    elif math.inf in terms or -math.inf in terms:
        assert result == (math.inf if math.inf in terms else -math.inf)
    else:
        assert math.isfinite(result) or abs(sum(map(Fraction, terms), Fraction(0))) > Fraction(GREATEST)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], 0.0),
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
    ],
)
def test_known_sums(terms: list[float], expected: float) -> None:
    assert bits(exact_sums.round_sum(total_of(terms))) == bits(expected)


def test_a_mean_that_is_too_small_for_a_double_is_positive_zero() -> None:
    assert bits(exact_sums.round_sum(total_of([-LEAST, 0.0, 0.0]), 3)) == bits(0.0)


@given(st.lists(anything))
def test_bytes_give_the_sum_back(terms: list[float]) -> None:
    total = total_of(terms)
    assert exact_sums.decode(exact_sums.encode(total)) == total
    assert pickle.loads(pickle.dumps(total)) == total


@given(st.lists(anything, max_size=6), st.lists(anything, max_size=6))
def test_bytes_are_equal_exactly_when_the_sums_are(terms: list[float], others: list[float]) -> None:
    a, b = total_of(terms), total_of(others)
    assert (exact_sums.encode(a) == exact_sums.encode(b)) == (a == b)


@pytest.mark.parametrize(
    ("total", "data"),
    [
        # specials, then the number of trailing zero bits in two bytes, then the odd rest in the fewest bytes
        # of two's complement
        (ZERO, "00 0000 00"),
        (total_of([LEAST]), "00 0000 01"),
        (total_of([1.0]), "00 0432 01"),  # 1074 zeros
        (total_of([-1.0]), "00 0432 ff"),
        (total_of([127.0]), "00 0432 7f"),
        (total_of([129.0]), "00 0432 0081"),  # the sign needs a byte more
        (total_of([3 * 0.5]), "00 0431 03"),
        (total_of([math.nan]), "01 0000 00"),
        (total_of([math.inf]), "02 0000 00"),
        (total_of([-math.inf]), "04 0000 00"),
        (total_of([math.inf, -math.inf, math.nan, LEAST]), "07 0000 01"),
    ],
)
def test_known_bytes(total: ExactSum, data: str) -> None:
    assert exact_sums.encode(total) == bytes.fromhex(data)
    assert exact_sums.decode(bytes.fromhex(data)) == total
