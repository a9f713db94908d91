"""Key types and key groups, against values recorded from Flink and computed by hand."""

import pickle
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.errors import KeyGroupError, KeyTypeError
from slackwater.windowing.key_groups import (
    KeyGroupIndex,
    KeyGroupRange,
    default_max_parallelism,
    key_group_of,
    operator_index,
)
from slackwater.windowing.key_types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    TupleKey,
    key_type,
)


@pytest.mark.parametrize(
    ("key", "group"), [("a", 81), ("b", 22), ("key1", 41), ("flink", 98), ("ключ", 67), ("", 94)]
)
def test_strings_have_flinks_key_group(key: str, group: int) -> None:
    assert key_group_of(key, STRING, 128) == group


@pytest.mark.parametrize(
    ("key", "group"), [(1, 86), (2, 127), (42, 29), (-1, 80), (-(2**31), 108), (2**31 - 1, 62)]
)
def test_ints_have_flinks_key_group(key: int, group: int) -> None:
    assert key_group_of(key, INT, 128) == group


def test_an_int_and_a_long_of_the_same_value_differ_below_zero() -> None:
    assert (INT.hash_code(-1), LONG.hash_code(-1)) == (-1, 0)
    assert INT.hash_code(7) == LONG.hash_code(7) == SHORT.hash_code(7) == BYTE.hash_code(7) == 7


def test_a_date_hashes_and_serializes_as_local_date() -> None:
    # java.time.LocalDate.of(2013, 1, 31).hashCode(): (2013 & 0xFFFFF800) ^ ((2013 << 11) + (1 << 6) + 31)
    assert DATE.hash_code(date(2013, 1, 31)) == 0 ^ (4122624 + 64 + 31)
    assert DATE.serialize(date(2013, 1, 31)).hex() == "000007dd011f"


def test_shorter_strings_serialize_lower_and_long_ones_with_two_length_bytes() -> None:
    assert STRING.serialize("z") < STRING.serialize("aa")
    assert STRING.serialize("x" * 127)[:2] == b"\x80\x01"
    assert STRING.serialize("é").hex() == "02e901"


@given(st.text(max_size=200))
def test_the_short_way_for_ascii_strings_is_the_long_way(text: str) -> None:
    numbers, bytes_left = [], STRING.serialize(text)
    number = shift = 0
    for byte in bytes_left:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    units = text.encode("utf-16-le", "surrogatepass")
    assert numbers == [len(units) // 2 + 1, *memoryview(units).cast("H")]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (INT, 2**31),
        (LONG, True),
        (LONG, "1"),
        (STRING, 1),
        (BOOLEAN, 1),
        (DOUBLE, 1),
        (DATE, datetime(2013, 1, 1)),  # noqa: DTZ001
        (BYTE, 128),
    ],
)
def test_a_key_of_another_type_is_refused(kind: Any, key: Any) -> None:
    with pytest.raises(KeyTypeError, match=kind.name):
        kind.check(key)


def test_tuples_check_every_field() -> None:
    kind = key_type("tuple(string,long)")
    assert kind.name == "tuple(string,long)"
    kind.check(("a", 1))
    for wrong in (("a",), ("a", "b"), ["a", 1]):
        with pytest.raises(KeyTypeError):
            kind.check(wrong)


def test_an_unknown_key_type_names_the_known_ones() -> None:
    with pytest.raises(KeyTypeError, match="string, bool, double, date"):
        key_type("float")


@pytest.mark.parametrize(
    "kind", [BOOLEAN, BYTE, DATE, DOUBLE, INT, LONG, SHORT, STRING, TupleKey((INT, STRING))]
)
def test_key_types_are_values(kind: Any) -> None:
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert kind != key_type("tuple(int,int)")


@given(st.integers(1, 300), st.data())
def test_ranges_divide_all_key_groups_and_agree_with_the_owner(
    max_parallelism: int, data: st.DataObject
) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    ranges = KeyGroupRange.ranges(parallelism, max_parallelism)
    assert [group for key_range in ranges for group in key_range] == list(range(max_parallelism))
    for index, key_range in enumerate(ranges):
        assert {operator_index(group, parallelism, max_parallelism) for group in key_range} == {index}


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (171, 256), (172, 512), (21846, 32768), (32768, 32768)],
)
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("parallelism", [0, -1, 32769])
def test_a_parallelism_out_of_bounds_is_refused(parallelism: int) -> None:
    with pytest.raises(KeyGroupError, match="between 1 and 32768"):
        default_max_parallelism(parallelism)


def test_more_operators_than_key_groups_are_refused() -> None:
    with pytest.raises(KeyGroupError, match="cannot share"):
        KeyGroupRange.for_operator(0, 3, 2)


def test_the_index_refuses_keys_of_other_ranges_and_types() -> None:
    index = KeyGroupIndex(STRING, KeyGroupRange(0, 80), 128)
    assert index["b"] == 22
    with pytest.raises(KeyGroupError, match="'a' is of key group 81, but this operator owns 0 to 80"):
        index["a"]
    with pytest.raises(KeyTypeError):
        index[3]
    with pytest.raises(KeyGroupError, match="not all among 128"):
        KeyGroupIndex(STRING, KeyGroupRange(0, 128), 128)
