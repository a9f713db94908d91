"""Sums in limbs are Python's sums of integers, and their doubles the exact quotients rounded once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.groups import Groups
from tests.windowing.columnar.arrays.whole_numbers import of_integers

LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)])
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308]
)


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 3), LONGS), min_size=1, max_size=30))
def test_sums_of_longs_are_exact(rows: list[tuple[int, int]]) -> None:
    codes, values = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    sums = limbs.sum_limbs(limbs.from_longs(values), Groups(codes, 4))
    assert limbs.to_integers(sums) == [
        sum(value for code, value in rows if code == group) for group in range(4)
    ]


@settings(max_examples=80)
@given(st.lists(st.lists(LONGS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_running_sums_begin_anew_in_each_run(runs: list[list[int]]) -> None:
    values = np.array([value for run in runs for value in run], np.int64)
    starts = np.cumsum([0, *map(len, runs[:-1])])
    expected = [sum(run[: place + 1]) for run in runs for place in range(len(run))]
    assert limbs.to_integers(limbs.running_limbs(limbs.from_longs(values), starts)) == expected


@settings(max_examples=80)
@given(st.lists(st.tuples(LONGS, st.integers(-(2**200), 2**200)), min_size=1, max_size=6))
def test_products_are_exact(pairs: list[tuple[int, int]]) -> None:
    ones, others = (of_integers(list(column)) for column in zip(*pairs, strict=True))
    assert limbs.to_integers(limbs.multiply(ones, others)) == [one * other for one, other in pairs]


@settings(max_examples=150)
@given(st.lists(DOUBLES, min_size=1, max_size=12), st.integers(1, 2**31 - 1))
def test_doubles_are_summed_exactly_and_rounded_once(values: list[float], divisor: int) -> None:
    numbers, base = limbs.from_doubles(np.array(values))
    total = limbs.sum_limbs(numbers, Groups(np.zeros(len(values), np.int64), 1))
    exact = sum(map(Fraction, values), Fraction(0))
    unit = Fraction(2) ** (limbs.BITS * base - limbs.UNIT_BITS)
    assert limbs.to_integers(total)[0] * unit == exact
    for rounded, wanted in (
        (limbs.to_doubles(total, limbs.BITS * base - limbs.UNIT_BITS), exact),
        (
            limbs.to_doubles(total, limbs.BITS * base - limbs.UNIT_BITS, [np.array([divisor])]),
            exact / divisor,
        ),
    ):
        assert rounded[0] == _nearest(wanted)
        assert not (rounded[0] == 0 and math.copysign(1, rounded[0]) < 0)


def _nearest(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@settings(max_examples=100)
@given(st.lists(st.integers(-(2**188), 2**188) | LONGS, min_size=1, max_size=8))
def test_digits_and_integers_are_the_same_numbers(values: list[int]) -> None:
    digits = limbs.to_digits(of_integers(values), 3)
    assert [
        sum(int(digit[row]) << (64 * place) for place, digit in enumerate(digits))
        for row in range(len(values))
    ] == values
    assert limbs.to_integers(limbs.from_digits(digits)) == values


@pytest.mark.parametrize("value", [2**127, -(2**127) - 2**63 - 1, 2**130])
def test_an_integer_of_too_many_digits_is_refused(value: int) -> None:
    with pytest.raises(OverflowError, match="more than 2 digits"):
        limbs.to_digits(of_integers([value]), 2)
