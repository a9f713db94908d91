"""Covariance, correlation and linear regression of two columns: exact sums until a firing, which rounds once.

Over the n rows in which both columns have a value, as doubles, with

    C = n·Σxy − Σx·Σy        A = n·Σx² − (Σx)²        B = n·Σy² − (Σy)²

covar_pop is C / n², covar_samp C / (n·(n − 1)), corr C / √(A·B); the line y = slope·x + intercept that fits
best has the slope C / A, the intercept (Σy·A − C·Σx) / (n·A) and the determination C² / (A·B). All are
quotients of integers. Null is what would be divided by 0; a line through equal y has the determination 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.engine.aggregates.count import running_sum
from slackwater.engine.aggregates.doubles import nearest_doubles
from slackwater.engine.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.engine.aggregates.variances import root
from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, sum_of_groups

_SUMS = ("x", "y", "xx", "yy", "xy")
_BELOW = 34  # limbs below 2^-1074 that the least product needs


class Moments(NamedTuple):
    """Of one window: the count, Σx and Σy in units of 2^exponent, C, A and B in units of their square."""

    n: int
    x: int
    y: int
    c: int
    a: int
    b: int
    exponent: int


Formula = Callable[[Moments], float | None]


class PairMoments:
    """Accumulator: the five sums as limbs, of x and y in units of 2^-1074, of the products in units of 2^(32
    base - 1074); the number of pairs with a value that is not finite, which are not in the sums; the number
    of all pairs. Parked beside the exact sums are readable doubles.
    """

    columns: Parts = (
        *((name, pa.binary()) for name in _SUMS),
        ("non_finite", pa.int64()),
        ("count", pa.int64()),
    )
    parts: Parts = (
        *((name, pa.float64()) for name in _SUMS),
        *((f"{name}_exact", pa.binary()) for name in _SUMS),
        ("non_finite", pa.int64()),
        ("count", pa.int64()),
    )
    result_type = pa.float64()

    def __init__(self, x: str, y: str, formula: str) -> None:
        self._names = (x, y)
        self._formula = formula

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        columns = [rows.column(name).combine_chunks() for name in self._names]
        is_pair = np.logical_and(*(np.asarray(column.is_valid()) for column in columns))
        x, y = (nearest_doubles(column.filter(pa.array(is_pair))) for column in columns)
        codes, is_finite = groups.codes[is_pair], np.isfinite(x) & np.isfinite(y)
        finite = Groups(codes[is_finite], groups.size)
        x, y = x[is_finite], y[is_finite]
        numbers = (
            limbs.from_doubles(x),
            limbs.from_doubles(y),
            _products(x, x),
            _products(y, y),
            _products(x, y),
        )
        return [
            *(pack_limbs(limbs.sum_limbs(number, finite), base) for number, base in numbers),
            pa.array(np.bincount(codes[~is_finite], minlength=groups.size)),
            pa.array(np.bincount(codes, minlength=groups.size)),
        ]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return [
            *_each_sum(accumulators, lambda numbers: limbs.sum_limbs(numbers, groups)),
            *(pa.array(sum_of_groups(counts.to_numpy(), groups)) for counts in accumulators[-2:]),
        ]

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return [
            *_each_sum(accumulators, lambda numbers: limbs.running_limbs(numbers, starts)),
            *(pa.array(running_sum(counts.to_numpy(), starts)) for counts in accumulators[-2:]),
        ]

    def results(self, accumulators: Columns) -> pa.Array:
        """NaN where a value was not finite."""
        formula = FORMULAS[self._formula]
        least = 2 if self._formula == "covar_samp" else 1
        non_finite, counts = (column.to_pylist() for column in accumulators[-2:])
        results = [
            None if n < least else np.nan if special else formula(moments)
            for moments, special, n in zip(_moments(accumulators), non_finite, counts, strict=True)
        ]
        return pa.array(results, pa.float64())

    def encode(self, accumulators: Columns) -> Columns:
        readable, exact = [], []
        for name, column in zip(_SUMS, accumulators, strict=False):
            numbers, base = unpack_limbs(column)
            exponent = limbs.BITS * base - limbs.UNIT_BITS
            readable.append(pa.array(limbs.to_doubles(numbers, exponent)))
            exact.append(encode_exact(numbers, exponent + _unit_bits(name), np.zeros(len(column), np.int64)))
        return [*readable, *exact, *accumulators[-2:]]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        columns = []
        for name, exact in zip(_SUMS, parts[len(_SUMS) :], strict=False):
            numbers, base, _ = decode_exact(exact, limbs.UNIT_BITS - _unit_bits(name))
            columns.append(pack_limbs(numbers, base))
        return [*columns, *parts[-2:]]


def _unit_bits(name: str) -> int:
    """The parked sum is in units of 2^-bits."""
    return len(name) * limbs.UNIT_BITS


def _products(x: np.ndarray, y: np.ndarray) -> tuple[Longs, int]:
    """(limbs, base) of the products of finite doubles."""
    (fractions, exponents), (other_fractions, other_exponents) = np.frexp(x), np.frexp(y)
    mantissas, others = (
        limbs.from_longs((numbers * 2.0**53).astype(np.int64)) for numbers in (fractions, other_fractions)
    )
    bits = exponents.astype(np.int64) + other_exponents - 2 * 53 + limbs.UNIT_BITS + limbs.BITS * _BELOW
    products, base = limbs.shift_up(limbs.multiply(mantissas, others), bits)
    return products, base - _BELOW


def _each_sum(accumulators: Columns, add: Callable[[Longs], Longs]) -> list[pa.Array]:
    sums = (unpack_limbs(column) for column in accumulators[: len(_SUMS)])
    return [pack_limbs(add(numbers), base) for numbers, base in sums]


def _moments(accumulators: Columns) -> list[Moments]:
    """Those of each row, in units as coarse as the limbs of all rows allow."""
    sums = [unpack_limbs(column) for column in accumulators[: len(_SUMS)]]
    exponents = [limbs.BITS * base - limbs.UNIT_BITS for _, base in sums]
    exponent = min(*exponents[:2], min(exponents[2:]) // 2)
    columns = [
        [number << (power - exponent * len(name)) for number in limbs.to_integers(numbers)]
        for name, (numbers, _), power in zip(_SUMS, sums, exponents, strict=True)
    ]
    return [
        Moments(n, x, y, c=n * xy - x * y, a=n * xx - x * x, b=n * yy - y * y, exponent=exponent)
        for n, x, y, xx, yy, xy in zip(accumulators[-1].to_pylist(), *columns, strict=True)
    ]


def _quotient(dividend: int, divisor: int, exponent: int = 0) -> float:
    """The double nearest to dividend / divisor · 2^exponent."""
    try:
        return (dividend << max(exponent, 0)) / (divisor << max(-exponent, 0)) + 0.0
    except OverflowError:
        return np.inf if dividend > 0 else -np.inf


def _corr(m: Moments) -> float | None:
    if m.a == 0 or m.b == 0:
        return None
    return root(m.c * m.c, m.a * m.b) * (-1 if m.c < 0 else 1)


def _r2(m: Moments) -> float | None:
    if m.a == 0:
        return None
    return 1.0 if m.b == 0 else _quotient(m.c * m.c, m.a * m.b)


FORMULAS: dict[str, Formula] = {
    "covar_pop": lambda m: _quotient(m.c, m.n * m.n, 2 * m.exponent),
    "covar_samp": lambda m: _quotient(m.c, m.n * (m.n - 1), 2 * m.exponent),
    "corr": _corr,
    "regr_slope": lambda m: _quotient(m.c, m.a) if m.a else None,
    "regr_intercept": lambda m: _quotient(m.y * m.a - m.c * m.x, m.n * m.a, m.exponent) if m.a else None,
    "regr_r2": _r2,
}
