"""Columns hash as Flink hashes their values one by one."""

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.key_hashes import hash_codes, key_groups
from slackwater.windowing.errors import KeyTypeError
from slackwater.windowing.java import wrap_int
from slackwater.windowing.key_groups import key_group_of, murmur_hash
from slackwater.windowing.key_types import TupleKey, key_type

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "string": (pa.string(), st.text(st.characters(codec="utf-8"))),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
}


@given(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4), st.integers(1, 32768), st.data())
def test_every_key_has_the_group_that_it_has_alone(
    names: list[str], max_parallelism: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(*(KINDS[name][1] for name in names)), max_size=8))
    types = [key_type(name) for name in names]
    kind = types[0] if len(names) == 1 else TupleKey(tuple(types))
    columns = [pa.array([row[number] for row in rows], KINDS[name][0]) for number, name in enumerate(names)]
    keys = [row[0] if len(names) == 1 else row for row in rows]
    expected = [key_group_of(key, kind, max_parallelism) for key in keys]
    assert key_groups(columns, max_parallelism).tolist() == expected
    cut = len(rows) // 2
    assert (
        key_groups(
            [pa.chunked_array([column[:cut], column[cut:]]) for column in columns], max_parallelism
        ).tolist()
        == expected
    )
    assert key_groups([column[cut:] for column in columns], max_parallelism).tolist() == expected[cut:]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40)))
@example(["", "\0", "\0\0", "é", "漢字", "😀", "\U0010ffff", "a😀é"])
def test_texts_hash_over_utf_16_whatever_their_column(texts: list[str]) -> None:
    expected = [key_type("string").hash_code(text) for text in texts]
    for column in (
        pa.array(texts, pa.string()),
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string()).dictionary_encode(),
    ):
        assert [wrap_int(code) for code in hash_codes([column]).tolist()] == expected


def test_texts_longer_than_a_piece_and_many_short_ones_hash_alike() -> None:
    long = ["x" * 300_000, "é" * 200_000, "", "😀" * 100_000]
    many = [f"customer-{number}" for number in range(60_000)]
    for texts in (long, many, [*many[:100], *long, *many[:100]]):
        codes = hash_codes([pa.array(texts, pa.string())]).tolist()
        assert [wrap_int(code) for code in codes] == [key_type("string").hash_code(text) for text in texts]


def test_texts_of_one_length_hash_alike() -> None:
    for letters in ("az09", "aßü€", "😀😎"):
        for length in (1, 2, 13, 32, 64, 65):
            texts = [(letters * length)[start : start + length] for start in range(len(letters))]
            codes = hash_codes([pa.array(texts, pa.string())]).tolist()
            assert [wrap_int(code) for code in codes] == [
                key_type("string").hash_code(text) for text in texts
            ]


def test_a_key_that_scrambles_to_the_least_integer_is_in_group_0() -> None:
    """Math.abs(Integer.MIN) is negative, and Flink takes 0 then. The key is found by undoing
    MathUtils.murmurHash step by step.
    """
    whole = 2**32
    bits = 2**31
    bits ^= bits >> 16
    bits = bits * pow(0xC2B2AE35, -1, whole) % whole
    bits ^= bits >> 13 ^ bits >> 26
    bits = bits * pow(0x85EBCA6B, -1, whole) % whole
    bits ^= bits >> 16
    bits = ((bits ^ 4) - 0xE6546B64) * pow(5, -1, whole) % whole
    bits = (bits >> 13 | bits << 19) % whole * pow(0x1B873593, -1, whole) % whole
    key = wrap_int((bits >> 15 | bits << 17) % whole * pow(0xCC9E2D51, -1, whole) % whole)
    assert murmur_hash(key) == 0
    keys = [key - 1, key, key + 1]
    assert key_groups([pa.array(keys, pa.int32())], 32768).tolist() == [
        murmur_hash(key) % 32768 for key in keys
    ]


def test_dates_before_and_after_1970() -> None:
    """2013-01-31: (2013 & ~2047) ^ ((2013 << 11) + (1 << 6) + 31), where 2013 < 2048 leaves the first
    term 0.
    """
    dates = [date(2013, 1, 31), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)]
    codes = hash_codes([pa.array(dates)]).tolist()
    assert codes[0] == (2013 << 11) + 64 + 31
    assert codes == [key_type("date").hash_code(day) for day in dates]


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.uint32(), pa.list_(pa.int32())])
def test_a_column_of_another_type_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(KeyTypeError, match="got a column of"):
        key_groups([pa.array([], kind)], 128)
