"""Integers of many limbs as bytes, and their shifts, are those of Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays import limbs
from tests.windowing.columnar.arrays.whole_numbers import of_integers

integers = st.integers(-(2**200), 2**200) | st.sampled_from(
    [0, 1, -1, 2**31, -(2**31), 2**32, -(2**63), 2**63, -(2**64), 128, -128]
)
many = st.lists(integers, max_size=8)


@settings(max_examples=150)
@given(many, st.data())
def test_integers_are_their_shortest_bytes_behind_their_heads(values: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 3))
    heads = np.arange(len(values) * size, dtype=np.uint8).reshape(len(values), size)
    found, offsets = limbs.to_bytes(of_integers(values), heads)
    expected = [value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True) for value in values]
    rows = [
        found[begin:end].tobytes()
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    assert rows == [head.tobytes() + number for head, number in zip(heads, expected, strict=True)]
    numbers, again = limbs.from_bytes(found, offsets, size)
    assert limbs.to_integers(numbers) == values
    assert np.array_equal(again, heads)


@pytest.mark.slow
@settings(max_examples=150)
@given(many, st.data())
def test_shifts_differ_from_row_to_row(values: list[int], data: st.DataObject) -> None:
    bits = data.draw(st.lists(st.integers(0, 130), min_size=len(values), max_size=len(values)))
    numbers = of_integers(values)
    down = limbs.shift_down(numbers, np.array(bits, np.int64))
    assert limbs.to_integers(down) == [value >> bit for value, bit in zip(values, bits, strict=True)]
    up, base = limbs.shift_up(numbers, np.array(bits, np.int64))
    assert [value << limbs.BITS * base for value in limbs.to_integers(up)] == [
        value << bit for value, bit in zip(values, bits, strict=True)
    ]
    lowest = [(value & -value).bit_length() - 1 if value else 0 for value in values]
    assert limbs.trailing_zeros(numbers).tolist() == lowest
    assert limbs.bit_lengths(numbers).tolist() == [value.bit_length() for value in values]


@settings(max_examples=100)
@given(many, st.data(), st.integers(-70, 70))
def test_differences_are_of_numbers_of_any_exponent(
    values: list[int], data: st.DataObject, exponent: int
) -> None:
    others = data.draw(st.lists(integers, min_size=len(values), max_size=len(values)))
    found, unit = limbs.difference(of_integers(values), 0, of_integers(others), exponent)
    expected = [(one << 200) - (other << (200 + exponent)) for one, other in zip(values, others, strict=True)]
    assert [number << (200 + unit) for number in limbs.to_integers(found)] == expected


@pytest.mark.parametrize("values", [[0], [3, -5], [2**40, 0], [2**96 - 1, 2**64], [-(2**31)]])
def test_squares_are_exact(values: list[int]) -> None:
    assert limbs.to_integers(limbs.square(of_integers(values))) == [value * value for value in values]
