"""Java's arithmetic and hashing; expected values are Java's own, recorded, or worked out by hand."""

import pytest

from slackwater.windowing.java import (
    LONG_MAX,
    LONG_MIN,
    absolute,
    expected_size_capacity,
    grown_table,
    hash_order,
    long_hash,
    quotient,
    remainder,
    string_hash,
    table_size_for,
    wrap_int,
    wrap_long,
)


def test_sums_wrap_at_both_ends() -> None:
    assert wrap_long(LONG_MAX + 1) == LONG_MIN
    assert wrap_long(LONG_MIN - 1) == LONG_MAX
    assert wrap_int(2**31) == -(2**31)
    assert absolute(LONG_MIN) == LONG_MIN


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(7, 5, 2), (-7, 5, -2), (7, -5, 2), (-7, -5, -2), (LONG_MIN, 10, -8)]
)
def test_remainder_has_the_sign_of_the_dividend(a: int, b: int, expected: int) -> None:
    assert remainder(a, b) == expected
    assert wrap_long(quotient(a, b) * b + expected) == a


def test_division_by_zero_fails_as_in_java() -> None:
    with pytest.raises(ZeroDivisionError):
        remainder(1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("key1", 3288498), ("ключ", 33309882), ("user-42", -147182656), ("Aa", 2112), ("BB", 2112)],
)
def test_strings_hash_over_utf16_units(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_a_character_beyond_16_bits_is_two_units() -> None:
    assert string_hash("😀") == 31 * 0xD83D + 0xDE00


def test_longs_fold_to_32_bits() -> None:
    assert (long_hash(-1), long_hash(1234567890123), long_hash(2**32)) == (0, 1912276436, 1)


@pytest.mark.parametrize(("capacity", "table"), [(0, 1), (1, 1), (3, 4), (16, 16), (17, 32)])
def test_tables_are_powers_of_two(capacity: int, table: int) -> None:
    assert table_size_for(capacity) == table


def test_a_table_doubles_above_three_quarters() -> None:
    assert [grown_table(16, entries) for entries in (12, 13, 25)] == [16, 32, 64]
    assert [expected_size_capacity(entries) for entries in (0, 1, 2, 3, 12, 13)] == [1, 2, 4, 4, 16, 32]


def test_hash_order_is_by_bucket_then_by_insertion() -> None:
    assert hash_order([33, 17, 2, 1], lambda item: item) == [
        33,
        17,
        1,
        2,
    ]  # 33, 17 and 1 share bucket 1 of 16
    assert hash_order([33, 17, 2, 1], lambda item: item, 64) == [1, 2, 17, 33]
